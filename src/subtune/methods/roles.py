"""Canonical names of parameters, which are the same in every family of models.

Canonical names follow BERT: ``encoder.layer.3.attention.self.query`` is the query projection of
layer 3 in every family. The part after the layer's number is the *role* of a module. A module
without a role keeps its own name. Canonical names lack the base-model prefix, such as ``bert.``.
The names of parameters above the pretrained part begin with ``classifier``.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, format_allowed, join_names
from subtune.core.files import read_package_yaml

LAYERS = "encoder.layer."
CLASSIFIER = "classifier"
# The prefixes of the trained and of the frozen parameters that adapters and PEFT add.
ADDED, FIXED = "added", "fixed"
KEY = "attention.self.key"
# The roles in a layer, in the order of the forward pass. BERT does not have all of these modules.
# Norms can come before and after attention, and before and after the feed-forward part. If there is
# a norm before and a norm after a part, the norm after the part has BERT's name.
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


# The key in the `config.json` of a model of another family for the roles of its modules, and the
# fields of `Naming` in its value.
ROLES_KEY = "subtune_roles"
OWN_ROLES = {"layers": str, "inside": dict, "outside": dict, "key_bias_cancels": bool}

# The roles outside of the layers.
OUTSIDE_LAYERS = (
    "embeddings.word_embeddings",
    "embeddings.position_embeddings",
    "embeddings.relative_position_embeddings",
    "embeddings.token_type_embeddings",
    "embeddings.LayerNorm",
    "encoder.LayerNorm",
)


@dataclass(frozen=True)
class Naming:
    """The mapping from transformers' parameter names to roles, for one family of models.

    A family without roles keeps transformers' names.

    Attributes:
        model_types: the values of ``model_type`` in ``config.json`` that belong to the family.
        layers: the part of a parameter's name between the base-model prefix and the layer's number.
        inside: maps the names of modules or parameters inside a layer to their roles.
        outside: maps the names of modules outside the layers to their roles.
        pretrained_head: the modules above the base model whose parameters are in checkpoints.
        key_bias_cancels: whether the bias of the key projection cancels in the softmax: attention
            scores are linear in the keys, and positions are not added to the keys.
        positions_behind_padding: whether a text's first position is the padding id + 1, not 0.
        pooling_field: the field of ``config.json`` for the pooling of transformers' sequence
            classifier; empty if there is none.
    """

    model_types: Iterable[str] = ()
    layers: str = ""
    inside: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    pretrained_head: Iterable[str] = ()
    key_bias_cancels: bool = False
    positions_behind_padding: bool = False
    pooling_field: str = ""

    def canonical_name(self, name: str, backbone: str) -> str:
        """Return the canonical name of a parameter; ``backbone`` is the base-model prefix."""
        inner = name.removeprefix(f"{backbone}.")
        if inner == name and not name.startswith(tuple(f"{m}." for m in self.pretrained_head)):
            return name if name.startswith(f"{CLASSIFIER}.") else f"{CLASSIFIER}.{name}"
        if self.layers and inner.startswith(self.layers):
            layer, _, rest = inner.removeprefix(self.layers).partition(".")
            return f"{LAYERS}{layer}.{_replace_module_by_role(rest, self.inside)}"
        return _replace_module_by_role(inner, self.outside)


def _replace_module_by_role(name: str, roles: Mapping[str, str]) -> str:
    """Replace the module in a parameter's name by the module's role, if it has one."""
    if name in roles:
        return roles[name]
    module, _, part = name.rpartition(".")
    return f"{roles.get(module, module)}.{part}" if module else part


def sort_components(components: Iterable[str]) -> list[str]:
    """Sort components in the order of the forward pass, others last, and drop duplicates."""
    order = {name: number for number, name in enumerate(IN_LAYER)}
    return sorted(dict.fromkeys(components), key=lambda name: order.get(name, len(order)))


def is_embedding(name: str) -> bool:
    """Return whether a parameter, given by its canonical name, is an embedding table."""
    module = name.rpartition(".")[0].rpartition(".")[2]
    return module.endswith(("embeddings", "embedding", "embed_tokens"))


def is_key_bias(name: str) -> bool:
    """Return whether a parameter, given by its canonical name, is the bias of a key projection.

    The bias adds the same number to all attention scores of a query, which cancels in the softmax.
    Therefore the true gradient of the bias is 0, and Adam would scale up the rounding noise in its
    computed gradient. In some families, the bias does not cancel; see `Naming.key_bias_cancels`.
    """
    return name.endswith(f".{KEY}.bias")


def is_norm(name: str) -> bool:
    """Return whether a parameter belongs to a norm. The parameter's name need not be canonical."""
    module = name.rpartition(".")[0].rpartition(".")[2].lower()
    return "norm" in module or module.startswith("ln_")


class Component(NamedTuple):
    """The role of a module (outside the layers, its name), its layer or None, and the last part."""

    component: str
    layer: int | None
    # The last part of the name, such as ``weight``.
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
    """Return whether a parameter or module belongs to the classifier.

    The classifier is not pretrained: every run initialises it randomly, and trains all of it.
    """
    return name.partition(".")[0] == CLASSIFIER


def is_added(name: str) -> bool:
    """Return whether a parameter is one of the trained parameters that adapters or PEFT add."""
    return name.partition(".")[0] == ADDED


def is_pretrained(name: str) -> bool:
    """Return whether a parameter comes from the pretrained checkpoint."""
    return name.partition(".")[0] not in (ADDED, CLASSIFIER, FIXED)


NAMINGS = {
    model_type: Naming(**fields)
    for fields in read_package_yaml("subtune.methods", "namings.yaml")
    for model_type in fields["model_types"]
}


def family_naming(model_type: str, own: Mapping[str, Any] | None = None) -> Naming:
    """Return the `Naming` of a model type.

    That of an unknown type has the roles in ``own``, the value of `ROLES_KEY`, or no roles.
    """
    return NAMINGS.get(model_type) or Naming(**own or {})


def check_roles(model_type: str, own: Any, known: Collection[str]) -> None:
    """Raise a `SubtuneError` if a model's own roles, the value of `ROLES_KEY`, cannot be used.

    The model types in ``known`` have roles already.
    """
    if model_type in known:
        raise SubtuneError(f"found roles, but subtune knows those of {model_type}; remove the key")
    if not isinstance(own, dict):
        expected = f"expected an object with the keys {join_names(OWN_ROLES)}"
        raise SubtuneError(f"found {own!r}, {expected}")
    for name, value in own.items():
        if name not in OWN_ROLES:
            raise SubtuneError(format_allowed(name, OWN_ROLES))
        if not isinstance(value, OWN_ROLES[name]):
            raise SubtuneError(f"{name}: found {value!r}, expected {OWN_ROLES[name].__name__}")
    if not own.get("layers", ".").endswith("."):
        raise SubtuneError(f"layers: found {own['layers']!r}, expected a dot at the end")
    for place, allowed in (("inside", IN_LAYER), ("outside", OUTSIDE_LAYERS)):
        for role in own.get(place, {}).values():
            if str(role).removesuffix(".weight").removesuffix(".bias") not in allowed:
                raise SubtuneError(f"{place}: {format_allowed(role, allowed)}")


def first_position(model_type: str, padding: int) -> int:
    """Return the index of a text's first position embedding, given the id of the padding token."""
    return padding + 1 if family_naming(model_type).positions_behind_padding else 0
