"""Deltas: the tensors that a run changed, in memory and as tensors for a file.

A delta maps a tensor's canonical name to what of it trained, its *entry*, and the trained values.
`subtune.training.values` has the keys of the values in a file.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subtune.methods.selection import Entry, Indices, LowRank, Whole

INDEX, LORA_A, LORA_B, LORA_SCALE = ".index", ".lora_A", ".lora_B", ".lora_scale"


class Change(NamedTuple):
    """What of a tensor trained, and the trained values.

    ``values``: of `Whole` the tensor, of `Indices` the entries ``[e]``, of `LowRank` A ``[r, i]``
    and B ``[o, r]`` of the update ``scale · B A`` (LoRA, Eq. 3).
    """

    entry: Entry
    values: tuple[Tensor, ...]

    def apply(self, tensor: Tensor) -> Tensor:
        """Return the tensor after the change."""
        first, *others = (values.to(tensor.device) for values in self.values)
        match self.entry:
            case Whole():
                return first
            case Indices(flat):
                index = torch.from_numpy(flat).to(tensor.device)
                return tensor.flatten().index_copy(0, index, first).view(tensor.shape)
            case LowRank(_, scale):
                return tensor + scale * (others[0] @ first)

    def cpu(self) -> "Change":
        """Return the change with its values on the CPU."""
        return Change(self.entry, tuple(values.cpu() for values in self.values))


Delta = dict[str, Change]


def apply_delta(parameters: Mapping[str, Tensor], delta: Delta) -> dict[str, Tensor]:
    """Return pretrained parameters with a delta's values.

    Unchanged parameters are shared, not copied.
    """
    return {**parameters, **{name: of.apply(parameters[name]) for name, of in delta.items()}}


def mean_changes(delta: Delta, parameters: Mapping[str, Tensor]) -> dict[str, tuple[float, int]]:
    """Return the mean absolute change and the size of each tensor in a delta.

    The mean is over the whole tensor (LayerNorm paper, Eq. 1).
    """
    changes = {}
    for name, change in delta.items():
        difference = change.apply(parameters[name]) - parameters[name]
        changes[name] = difference.abs().mean(dtype=torch.float64).item(), difference.numel()
    return changes


def delta_to_tensors(delta: Delta) -> dict[str, Tensor]:
    """Return a delta as tensors by their keys in a file."""
    tensors: dict[str, Tensor] = {}
    for name, (entry, values) in delta.items():
        match entry:
            case Whole():
                tensors[name] = values[0]
            case Indices(flat):
                tensors |= {name: values[0], name + INDEX: torch.from_numpy(flat)}
            case LowRank(_, scale):
                tensors |= {name + LORA_A: values[0], name + LORA_B: values[1]}
                tensors[name + LORA_SCALE] = torch.tensor([scale])
    return tensors


def delta_from_tensors(stored: Mapping[str, Tensor | np.ndarray]) -> Delta:
    """Return the delta in the tensors of a file."""
    tensors = {key: torch.as_tensor(values) for key, values in stored.items()}
    delta: Delta = {}
    for key, values in tensors.items():
        name = key.removesuffix(LORA_A)
        if name != key:
            entry = LowRank(len(values), tensors[name + LORA_SCALE].item())
            delta[name] = Change(entry, (values, tensors[name + LORA_B]))
        elif key + INDEX in tensors:
            delta[key] = Change(Indices(tensors[key + INDEX].numpy()), (values,))
        elif not key.endswith((INDEX, LORA_B, LORA_SCALE)):
            delta[key] = Change(Whole(), (values,))
    return delta
