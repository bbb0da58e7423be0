"""Deltas: the tensors that a run changed, in memory and in a file.

A delta maps a tensor's canonical name to its change. There are three kinds of change::

    what trained              in memory         in a file
    a whole tensor            ChangedTensor     NAME
    some entries of a tensor  ChangedEntries    NAME [e], NAME.index [e]
    a low-rank update         AddedUpdate       NAME.lora_A [r, i], NAME.lora_B [o, r],
                                                NAME.lora_scale [1]

Shapes: ``e`` trained entries, ``o`` outputs and ``i`` inputs of a matrix, ``r`` rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

INDEX, LORA_A, LORA_B, LORA_SCALE = ".index", ".lora_A", ".lora_B", ".lora_scale"


@dataclass(frozen=True)
class ChangedTensor:
    """The ``values`` of a completely trained tensor."""

    values: Tensor

    def applied_to(self, tensor: Tensor) -> Tensor:
        return self.values.to(tensor.device)


@dataclass(frozen=True)
class ChangedEntries:
    """Trained ``values`` ``[e]`` at ``index`` ``[e]`` of a flattened tensor."""

    values: Tensor
    index: Tensor

    def applied_to(self, tensor: Tensor) -> Tensor:
        index, values = self.index.to(tensor.device), self.values.to(tensor.device)
        return tensor.flatten().index_copy(0, index, values).view(tensor.shape)


@dataclass(frozen=True)
class AddedUpdate:
    """A low-rank update of a matrix: ``scale · B A``, ``[o, i]`` (LoRA, Eq. 3)."""

    lora_a: Tensor
    lora_b: Tensor
    scale: float

    def applied_to(self, matrix: Tensor) -> Tensor:
        lora_a, lora_b = self.lora_a.to(matrix.device), self.lora_b.to(matrix.device)
        return matrix + self.scale * (lora_b @ lora_a)


Change = ChangedTensor | ChangedEntries | AddedUpdate
Delta = dict[str, Change]


def applied(parameters: Mapping[str, Tensor], delta: Mapping[str, Change]) -> dict[str, Tensor]:
    """Return pretrained parameters with a delta's values.

    Unchanged parameters are shared, not copied.
    """
    changed = {name: change.applied_to(parameters[name]) for name, change in delta.items()}
    return {**parameters, **changed}


def mean_changes(delta: Delta, parameters: Mapping[str, Tensor]) -> dict[str, tuple[float, int]]:
    """Return the mean absolute change and the size of each tensor in a delta.

    The mean is over the whole tensor (LayerNorm paper, Eq. 1).
    """
    changes = {}
    for name, change in delta.items():
        difference = change.applied_to(parameters[name]) - parameters[name]
        changes[name] = difference.abs().mean(dtype=torch.float64).item(), difference.numel()
    return changes


def to_stored(delta: Mapping[str, Change]) -> dict[str, Tensor]:
    """Return a delta as tensors by their keys in a file."""
    stored: dict[str, Tensor] = {}
    for name, change in delta.items():
        match change:
            case ChangedTensor(values):
                stored[name] = values
            case ChangedEntries(values, index):
                stored |= {name: values, name + INDEX: index}
            case AddedUpdate(lora_a, lora_b, scale):
                stored |= {name + LORA_A: lora_a, name + LORA_B: lora_b}
                stored[name + LORA_SCALE] = torch.tensor([scale])
    return stored


def from_stored(stored: Mapping[str, Tensor | np.ndarray]) -> Delta:
    """Return the delta in the tensors of a file."""
    tensors = {key: torch.as_tensor(values) for key, values in stored.items()}
    delta: Delta = {}
    for key, values in tensors.items():
        name = key.removesuffix(LORA_A)
        if name != key:
            scale = tensors[name + LORA_SCALE].item()
            delta[name] = AddedUpdate(values, tensors[name + LORA_B], scale)
        elif key + INDEX in tensors:
            delta[key] = ChangedEntries(values, tensors[key + INDEX])
        elif not key.endswith((INDEX, LORA_B, LORA_SCALE)):
            delta[key] = ChangedTensor(values)
    return delta
