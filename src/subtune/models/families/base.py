"""What is asked of a family of encoders: the names of its parameters, its head, its size.

Names are canonical: the encoder's own, without the prefix that transformers' classifier has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Component(NamedTuple):
    """Where a parameter belongs: ``attention.self.query``, layer 3, ``weight``.

    Outside the layers ``layer`` is None and ``component`` the module's own name.
    """

    component: str
    layer: int | None
    part: str


class Components(NamedTuple):
    """The components of a layer by their role, in the order of the forward pass."""

    query: str
    key: str
    value: str
    attention_output: str
    attention_norm: str
    intermediate: str
    output: str
    output_norm: str


class Embeddings(NamedTuple):
    """The tables that are added up, and the norm of their sum, which the first layer reads."""

    word: str
    position: str
    token_type: str
    norm: str


class Dimensions(NamedTuple):
    """What decides a model's size and how much it computes, named as in its ``config.json``."""

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
        """Parameters of the encoder, its pooler included."""
        return self.family.parameters(self)

    def forward_flops(self, tokens: float) -> float:
        """Floating-point operations of one example's forward pass, of so many tokens.

        A product of ``[m, k]`` and ``[k, n]`` counts ``2·m·k·n``.
        """
        return self.family.forward_flops(self, tokens)


@dataclass(frozen=True, eq=False)
class Family:
    """A family of encoders: everything that differs from one to the next.

    ``model_type``: its name in ``config.json``. ``layers``: what the name of a layer's component
    begins with, before the layer's number. ``pooler``: the module that reads the last layer's first
    token. ``first_position``: the row of the position table that the first token reads, by the
    model's configuration.

    ``classifier``: the module on top of the encoder in transformers' classifier of this family.
    ``renamed``: what the names of the head's parameters begin with here, and what there; every
    other name gets the prefix ``backbone`` there.

    ``parameters`` and ``forward_flops``: as `Dimensions` has them.
    """

    model_type: str
    layers: str
    components: Components
    embeddings: Embeddings
    pooler: str
    first_position: Callable[[Any], int]
    backbone: str
    classifier: str
    renamed: Mapping[str, str]
    parameters: Callable[[Dimensions], int]
    forward_flops: Callable[[Dimensions, float], float]

    def component_of(self, name: str) -> Component:
        """Split a canonical parameter name into component, layer and part."""
        module, _, part = name.rpartition(".")
        if module.startswith(self.layers):
            layer, _, component = module.removeprefix(self.layers).partition(".")
            return Component(component, int(layer), part)
        return Component(module, None, part)

    def components_of(self, layer: int) -> Components:
        """The modules of a layer, by their whole names."""
        return Components(*(f"{self.layers}{layer}.{component}" for component in self.components))

    def names(self, layers: int) -> list[str]:
        """Names of the parameters of an encoder with so many layers."""
        inside = [module for layer in range(layers) for module in self.components_of(layer)]
        modules = [*self.embeddings, *inside, self.pooler]
        names = [f"{module}.{part}" for module in modules for part in ("weight", "bias")]
        return [name for name in names if not (self.is_embedding(name) and name.endswith(".bias"))]

    def is_norm(self, name: str) -> bool:
        """Whether a parameter is a norm's."""
        norms = (
            self.embeddings.norm,
            self.components.attention_norm,
            self.components.output_norm,
        )
        return self.component_of(name).component in norms

    def is_embedding(self, name: str) -> bool:
        """Whether a parameter is a table that ids look up."""
        return self.component_of(name).component in self.embeddings[:-1]

    def cancels(self, name: str) -> bool:
        """Whether a parameter decides nothing, and has gradient 0: a key's bias.

        It adds the same number to all scores of a query, which softmax does not see. Computed, its
        gradient would be rounding noise, which Adam scales up to full steps.
        """
        component, _, part = self.component_of(name)
        return component == self.components.key and part == "bias"

    def has_token_types(self, config: Mapping[str, Any]) -> bool:
        """Whether a model tells the two texts of a pair apart, by its ``config.json``."""
        return config.get("type_vocab_size", 1) > 1

    def exported_name(self, name: str) -> str:
        """A parameter's name in transformers' classifier of this family."""
        for here, there in self.renamed.items():
            if name.startswith(here):
                return there + name.removeprefix(here)
        return f"{self.backbone}.{name}"
