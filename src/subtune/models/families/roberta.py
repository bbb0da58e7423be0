"""RoBERTa (Liu et al., 2019): what differs from BERT."""

from dataclasses import replace

from subtune.models.families.bert import BERT

ROBERTA = replace(
    BERT,
    model_type="roberta",
    # Positions are counted from behind the padding id.
    first_position=lambda padding: padding + 1,
    defaults={**BERT.defaults, "vocab_size": 50265, "pad_token_id": 1},
    backbone="roberta",
    # Its own classifier has what is the pooler here as its first layer.
    renamed={"pooler.dense.": "classifier.dense.", "classifier.": "classifier.out_proj."},
)
