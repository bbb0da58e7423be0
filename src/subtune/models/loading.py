"""Models loaded from a directory."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from subtune.families import FAMILIES
from subtune.families.base import is_classifier
from subtune.models.encoder import Encoder, transformers_config
from subtune.models.files import Pooling, head_by, read_config, stored_names, weights_of
from subtune.runs.spec import FisherSpec, RunSpec


def model_of(spec: RunSpec | FisherSpec, directory: str) -> Encoder:
    """Return the model of a stage, loaded from a directory, with the head of the stage's task."""
    task = spec.tokens.data.task
    return load_model(Path(directory), task.of_kind.head, task.outputs, spec.model.pooling)


def load_model(directory: Path, head: str, outputs: int, pooling: Pooling | None = None) -> Encoder:
    """Return the model in a directory, in float32 and with a classifier of zeros.

    Args:
        directory: a directory with the model's files.
        head: the head of the task's kind, a key of `HEADS`.
        outputs: the number of the head's outputs.
        pooling: the tokens that a sequence classifier reads; default: those of transformers' class.

    Raises:
        SubtuneError: a weight is missing or cannot be read, or the model has no such pooling.
    """
    fields = read_config(directory)
    head = head_by(pooling, head, fields)
    if fields["model_type"] not in FAMILIES:
        # Transformers' code takes seconds to import; our own forward pass does not need it.
        from subtune.models import transformers_models

        return transformers_models.load(directory, head, outputs, pooling)
    dimensions = FAMILIES[fields["model_type"]].dimensions(fields)
    paths = weights_of(directory)
    stored = stored_names(paths, dimensions, head)
    tensors = {name: tensor for path in paths for name, tensor in load_file(path).items()}
    parameters = {
        name: torch.zeros(shape)
        if is_classifier(name)
        else tensors[stored[name]].to(torch.float32, copy=True)
        for name, shape in dimensions.shapes(outputs, head).items()
    }
    return Encoder(transformers_config(directory, outputs), parameters, head)
