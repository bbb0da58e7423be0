"""The components of an encoder layer, and to which of them a parameter belongs."""

from typing import NamedTuple


class Component(NamedTuple):
    """Where a parameter belongs: ``attention.self.query``, layer 3, ``weight``.

    Outside the layers ``layer`` is None and ``component`` the module's own name.
    """

    component: str
    layer: int | None
    part: str


# The eight components of a layer, in the order of the forward pass.
COMPONENTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)

# The tables that are added up to what the first layer reads.
EMBEDDINGS = (
    "embeddings.word_embeddings",
    "embeddings.position_embeddings",
    "embeddings.token_type_embeddings",
)


def component_of(name: str) -> Component:
    """Split a canonical parameter name into component, layer and part."""
    module, _, part = name.rpartition(".")
    if module.startswith("encoder.layer."):
        layer, _, component = module.removeprefix("encoder.layer.").partition(".")
        return Component(component, int(layer), part)
    return Component(module, None, part)
