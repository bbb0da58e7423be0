"""A pretrained encoder with a classifier, and what its parameters are called.

Parameter names here are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``), and ``classifier…`` for what
no pretrained checkpoint brings. `subtune.models.families` says which is what.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, PretrainedConfig

from subtune.errors import SubtuneError
from subtune.models.dimensions import dimensions_in
from subtune.models.families import family_of
from subtune.models.families.base import Family, is_classifier
from subtune.models.files import CONFIG, WEIGHTS
from subtune.models.pretrained import stored_names


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder, and the classifier that its family has on the first token.

    ``parameters``: every weight by canonical name, in the model's order. For `logits` they may be
    those of several runs.
    """

    config: PretrainedConfig
    parameters: dict[str, Tensor]

    @property
    def family(self) -> Family:
        return family_of(self.config.model_type)

    @property
    def num_labels(self) -> int:
        return self._last_bias.shape[-1]

    @property
    def device(self) -> torch.device:
        return self._last_bias.device

    @property
    def _last_bias(self) -> Tensor:
        return self.parameters[f"{self.family.head[-1].module}.bias"]

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        return Encoder(self.config, moved)


def load(directory: Path, num_labels: int) -> Encoder:
    """Pretrained weights in float32 with a classifier of zeros; nothing is fetched.

    Raises:
        SubtuneError: a weight is missing or cannot be read.
    """
    dimensions = dimensions_in(directory)
    names = stored_names(directory / WEIGHTS, dimensions)
    with safe_open(directory / WEIGHTS, framework="pt") as file:
        parameters = {
            name: file.get_tensor(stored).to(torch.float32, copy=True)
            for name, stored in names.items()
        }
    shapes = dimensions.family.classifier_shapes(dimensions.hidden_size, num_labels)
    parameters |= {name: torch.zeros(shape) for name, shape in shapes.items()}
    return Encoder(_config(directory), parameters)


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
