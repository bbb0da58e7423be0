"""What training changed, as tensors: only the values that a run trained.

A tensor that trained whole is stored under its own name. One that trained in part has its ``k``
values there, and their flat indices under ``<name>.index``. A low-rank update has ``lora_A``
``[rank, i]``, ``lora_B`` ``[o, rank]`` and ``lora_scale`` ``[1]``.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

Delta = dict[str, Tensor]
INDEX_SUFFIX = ".index"
DOWN_SUFFIX = ".lora_A"
UP_SUFFIX = ".lora_B"
SCALE_SUFFIX = ".lora_scale"
SUFFIXES = (INDEX_SUFFIX, DOWN_SUFFIX, UP_SUFFIX, SCALE_SUFFIX)


def as_tensors(values: Mapping[str, np.ndarray]) -> Delta:
    """A delta as it is read from a record, as tensors."""
    return {name: torch.from_numpy(array) for name, array in values.items()}


def changed_tensors(delta: Mapping[str, Tensor]) -> list[str]:
    """Canonical names of the tensors that a delta changes, each once."""
    names = []
    for key in delta:
        suffix = next((suffix for suffix in SUFFIXES if key.endswith(suffix)), "")
        names.append(key.removesuffix(suffix))
    return list(dict.fromkeys(names))


def applied(parameters: Mapping[str, Tensor], delta: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A pretrained model's parameters with a delta's values; what it leaves alone is shared."""
    changed = dict(parameters)
    for name in changed_tensors(delta):
        tensor = parameters[name]
        values = {key: delta[key].to(tensor.device) for key in _keys(name, delta)}
        if name + DOWN_SUFFIX in values:
            down, up = values[name + DOWN_SUFFIX], values[name + UP_SUFFIX]
            changed[name] = tensor + update(down, up, values[name + SCALE_SUFFIX].item())
        elif name + INDEX_SUFFIX in values:
            flat = tensor.flatten().index_copy(0, values[name + INDEX_SUFFIX], values[name])
            changed[name] = flat.view(tensor.shape)
        else:
            changed[name] = values[name]
    return changed


def update(down: Tensor, up: Tensor, scale: float) -> Tensor:
    """What a low-rank update adds to its matrix: ``scale · B A``, ``[o, i]`` (LoRA, Eq. 3)."""
    return scale * (up @ down)


def _keys(name: str, delta: Mapping[str, Tensor]) -> list[str]:
    return [key for key in (name, *(name + suffix for suffix in SUFFIXES)) if key in delta]
