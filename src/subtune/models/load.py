"""Loading a pretrained model from a directory."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from subtune.core.errors import one_line
from subtune.families import FAMILIES
from subtune.families.base import is_classifier
from subtune.models.configuration import CONFIG, Pooling, head_by, read_config
from subtune.models.dimensions import dimensions_by
from subtune.models.encoder import Encoder
from subtune.models.files import stored_names, weights_of


def load_model(directory: Path, head: str, outputs: int, pooling: Pooling | None = None) -> Encoder:
    """Return pretrained weights in float32 with a classifier of zeros; nothing is downloaded.

    Args:
        directory: of the model's files.
        head: that of the task's kind, by its name in `subtune.families.base`.
        outputs: the head's width.
        pooling: the tokens that a sequence classifier reads; default: as transformers' class does.

    Raises:
        SubtuneError: a weight is missing or cannot be read, or the model has no such pooling.
    """
    fields = read_config(directory)
    head = head_by(pooling, head, fields)
    if fields["model_type"] not in FAMILIES:
        # Transformers' model code takes seconds to import; packed families do not need it.
        from subtune.models import transformers_models

        return transformers_models.load(directory, head, outputs, pooling)
    dimensions = dimensions_by(fields)
    paths = weights_of(directory)
    stored = stored_names(paths, dimensions)
    tensors = {name: tensor for path in paths for name, tensor in load_file(path).items()}
    parameters = {
        name: torch.zeros(shape)
        if is_classifier(name)
        else tensors[stored[name]].to(torch.float32, copy=True)
        for name, shape in dimensions.shapes(outputs, head).items()
    }
    with one_line(f"{directory / CONFIG} cannot be read"):
        config = AutoConfig.from_pretrained(directory, local_files_only=True)
    return Encoder(config, parameters, head)
