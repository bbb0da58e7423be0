"""What is asked of a family of encoders: the names of its parameters, its heads, its size.

Names are canonical: the encoder's own, without the prefix that transformers' models with a head
have, and for what no pretrained checkpoint brings ``classifier…``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Heads by name, each as in transformers' class for this.
SEQUENCE_CLASSIFICATION = "sequence_classification"
TOKEN_CLASSIFICATION = "token_classification"
QUESTION_ANSWERING = "question_answering"
HEADS = (SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING)


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


Shape = tuple[int, ...]


class HeadLayer(NamedTuple):
    """A linear layer between a token's last hidden state and the logits.

    ``exported``: its name in transformers' model of the family. ``dropout``: fields of
    ``config.json``, of which the first that is set says how much of the layer's input is dropped;
    without any nothing is. ``activation``: of its output, by transformers' name.
    """

    module: str
    exported: str
    dropout: tuple[str, ...] = ()
    activation: str = "linear"

    def dropout_of(self, config: Any) -> float:
        """The probability that a number of the layer's input is dropped, in one model."""
        values = (getattr(config, field) for field in self.dropout)
        return next((value for value in values if value is not None), 0.0)


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
        """How many parameters a pretrained checkpoint has, which is all but the classifier's."""
        return sum(map(math.prod, self.family.checkpoint_shapes(self).values()))

    def shapes(self, outputs: int, head: str = SEQUENCE_CLASSIFICATION) -> dict[str, Shape]:
        """Canonical name to shape of every parameter of a model with a head so wide."""
        classifier = self.family.classifier_shapes(self.hidden_size, head, outputs)
        return self.family.shapes(self, head) | classifier

    def forward_flops(self, tokens: float, head: str = SEQUENCE_CLASSIFICATION) -> float:
        """Floating-point operations of one example's forward pass, of so many tokens.

        A product of ``[m, k]`` and ``[k, n]`` counts ``2·m·k·n``.
        """
        return self.family.forward_flops(self, tokens, head)


@dataclass(frozen=True, eq=False)
class Family:
    """A family of encoders: everything that differs from one to the next.

    ``model_type``: its name in ``config.json``. ``layers``: what the name of a layer's component
    begins with, before the layer's number. ``first_position``: the row of the position table that
    the first token reads, by the id of padding. ``defaults``: what a ``config.json`` may leave out,
    as transformers fills it in. ``computed``: other fields that change what a model computes, with
    the values whose computation is here.

    ``heads``: by name, the layers from what the last layer of the encoder makes of a token down to
    the logits. ``backbone``: the prefix that transformers' models with a head have before every
    name outside the head.

    ``forward_flops``: as `Dimensions` has it.
    """

    model_type: str
    layers: str
    components: Components
    embeddings: Embeddings
    first_position: Callable[[int], int]
    defaults: Mapping[str, int]
    computed: Mapping[str, tuple[Any, ...]]
    heads: Mapping[str, tuple[HeadLayer, ...]]
    backbone: str
    forward_flops: Callable[[Dimensions, float, str], float]

    def dimensions(self, config: Mapping[str, Any]) -> Dimensions:
        """A model's dimensions, by its ``config.json``."""
        fields: dict[str, Any] = {**self.defaults, **config}
        return Dimensions(self, *(fields[name] for name in Dimensions._fields[1:]))

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

    def names(self, layers: int, head: str) -> list[str]:
        """Names of the pretrained parameters of a model with so many layers and a head."""
        inside = [module for layer in range(layers) for module in self.components_of(layer)]
        pretrained = [layer.module for layer in self.heads[head] if not is_classifier(layer.module)]
        modules = [*self.embeddings, *inside, *pretrained]
        names = [f"{module}.{part}" for module in modules for part in ("weight", "bias")]
        return [name for name in names if not (self.is_embedding(name) and name.endswith(".bias"))]

    def checkpoint_names(self, layers: int) -> list[str]:
        """Names of what a pretrained checkpoint has of so many layers: all that any head reads."""
        return self.names(layers, SEQUENCE_CLASSIFICATION)

    def checkpoint_shapes(self, d: Dimensions) -> dict[str, Shape]:
        """Name to shape of what a pretrained checkpoint has."""
        return self.shapes(d, SEQUENCE_CLASSIFICATION)

    def shapes(self, d: Dimensions, head: str) -> dict[str, Shape]:
        """Name to shape of every pretrained parameter of a model with a head."""
        h, i = d.hidden_size, d.intermediate_size
        rows = (d.vocab_size, d.max_position_embeddings, d.type_vocab_size)
        weights: dict[str, Shape] = {layer.module: (h, h) for layer in self.heads[head]}
        weights |= zip(self.embeddings, [*((row, h) for row in rows), (h,)], strict=True)
        inside = [(h, h), (h, h), (h, h), (h, h), (h,), (i, h), (h, i), (h,)]
        weights |= zip(self.components, inside, strict=True)
        shapes = {}
        for name in self.names(d.num_hidden_layers, head):
            component, _, part = self.component_of(name)
            shapes[name] = weights[component] if part == "weight" else weights[component][:1]
        return shapes

    def classifier_shapes(self, hidden_size: int, head: str, outputs: int) -> dict[str, Shape]:
        """Name to shape of every parameter of a head that no pretrained checkpoint brings."""
        shapes: dict[str, Shape] = {}
        for layer in self.heads[head]:
            if is_classifier(layer.module):
                width = outputs if layer is self.heads[head][-1] else hidden_size
                shapes[f"{layer.module}.weight"] = (width, hidden_size)
                shapes[f"{layer.module}.bias"] = (width,)
        return shapes

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

    def exported_name(self, name: str, head: str) -> str:
        """A parameter's name in transformers' model of this family with a head."""
        module, _, part = name.rpartition(".")
        exported = {layer.module: layer.exported for layer in self.heads[head]}
        return f"{exported[module]}.{part}" if module in exported else f"{self.backbone}.{name}"


def reads_first_only(head: str) -> bool:
    """Whether a head reads each example's first token alone, so that the last layer computes no
    other."""
    return head == SEQUENCE_CLASSIFICATION


def is_classifier(name: str) -> bool:
    """Whether a parameter or module is one that no pretrained checkpoint brings.

    Every run draws it anew and trains it whole, whatever the selection.
    """
    return name.partition(".")[0] == "classifier"
