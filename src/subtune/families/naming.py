"""Canonical names of parameters, by their roles, for families that transformers' code computes.

Names follow BERT: a layer's query is ``encoder.layer.3.attention.self.query`` in every family, so
that methods, patterns, tables and figures mean the same by it. A parameter without such a role
keeps its own name after its layer's. Parameters above the pretrained part are ``classifier…``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LAYERS = "encoder.layer."
CLASSIFIER = "classifier"
# Parameters of modules that are put into a model: those that train, and the others.
ADDED, FIXED = "added", "fixed"
KEY = "attention.self.key"
# The roles in a layer, in the order of the forward pass: BERT's, and those of modules that BERT
# lacks. A norm belongs to the attention or to the feed-forward part, whether it stands before or
# after it. If a part has two norms, the one after it has BERT's name.
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


@dataclass(frozen=True)
class Naming:
    """The roles of the modules of a family's models. Without any every name stays as it is.

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
        pooling_field: field of ``config.json`` that says which tokens transformers' sequence
            classifier reads, if it can read several.
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
    """Replace a parameter's module by its role, if it has one."""
    if name in roles:
        return roles[name]
    module, _, part = name.rpartition(".")
    return f"{roles.get(module, module)}.{part}" if module else part


def in_order(components: Iterable[str]) -> list[str]:
    """Return components, each once, in the order of the forward pass; unknown ones last."""
    names = list(dict.fromkeys(components))
    known = [name for name in IN_LAYER if name in names]
    return known + [name for name in names if name not in known]


def is_embedding(name: str) -> bool:
    """Return whether a canonical name is that of an embedding table."""
    module = name.rpartition(".")[0].rpartition(".")[2]
    return module.endswith(("embeddings", "embedding", "embed_tokens"))


def is_key_bias(name: str) -> bool:
    """Return whether a canonical name is that of a key's bias.

    It adds the same number to all scores of a query, which softmax ignores, unless the model does
    more with keys (`Naming.key_bias_cancels`). Its gradient is then 0. A computed one would be
    rounding noise, which Adam turns into full steps.
    """
    return name.endswith(f".{KEY}.bias")


def is_norm(name: str) -> bool:
    """Return whether a name, canonical or not, is that of a norm's parameter."""
    module = name.rpartition(".")[0].rpartition(".")[2].lower()
    return "norm" in module or module.startswith("ln_")
