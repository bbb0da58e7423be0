"""The heads of models, and the families for which subtune has its own forward pass.

These families are BERT, RoBERTa and XLM-RoBERTa. All others run transformers' code; a `Naming`
maps their parameter names to roles.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from subtune.methods.roles import KEY, LAYERS, Shape, is_classifier, is_embedding
from subtune.tasks.examples import Reads

# The names of heads, which are similar to the names of transformers' classes. `MEAN_CLASSIFICATION`
# is a token classifier whose logits are averaged over the tokens of a text. Averaging the hidden
# states before the linear layer would give the same logits.
SEQUENCE_CLASSIFICATION = "sequence_classification"
MEAN_CLASSIFICATION = "mean_classification"
TOKEN_CLASSIFICATION = "token_classification"
QUESTION_ANSWERING = "question_answering"
# Maps each head to the tokens whose hidden states the head reads.
HEADS: dict[str, Reads] = {
    SEQUENCE_CLASSIFICATION: "first",
    MEAN_CLASSIFICATION: "all",
    TOKEN_CLASSIFICATION: "marked",
    QUESTION_ANSWERING: "all",
}


class HeadLayer(NamedTuple):
    """A linear layer between a token's last hidden state and the logits.

    Attributes:
        module: the canonical name of the layer.
        exported: the layer's name in the transformers model.
        dropout: fields of ``config.json``; the first of them that is set gives the dropout
            probability of the input.
        activation: transformers' name of the activation function after the layer.
    """

    module: str
    exported: str
    dropout: tuple[str, ...] = ()
    activation: str = "linear"

    def dropout_probability(self, config: Any) -> float:
        values = (getattr(config, field) for field in self.dropout)
        return next((value for value in values if value is not None), 0.0)


class Dimensions(NamedTuple):
    """The dimensions of a model, named like the fields of its ``config.json``."""

    family: "Family"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int

    @property
    def model_type(self) -> str:
        return self.family.model_type

    @property
    def is_decoder(self) -> bool:
        """False, because tokens in BERT and RoBERTa also attend to later tokens."""
        return False

    @property
    def parameters(self) -> int:
        """The number of pretrained parameters, without the classifier."""
        return sum(map(math.prod, self.pretrained_shapes().values()))

    def pretrained_shapes(self, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Return the shapes of the pretrained parameters that a head uses (all by default)."""
        shapes = self.shapes(1, head).items()
        return {name: shape for name, shape in shapes if not is_classifier(name)}

    def shapes(self, outputs: int, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Return each parameter's shape by canonical name, for a head with ``outputs`` logits."""
        h, i = self.hidden_size, self.intermediate_size
        weights: dict[str, Shape] = {
            "embeddings.word_embeddings": (self.vocab_size, h),
            "embeddings.position_embeddings": (self.max_position_embeddings, h),
            "embeddings.token_type_embeddings": (self.type_vocab_size, h),
            "embeddings.LayerNorm": (h,),
        }
        inside: dict[str, Shape] = {
            "attention.self.query": (h, h),
            KEY: (h, h),
            "attention.self.value": (h, h),
            "attention.output.dense": (h, h),
            "attention.output.LayerNorm": (h,),
            "intermediate.dense": (i, h),
            "output.dense": (h, i),
            "output.LayerNorm": (h,),
        }
        for layer in range(self.num_hidden_layers):
            weights |= {f"{LAYERS}{layer}.{name}": shape for name, shape in inside.items()}
        *inner, last = [layer.module for layer in self.family.heads[head]]
        weights |= dict.fromkeys(inner, (h, h)) | {last: (outputs, h)}
        shapes = {}
        for module, shape in weights.items():
            shapes[f"{module}.weight"] = shape
            if not is_embedding(f"{module}.weight"):
                shapes[f"{module}.bias"] = shape[:1]
        return shapes

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Compute the number of floating-point operations in the forward pass of one example.

        The product of matrices ``[m, k]`` and ``[k, n]`` counts as ``2·m·k·n`` operations. If the
        head reads only the first token, the last layer computes only keys and values for all
        tokens.
        """
        h, i = self.hidden_size, self.intermediate_size
        linear, keys_and_values = 2 * (4 * h * h + 2 * h * i), 2 * 2 * h * h
        attention = 2 * 2 * tokens * h
        if head != SEQUENCE_CLASSIFICATION:
            return self.num_hidden_layers * tokens * (linear + attention)
        other_layers = (self.num_hidden_layers - 1) * tokens * (linear + attention)
        last_layer = tokens * keys_and_values + linear - keys_and_values + attention
        return other_layers + last_layer + 2 * h * h


@dataclass(frozen=True, eq=False)
class Family:
    """A family of models for which subtune has its own forward pass.

    Attributes:
        model_type: the family's model type in ``config.json``.
        defaults: transformers' default values of fields that ``config.json`` can leave out.
        computed: maps other fields of ``config.json`` to the supported values.
        heads: maps each head to its layers, in the order of the forward pass.
        backbone: the base-model prefix.
    """

    model_type: str
    defaults: Mapping[str, int]
    computed: Mapping[str, tuple[Any, ...]]
    heads: Mapping[str, tuple[HeadLayer, ...]]
    backbone: str

    def dimensions(self, config: Mapping[str, Any]) -> Dimensions:
        fields: dict[str, Any] = {**self.defaults, **config}
        return Dimensions(self, *(fields[name] for name in Dimensions._fields[1:]))

    def exported_name(self, name: str, head: str) -> str:
        """Convert a canonical parameter name to its name in the transformers model with a head."""
        module, _, part = name.rpartition(".")
        exported = {layer.module: layer.exported for layer in self.heads[head]}
        return f"{exported[module]}.{part}" if module in exported else f"{self.backbone}.{name}"


# Transformers' names of elementwise activation functions without parameters.
ACTIVATIONS = (
    *("gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python"),
    *("gelu_python_tanh", "gelu_pytorch_tanh", "hardswish", "leaky_relu", "linear", "mish"),
    *("quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "swish", "tanh"),
)
CLASSIFIER_DROPOUT = ("classifier_dropout", "hidden_dropout_prob")
TOKEN_HEAD = (HeadLayer("classifier", "classifier", CLASSIFIER_DROPOUT),)
# Devlin et al., 2019.
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
        # ``auto_map`` names custom code in the model's repository, which subtune does not run.
        "auto_map": (),
    },
    heads={
        SEQUENCE_CLASSIFICATION: (
            HeadLayer("pooler.dense", exported="bert.pooler.dense", activation="tanh"),
            HeadLayer("classifier", exported="classifier", dropout=CLASSIFIER_DROPOUT),
        ),
        MEAN_CLASSIFICATION: TOKEN_HEAD,
        TOKEN_CLASSIFICATION: TOKEN_HEAD,
        QUESTION_ANSWERING: (HeadLayer("classifier", "qa_outputs"),),
    },
    backbone="bert",
)
# Liu et al., 2019.
ROBERTA = replace(
    BERT,
    model_type="roberta",
    defaults={**BERT.defaults, "vocab_size": 50265, "pad_token_id": 1},
    # RoBERTa is pretrained without a pooler, so its sequence classifier has a dense layer.
    heads={
        **BERT.heads,
        SEQUENCE_CLASSIFICATION: (
            HeadLayer("classifier.dense", "classifier.dense", CLASSIFIER_DROPOUT, "tanh"),
            HeadLayer("classifier.out_proj", "classifier.out_proj", CLASSIFIER_DROPOUT),
        ),
    },
    backbone="roberta",
)
# Conneau et al., 2020.
XLM_ROBERTA = replace(
    ROBERTA, model_type="xlm-roberta", defaults={**BERT.defaults, "pad_token_id": 1}
)
# Maps the ``model_type`` in ``config.json`` to the family.
FAMILIES = {family.model_type: family for family in (BERT, ROBERTA, XLM_ROBERTA)}
