"""Names of parameters by their roles, and the heads and sizes of packed families.

Names follow BERT: the query of layer 3 is ``encoder.layer.3.attention.self.query`` in every family,
so that a name means the same in methods, patterns, tables and figures. If a parameter of a layer
has no such role, its own name follows the layer's name. The prefix that transformers' models with a
head have, such as ``bert.``, is left out. Parameters above the pretrained part begin with
``classifier``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from subtune.tasks.examples import Reads

LAYERS = "encoder.layer."
CLASSIFIER = "classifier"
# Prefixes of the parameters that adapters and PEFT add: trained ones, and frozen ones.
ADDED, FIXED = "added", "fixed"
KEY = "attention.self.key"
# The roles in a layer, in the order of the forward pass: BERT's, and those of modules that BERT
# lacks. A norm stands before or after attention or the feed-forward part. If there are two, the
# norm after the part has BERT's name.
IN_LAYER = (
    "attention.input.LayerNorm",
    "attention.self.qkv",
    "attention.self.query",
    KEY,
    "attention.self.value",
    "attention.query.LayerNorm",
    "attention.key.LayerNorm",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.LayerNorm",
    "intermediate.gate",
    "intermediate.gate_and_dense",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
# Names of heads, which are those of transformers' classes. `MEAN_CLASSIFICATION` is a token
# classifier whose logits are averaged over a text's tokens, which equals a linear layer on the mean
# of the tokens' states.
SEQUENCE_CLASSIFICATION = "sequence_classification"
MEAN_CLASSIFICATION = "mean_classification"
TOKEN_CLASSIFICATION = "token_classification"
QUESTION_ANSWERING = "question_answering"
# Each head, and the tokens that it reads.
HEADS: dict[str, Reads] = {
    SEQUENCE_CLASSIFICATION: "first",
    MEAN_CLASSIFICATION: "all",
    TOKEN_CLASSIFICATION: "marked",
    QUESTION_ANSWERING: "all",
}


@dataclass(frozen=True)
class Naming:
    """The roles of the modules of a family's models.

    A family without roles keeps transformers' names.

    Attributes:
        model_types: the family's names in ``config.json``.
        layers: the part of a layer's name before the number, without the prefix of the pretrained
            part.
        inside: roles of a layer's modules, or of single parameters, by name.
        outside: roles of modules outside the layers, by name.
        pretrained_head: names of modules above the pretrained part that checkpoints also hold.
        key_bias_cancels: whether softmax ignores the key's bias. It does if attention scores are
            linear in keys without positions.
        positions_behind_padding: whether positions are counted from the padding id + 1.
        pooling_field: the field of ``config.json`` that says which tokens transformers' sequence
            classifier reads, if there is a choice.
    """

    model_types: Iterable[str] = ()
    layers: str = ""
    inside: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    pretrained_head: Iterable[str] = ()
    key_bias_cancels: bool = False
    positions_behind_padding: bool = False
    pooling_field: str = ""

    def canonical(self, name: str, backbone: str) -> str:
        """Return the canonical name of a parameter that transformers' model calls ``name``.

        ``backbone`` is the prefix of the pretrained part.
        """
        inner = name.removeprefix(f"{backbone}.")
        if inner == name and not name.startswith(tuple(f"{m}." for m in self.pretrained_head)):
            return name if name.startswith(f"{CLASSIFIER}.") else f"{CLASSIFIER}.{name}"
        if self.layers and inner.startswith(self.layers):
            layer, _, rest = inner.removeprefix(self.layers).partition(".")
            return f"{LAYERS}{layer}.{_by_role(rest, self.inside)}"
        return _by_role(inner, self.outside)


def _by_role(name: str, roles: Mapping[str, str]) -> str:
    """Return a parameter's name with its module's role, if the module has one."""
    if name in roles:
        return roles[name]
    module, _, part = name.rpartition(".")
    return f"{roles.get(module, module)}.{part}" if module else part


def in_order(components: Iterable[str]) -> list[str]:
    """Return each component once, in the order of the forward pass, with unknown ones last."""
    names = list(dict.fromkeys(components))
    known = [name for name in IN_LAYER if name in names]
    return known + [name for name in names if name not in known]


def is_embedding(name: str) -> bool:
    """Return whether a canonical name is that of an embedding table."""
    module = name.rpartition(".")[0].rpartition(".")[2]
    return module.endswith(("embeddings", "embedding", "embed_tokens"))


def is_key_bias(name: str) -> bool:
    """Return whether a canonical name is that of a key's bias.

    Unless the model does more with keys (`Naming.key_bias_cancels`), a key's bias adds the same
    number to all scores of a query. Softmax ignores that number, so the gradient is 0. A computed
    gradient would be rounding noise, which Adam turns into full steps.
    """
    return name.endswith(f".{KEY}.bias")


def is_norm(name: str) -> bool:
    """Return whether a name, canonical or not, is that of a norm's parameter."""
    module = name.rpartition(".")[0].rpartition(".")[2].lower()
    return "norm" in module or module.startswith("ln_")


