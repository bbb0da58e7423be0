"""A pretrained encoder with a head, and what its parameters are called.

Parameter names here are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``), and ``classifier…`` for what
no pretrained checkpoint brings. `subtune.families` says which is what.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from subtune.families import family_of
from subtune.families.base import Family, HeadLayer, is_classifier

# What transformers' configurations say that say nothing.
INITIALIZER_RANGE = 0.02


@dataclass(frozen=True)
class Skeleton:
    """Transformers' model, without its weights.

    ``module``: the model, whose own parameters hold nothing. ``own_names``: canonical name to the
    module's. ``transposed``: own names of matrices that the module holds as ``[i, o]``.
    ``buffers``: by own name, what the module reads beside parameters. ``without_effect``:
    canonical names of parameters that decide nothing. ``sees_padding``: whether the module computes
    something else of an example where padding stands behind it, so that it has to have none.
    """

    module: nn.Module
    own_names: Mapping[str, str]
    transposed: frozenset[str]
    buffers: Mapping[str, Tensor]
    without_effect: frozenset[str]
    sees_padding: bool = False


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder or decoder with a head.

    ``parameters``: every weight by canonical name, in the model's order. ``head``: its name.
    ``skeleton``: of a model whose forward pass is transformers' own.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]
    head: str
    skeleton: Skeleton | None = None

    @property
    def family(self) -> Family:
        """The family of a model whose forward pass is here."""
        return family_of(self.config.model_type)

    @property
    def head_layers(self) -> tuple[HeadLayer, ...]:
        return self.family.heads[self.head]

    @property
    def outputs(self) -> int:
        """Width of the head."""
        return self._last.shape[0]

    @property
    def device(self) -> torch.device:
        return self._last.device

    @property
    def _last(self) -> Tensor:
        """The head's last weight or bias."""
        last = [name for name in self.parameters if is_classifier(name)][-1]
        return self.parameters[last]

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        skeleton = self.skeleton
        if skeleton is not None:
            buffers = {name: value.to(device) for name, value in skeleton.buffers.items()}
            skeleton = replace(skeleton, buffers=buffers)
        return replace(self, parameters=moved, skeleton=skeleton)

    def exported_name(self, name: str) -> str:
        """A parameter's name in transformers' model."""
        if self.skeleton is not None:
            return self.skeleton.own_names[name]
        return self.family.exported_name(name, self.head)

    def is_transposed(self, name: str) -> bool:
        """Whether transformers' model holds a matrix as ``[i, o]``."""
        return self.skeleton is not None and self.exported_name(name) in self.skeleton.transposed


def shapes_of(model: Encoder) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter, classifier included."""
    return {name: tuple(value.shape) for name, value in model.parameters.items()}


def new_classifier(model: Encoder, seed: int) -> dict[str, Tensor]:
    """A classifier as transformers draws it: weights from N(0, initializer_range²), biases 0,
    norms 1."""
    generator = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, value in model.parameters.items():
        if is_classifier(name):
            drawn = torch.zeros(value.shape)
            if name.endswith(".weight") and value.ndim > 1:
                spread = getattr(model.config, "initializer_range", INITIALIZER_RANGE)
                drawn.normal_(0, spread, generator=generator)
            elif name.endswith(".weight"):
                drawn.fill_(1)
            parameters[name] = drawn.to(value)
    return parameters
