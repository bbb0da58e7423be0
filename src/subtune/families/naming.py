"""Canonical names of parameters, by their roles, for families that transformers' code computes.

Names follow BERT: a layer's query is ``encoder.layer.3.attention.self.query`` in every family, so
that methods, patterns, tables and figures mean the same by it. A parameter without such a role
keeps its own name after its layer's. Parameters above the pretrained part are ``classifier…``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LAYERS = "encoder.layer."
CLASSIFIER = "classifier"
# Roles in a layer: BERT's, and those of modules that BERT lacks. A norm belongs to the attention or
# to the feed-forward part, whether it stands before or after it. Of two norms, it is the one after.
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
    """The roles of the modules of a family's models.

    Attributes:
        model_types: the family's names in ``config.json``.
        layers: prefix of the names in a layer, before the layer's number, without the prefix of
            the pretrained part.
        inside: modules of a layer, or single parameters, to their roles.
        outside: the same for modules outside the layers.
        pretrained_head: modules above the pretrained part that checkpoints hold, too.
        key_bias_cancels: whether softmax ignores the key's bias. It does if attention scores are
            linear in keys that know no position.
        positions_behind_padding: whether the first token's position is behind the padding id.
    """

    model_types: tuple[str, ...]
    layers: str
    inside: Mapping[str, str]
    outside: Mapping[str, str] = field(default_factory=dict)
    pretrained_head: tuple[str, ...] = ()
    key_bias_cancels: bool = False
    positions_behind_padding: bool = False

    def canonical(self, name: str, backbone: str) -> str:
        """Return a parameter's canonical name.

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
    """Replace a parameter's module by its role, if it has one."""
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
    """Return components, each once, in the order of the forward pass; unknown ones last."""
    names = list(dict.fromkeys(components))
    known = [name for name in IN_LAYER if name in names]
    return known + [name for name in names if name not in known]


def is_embedding(name: str) -> bool:
    """Return whether a canonical name is that of an embedding table."""
    module = name.rpartition(".")[0].rpartition(".")[2]
    return module.endswith(("embeddings", "embedding", "embed_tokens"))


def is_norm(name: str) -> bool:
    """Return whether a name, canonical or not, is that of a norm's parameter."""
    module = name.rpartition(".")[0].rpartition(".")[2].lower()
    return "norm" in module or module.startswith("ln_")


# Without a description every name stays as it is.
UNKNOWN = Naming(model_types=(), layers="", inside={})
