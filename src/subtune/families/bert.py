"""BERT (Devlin et al., 2019), RoBERTa (Liu et al., 2019) and XLM-R (Conneau et al., 2020)."""

from dataclasses import replace

from subtune.families.base import (
    MEAN_CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQUENCE_CLASSIFICATION,
    TOKEN_CLASSIFICATION,
    Family,
    HeadLayer,
)

# transformers' activations that act on each number alone and have no parameters.
ACTIVATIONS = (
    *("gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python"),
    *("gelu_python_tanh", "gelu_pytorch_tanh", "hardswish", "leaky_relu", "linear", "mish"),
    *("quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "swish", "tanh"),
)
CLASSIFIER_DROPOUT = ("classifier_dropout", "hidden_dropout_prob")
OF_TOKENS = (HeadLayer("classifier", "classifier", CLASSIFIER_DROPOUT),)

BERT = Family(
    model_type="bert",
    defaults={
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "pad_token_id": 0,
    },
    computed={
        "hidden_act": ACTIVATIONS,
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "is_encoder_decoder": (False,),
        "add_cross_attention": (False,),
        "pruned_heads": ({},),
        "per_layer_config": ({},),
        # The model brings its own code.
        "auto_map": (),
    },
    heads={
        SEQUENCE_CLASSIFICATION: (
            HeadLayer("pooler.dense", exported="bert.pooler.dense", activation="tanh"),
            HeadLayer("classifier", exported="classifier", dropout=CLASSIFIER_DROPOUT),
        ),
        MEAN_CLASSIFICATION: OF_TOKENS,
        TOKEN_CLASSIFICATION: OF_TOKENS,
        QUESTION_ANSWERING: (HeadLayer("classifier", "qa_outputs"),),
    },
    backbone="bert",
)

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
