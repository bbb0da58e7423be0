"""RoBERTa (Liu et al., 2019) and XLM-R (Conneau et al., 2020): what differs from BERT."""

from dataclasses import replace

from subtune.families.base import SEQUENCE_CLASSIFICATION, HeadLayer
from subtune.families.bert import BERT, CLASSIFIER_DROPOUT

ROBERTA = replace(
    BERT,
    model_type="roberta",
    defaults={**BERT.defaults, "vocab_size": 50265, "pad_token_id": 1},
    # It is pretrained without a pooler. The sequence head has a dense layer of its own.
    heads={
        **BERT.heads,
        SEQUENCE_CLASSIFICATION: (
            HeadLayer("classifier.dense", "classifier.dense", CLASSIFIER_DROPOUT, "tanh"),
            HeadLayer("classifier.out_proj", "classifier.out_proj", CLASSIFIER_DROPOUT),
        ),
    },
    backbone="roberta",
)

XLM_ROBERTA = replace(
    ROBERTA, model_type="xlm-roberta", defaults={**BERT.defaults, "pad_token_id": 1}
)