class Component(NamedTuple):
    """The place of a parameter in the model.

    Attributes:
        component: the role of its module, such as ``attention.self.query``; outside the layers the
            module's name.
        layer: the number of its layer, from 0; None outside the layers.
        part: the parameter's own name, such as ``weight``.
    """

    component: str
    layer: int | None
    part: str


Shape = tuple[int, ...]


class HeadLayer(NamedTuple):
    """A linear layer between a token's last hidden state and the logits.

    Attributes:
        module: its canonical name.
        exported: its name in transformers' model.
        dropout: fields of ``config.json``. The first one that is set is the dropout probability of
            the layer's input.
        activation: transformers' name of the activation of the layer's output.
    """

    module: str
    exported: str
    dropout: tuple[str, ...] = ()
    activation: str = "linear"

    def dropout_of(self, config: Any) -> float:
        """Return the dropout probability of the layer's input in a model with this ``config``."""
        values = (getattr(config, field) for field in self.dropout)
        return next((value for value in values if value is not None), 0.0)


class Dimensions(NamedTuple):
    """The dimensions of a model, named as in its ``config.json``."""

    family: "Family"
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int

    @property
    def parameters(self) -> int:
        """The number of pretrained parameters: all but the classifier's."""
        return sum(map(math.prod, self.pretrained_shapes().values()))

    def pretrained_shapes(self, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Return the shape of every pretrained parameter that a head needs, by canonical name.

        The default head needs all of them.
        """
        every = self.shapes(1, head).items()
        return {name: shape for name, shape in every if not is_classifier(name)}

    def shapes(self, outputs: int, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Return the shape of every parameter of a model with a head, by canonical name."""
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

    def exported_names(self, head: str) -> dict[str, str]:
        """Map every parameter's canonical name to transformers' name, with a head."""
        return {name: self.family.exported_name(name, head) for name in self.shapes(1, head)}

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Return the number of floating-point operations of one example's forward pass.

        A product of ``[m, k]`` and ``[k, n]`` counts ``2·m·k·n``. If a head reads only the first
        token, the last layer computes keys and values of all tokens, and everything else of that
        token alone.
        """
        h, i = self.hidden_size, self.intermediate_size
        linear, keys_and_values = 2 * (4 * h * h + 2 * h * i), 2 * 2 * h * h
        attention = 2 * 2 * tokens * h
        if head != SEQUENCE_CLASSIFICATION:
            return self.num_hidden_layers * tokens * (linear + attention)
        full = (self.num_hidden_layers - 1) * tokens * (linear + attention)
        return full + tokens * keys_and_values + linear - keys_and_values + attention + 2 * h * h


@dataclass(frozen=True, eq=False)
class Family:
    """The facts in which packed families differ.

    Attributes:
        model_type: the family's name in ``config.json``.
        defaults: values of fields that ``config.json`` may leave out, as in transformers.
        computed: the supported values of other fields that change the computation.
        heads: the layers of each head, from a token's last hidden state to the logits.
        backbone: the prefix of every name outside the head in transformers' models with a head.
    """

    model_type: str
    defaults: Mapping[str, int]
    computed: Mapping[str, tuple[Any, ...]]
    heads: Mapping[str, tuple[HeadLayer, ...]]
    backbone: str

    def dimensions(self, config: Mapping[str, Any]) -> Dimensions:
        """Return a model's dimensions from its ``config.json``."""
        fields: dict[str, Any] = {**self.defaults, **config}
        return Dimensions(self, *(fields[name] for name in Dimensions._fields[1:]))

    def exported_name(self, name: str, head: str) -> str:
        """Return a parameter's name in transformers' model of this family with a head."""
        module, _, part = name.rpartition(".")
        exported = {layer.module: layer.exported for layer in self.heads[head]}
        return f"{exported[module]}.{part}" if module in exported else f"{self.backbone}.{name}"


def component_of(name: str) -> Component:
    """Split a canonical parameter name into component, layer and part."""
    module, _, part = name.rpartition(".")
    if module.startswith(LAYERS):
        layer, _, component = module.removeprefix(LAYERS).partition(".")
        return Component(component, int(layer), part)
    return Component(module, None, part)


def is_classifier(name: str) -> bool:
    """Return whether a parameter or module belongs to the classifier, which is not pretrained.

    Every run draws a new classifier and trains all of it, whatever the selection.
    """
    return name.partition(".")[0] == CLASSIFIER


def is_added(name: str) -> bool:
    """Return whether a parameter was added by adapters or PEFT, and trains."""
    return name.partition(".")[0] == ADDED


def is_pretrained(name: str) -> bool:
    """Return whether a parameter is in the pretrained checkpoint."""
    return name.partition(".")[0] not in (ADDED, CLASSIFIER, FIXED)


# Transformers' names of activations that act on each number alone and have no parameters.
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
        # `auto_map` names code that comes with the model.
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
    # RoBERTa is pretrained without a pooler. Its sequence head has a dense layer of its own.
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
