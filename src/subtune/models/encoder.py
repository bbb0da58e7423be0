"""A pretrained encoder with a linear classifier, and what its parameters are called.

Parameter names here are canonical: the encoder's own names without a family prefix
(``encoder.layer.3.output.LayerNorm.weight``, ``pooler.dense.bias``) and ``classifier.weight``,
``classifier.bias``. `subtune.models.families` says which is what.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModel, PretrainedConfig, PreTrainedModel

from subtune.errors import SubtuneError
from subtune.models.families import family_of
from subtune.models.families.base import Family
from subtune.models.files import WEIGHTS


@dataclass(frozen=True)
class Encoder:
    """A pretrained encoder, its pooled first token, dropout and a linear classifier.

    BitFit, appendix A.2: a linear layer on the contextual embedding of the first token. In every
    family the pooler is part of the encoder and the classifier is linear.

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
        return self.parameters["classifier.bias"].shape[-1]

    @property
    def device(self) -> torch.device:
        return self.parameters["classifier.bias"].device

    def to(self, device: str | torch.device) -> "Encoder":
        moved = {name: value.to(device) for name, value in self.parameters.items()}
        return Encoder(self.config, moved)


def load(directory: Path, num_labels: int) -> Encoder:
    """Pretrained weights with a classifier of zeros; nothing is fetched.

    Raises:
        SubtuneError: the weights cannot be read.
    """
    with torch.random.fork_rng(devices=[]):
        # A checkpoint without a pooler gets the same new one in every run.
        torch.manual_seed(0)
        try:
            backbone = AutoModel.from_pretrained(
                directory, local_files_only=True, use_safetensors=True, dtype=torch.float32
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            reason = str(error).splitlines()[0]
            raise SubtuneError(f"{directory / WEIGHTS} cannot be read: {reason}") from None
    return _with_classifier(backbone, num_labels)


def skeleton(config: PretrainedConfig, num_labels: int) -> Encoder:
    """The model's shape on the meta device: no weights, no memory."""
    with torch.device("meta"):
        return _with_classifier(AutoModel.from_config(config), num_labels)


def shapes_of(model: Encoder) -> dict[str, tuple[int, ...]]:
    """Canonical name to shape of every parameter, classifier included."""
    return {name: tuple(value.shape) for name, value in model.parameters.items()}


def new_classifier(model: Encoder, seed: int) -> dict[str, Tensor]:
    """A classifier as BERT draws it: weights from N(0, initializer_range²), bias 0."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.empty(model.num_labels, model.config.hidden_size)
    weight.normal_(0, model.config.initializer_range, generator=generator)
    return {
        "classifier.weight": weight.to(model.device),
        "classifier.bias": torch.zeros(model.num_labels, device=model.device),
    }


def _with_classifier(backbone: PreTrainedModel, num_labels: int) -> Encoder:
    parameters = {name: value.detach() for name, value in backbone.named_parameters()}
    parameters["classifier.weight"] = torch.zeros(num_labels, backbone.config.hidden_size)
    parameters["classifier.bias"] = torch.zeros(num_labels)
    return Encoder(backbone.config, parameters)
