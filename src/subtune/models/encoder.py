"""A pretrained encoder with a head.

Parameter names are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``), and ``classifier…`` for
parameters that no pretrained checkpoint has (`subtune.families`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from subtune.families import FAMILIES
from subtune.families.base import HEADS, MEAN_CLASSIFICATION, Family, is_classifier
from subtune.selections.added import AdapterSettings
from subtune.tasks.examples import Reads

# Deviations of an adapter's start. Houlsby et al., 2019, section 3.6, cuts normal draws at two of
# them. adapter-hub, the code of Pfeiffer et al., 2021, does not. Biases start at 0.
DEVIATION = {"houlsby": 1e-2, "pfeiffer": 0.02}


@dataclass(frozen=True)
class TransformersModule:
    """Transformers' model without its weights.

    ``module``: the model, with empty parameters. ``own_names``: canonical name to the module's
    name. ``transposed``: own names of matrices that the module stores as ``[i, o]``. ``buffers``:
    own name to tensors that the module reads beside parameters. ``without_effect``: canonical names
    of parameters that change no output. ``sees_padding``: whether padding behind a text changes
    what the module computes, so that batches must have none. ``injected``: whether modules of PEFT
    are inside.
    """

    module: nn.Module
    own_names: Mapping[str, str]
    transposed: frozenset[str]
    buffers: Mapping[str, Tensor]
    without_effect: frozenset[str]
    sees_padding: bool = False
    injected: bool = False


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder or decoder with a head.

    ``parameters``: every weight by canonical name, in the model's order, the classifier's last.
    ``head``: its name. ``transformers``: the module of a model outside the packed families.
    ``adapters``: of a packed family's model that has some.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]
    head: str
    transformers: TransformersModule | None = None
    adapters: AdapterSettings | None = None

    @property
    def family(self) -> Family:
        """The model's packed family."""
        return FAMILIES[self.config.model_type]

    @property
    def reads(self) -> Reads:
        """The tokens that the head reads."""
        return HEADS[self.head]

    @property
    def averages(self) -> bool:
        """True if the head's logits are averaged over the tokens that it reads."""
        return self.head == MEAN_CLASSIFICATION

    @property
    def outputs(self) -> int:
        """Width of the head."""
        return len(next(reversed(self.parameters.values())))

    @property
    def device(self) -> torch.device:
        return next(iter(self.parameters.values())).device

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        transformers = self.transformers
        if transformers is not None:
            buffers = {name: value.to(device) for name, value in transformers.buffers.items()}
            transformers = replace(transformers, buffers=buffers)
        return replace(self, parameters=moved, transformers=transformers)

    def exported_name(self, name: str) -> str:
        """Return a parameter's name in transformers' model."""
        if self.transformers is not None:
            return self.transformers.own_names[name]
        return self.family.exported_name(name, self.head)

    def is_transposed(self, name: str) -> bool:
        """Return whether transformers' model stores a matrix as ``[i, o]``."""
        of = self.transformers
        return of is not None and of.own_names[name] in of.transposed

    def exported(self) -> dict[str, Tensor]:
        """Return every parameter by its name in transformers' model, and as it is stored there."""
        return {
            self.exported_name(name): (value.mT if self.is_transposed(name) else value).contiguous()
            for name, value in self.parameters.items()
        }


def shapes_of(model: Encoder) -> dict[str, tuple[int, ...]]:
    """Return canonical name to shape of every parameter, classifier included."""
    return {name: tuple(value.shape) for name, value in model.parameters.items()}


def with_new_classifier(model: Encoder, seed: int) -> Encoder:
    """Return the model with the classifier that a seed draws."""
    return replace(model, parameters=model.parameters | new_classifier(model, seed))


def new_classifier(model: Encoder, seed: int) -> dict[str, Tensor]:
    """Return a classifier as transformers draws it.

    Weights come from N(0, initializer_range²), biases are 0, and norms are 1.
    """
    generator = torch.Generator().manual_seed(seed)
    # Some configurations do not say it.
    spread = getattr(model.config, "initializer_range", 0.02)
    parameters = {name: value for name, value in model.parameters.items() if is_classifier(name)}
    for name, value in parameters.items():
        drawn = torch.zeros(value.shape)
        if name.endswith(".weight"):
            drawn = drawn.normal_(0, spread, generator=generator) if value.ndim > 1 else drawn + 1
        parameters[name] = drawn.to(value)
    return parameters


def with_adapters(model: Encoder, settings: AdapterSettings, seed: int) -> Encoder:
    """Return a model of a packed family with adapters, as a seed draws them."""
    generator = torch.Generator().manual_seed(seed)
    spread = DEVIATION[settings.type]
    added: dict[str, Tensor] = {}
    shapes = settings.shapes(model.config.num_hidden_layers, model.config.hidden_size)
    for name, shape in shapes.items():
        start = torch.zeros(shape)
        if len(shape) > 1 and settings.type == "houlsby":
            nn.init.trunc_normal_(start, 0.0, spread, -2 * spread, 2 * spread, generator)
        elif len(shape) > 1:
            start.normal_(0.0, spread, generator=generator)
        added[name] = start.to(next(iter(model.parameters.values())))
    # The classifier comes last.
    return replace(model, parameters=added | model.parameters, adapters=settings)
