"""A pretrained encoder with a head, and what its parameters are called.

Parameter names here are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``), and ``classifier…`` for what
no pretrained checkpoint brings. `subtune.models.families` says which is what.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, PretrainedConfig

from subtune.errors import SubtuneError
from subtune.models.dimensions import dimensions_in
from subtune.models.families import family_of
from subtune.models.families.base import Family, HeadLayer, is_classifier
from subtune.models.files import CONFIG, WEIGHTS
from subtune.models.pretrained import stored_names


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder, and one of the heads that its family has.

    ``parameters``: every weight by canonical name, in the model's order. For `logits` they may be
    those of several runs. ``head``: its name.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]
    head: str

    @property
    def family(self) -> Family:
        return family_of(self.config.model_type)

    @property
    def head_layers(self) -> tuple[HeadLayer, ...]:
        return self.family.heads[self.head]

    @property
    def outputs(self) -> int:
        """Width of the head."""
        return self._last_bias.shape[-1]

    @property
    def device(self) -> torch.device:
        return self._last_bias.device

    @property
    def _last_bias(self) -> Tensor:
        return self.parameters[f"{self.head_layers[-1].module}.bias"]

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        return replace(self, parameters=moved)

    def exported_name(self, name: str) -> str:
        """A parameter's name in transformers' model."""
        return self.family.exported_name(name, self.head)


def load(directory: Path, head: str, outputs: int) -> Encoder:
    """Pretrained weights in float32 with a classifier of zeros; nothing is fetched.

    Args:
        directory: of the model's files.
        head: its name in `subtune.models.families.base`.
        outputs: the head's width.

    Raises:
        SubtuneError: a weight is missing or cannot be read.
    """
    dimensions = dimensions_in(directory)
    names = stored_names(directory / WEIGHTS, dimensions)
    parameters = {}
    with safe_open(directory / WEIGHTS, framework="pt") as file:
        for name, shape in dimensions.shapes(outputs, head).items():
            if is_classifier(name):
                parameters[name] = torch.zeros(shape)
            else:
                parameters[name] = file.get_tensor(names[name]).to(torch.float32, copy=True)
    return Encoder(_config(directory), parameters, head)


def shapes_of(model: Encoder) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter, classifier included."""
    return {name: tuple(value.shape) for name, value in model.parameters.items()}


def new_classifier(model: Encoder, seed: int) -> dict[str, Tensor]:
    """A classifier as transformers draws it: weights from N(0, initializer_range²), biases 0."""
    generator = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, value in model.parameters.items():
        if is_classifier(name):
            drawn = torch.zeros(value.shape)
            if name.endswith(".weight"):
                drawn.normal_(0, model.config.initializer_range, generator=generator)
            parameters[name] = drawn.to(model.device)
    return parameters


def _config(directory: Path) -> PretrainedConfig:
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, StrictDataclassError) as error:
        reason = str(error).splitlines()[0]
        raise SubtuneError(f"{directory / CONFIG} cannot be read: {reason}") from None
