"""What the parameters of transformers' models are called here: by their roles, as BERT's are.

A layer's query is ``encoder.layer.3.attention.self.query`` in every family that has one, so that
methods, patterns, tables and figures mean the same by it. What has no role of BERT's keeps its own
name behind its layer's; what a model has above its pretrained part is ``classifier…``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LAYERS = "encoder.layer."
CLASSIFIER = "classifier"
# Roles in a layer: those of BERT, and what others have beside or in place of them. A norm is the
# attention's or the feed-forward part's, whether it stands before or after it; of two that behind.
QUERY, KEY, VALUE = (f"attention.self.{name}" for name in ("query", "key", "value"))
QUERY_KEY_VALUE = "attention.self.qkv"
QUERY_NORM, KEY_NORM = (f"attention.{name}.LayerNorm" for name in ("query", "key"))
ATTENTION_OUTPUT, ATTENTION_NORM = "attention.output.dense", "attention.output.LayerNorm"
ATTENTION_INPUT_NORM = "attention.input.LayerNorm"
INTERMEDIATE, GATE, GATE_AND_INTERMEDIATE = (
    f"intermediate.{name}" for name in ("dense", "gate", "gate_and_dense")
)
INTERMEDIATE_NORM = "intermediate.LayerNorm"
OUTPUT, OUTPUT_NORM = "output.dense", "output.LayerNorm"
# Roles outside the layers.
WORDS, POSITIONS, TOKEN_TYPES, EMBEDDINGS_NORM = (
    f"embeddings.{name}"
    for name in ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
)
RELATIVE_POSITIONS = "embeddings.relative_position_embeddings"
FINAL_NORM = "encoder.LayerNorm"


@dataclass(frozen=True)
class Naming:
    """Which modules of a family's models have which roles.

    ``model_types``: its names in ``config.json``. ``layers``: what the names of a layer's modules
    begin with, before the layer's number, behind the prefix of the pretrained part. ``inside``: a
    layer's modules, and parameters that are in no module of their own, to their roles; ``outside``
    the same of the rest. ``pretrained_head``: modules above the pretrained part that checkpoints
    bring all the same. ``key_bias_cancels``: whether scores of attention are linear in keys that
    know no position, so that softmax does not see the key's bias. ``positions_behind_padding``:
    whether the first token's position is behind the id of padding.
    """

    model_types: tuple[str, ...]
    layers: str
    inside: Mapping[str, str]
    outside: Mapping[str, str] = field(default_factory=dict)
    pretrained_head: tuple[str, ...] = ()
    key_bias_cancels: bool = False
    positions_behind_padding: bool = False

    def canonical(self, name: str, backbone: str) -> str:
        """What a parameter is called here.

        Args:
            name: its name in transformers' model.
            backbone: the prefix of the pretrained part.
        """
        inner = name.removeprefix(f"{backbone}.")
        if inner == name and not name.startswith(tuple(f"{m}." for m in self.pretrained_head)):
            return name if name.startswith(f"{CLASSIFIER}.") else f"{CLASSIFIER}.{name}"
        if self.layers and inner.startswith(self.layers):
            layer, _, rest = inner.removeprefix(self.layers).partition(".")
            return f"{LAYERS}{layer}.{_by_role(rest, self.inside)}"
        return _by_role(inner, self.outside)


def _by_role(name: str, roles: Mapping[str, str]) -> str:
    """A parameter's name with its role in place of its module, where it has one."""
    if name in roles:
        return roles[name]
    module, _, part = name.rpartition(".")
    return f"{roles.get(module, module)}.{part}" if module else part


# The roles in a layer, in the order of the forward pass.
IN_LAYER = (
    *(ATTENTION_INPUT_NORM, QUERY_KEY_VALUE, QUERY, KEY, VALUE, QUERY_NORM, KEY_NORM),
    *(ATTENTION_OUTPUT, ATTENTION_NORM, INTERMEDIATE_NORM, GATE, GATE_AND_INTERMEDIATE),
    *(INTERMEDIATE, OUTPUT, OUTPUT_NORM),
)


def in_order(components: Iterable[str]) -> list[str]:
    """The components of layers, each once, in the order of the forward pass; others behind."""
    names = list(dict.fromkeys(components))
    known = [name for name in IN_LAYER if name in names]
    return known + [name for name in names if name not in known]


def is_embedding(name: str) -> bool:
    """Whether a parameter is a table that ids look up, judged by its canonical name."""
    module = name.rpartition(".")[0].rpartition(".")[2]
    return module.endswith(("embeddings", "embedding", "embed_tokens"))


def is_norm(name: str) -> bool:
    """Whether a parameter is a norm's, judged by its name, canonical or not."""
    module = name.rpartition(".")[0].rpartition(".")[2].lower()
    return "norm" in module or module.startswith("ln_")


# Of a family that no one has described all names are its own.
UNKNOWN = Naming(model_types=(), layers="", inside={})
