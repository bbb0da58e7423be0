"""Names of parameters by their roles, the same in every family of models.

Names follow BERT: the query of layer 3 is ``encoder.layer.3.attention.self.query`` in every family,
so that a name means the same in methods, patterns, tables and figures. If a parameter of a layer
has no such role, its own name follows the layer's name. The prefix that transformers' models with a
head have, such as ``bert.``, is left out. Parameters above the pretrained part begin with
``classifier``. No module but this and `subtune.models.families` names a family.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from subtune.core.files import read_package_yaml

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


def sort_components(components: Iterable[str]) -> list[str]:
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


def split_name(name: str) -> Component:
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


NAMINGS = {
    model_type: Naming(**fields)
    for fields in read_package_yaml("subtune.methods", "namings.yaml")
    for model_type in fields["model_types"]
}


def family_naming(model_type: str) -> Naming:
    """Return the roles of parameters in models of a type. Models of an unknown type have none."""
    return NAMINGS.get(model_type, Naming())


def first_position(model_type: str, padding: int) -> int:
    """Return the row of the table of positions that a text's first token reads.

    ``padding`` is the id of the padding token.
    """
    return padding + 1 if family_naming(model_type).positions_behind_padding else 0
