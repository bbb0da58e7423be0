"""The entries of a model's tensors that train.

The classifier trains under every selection, so a selection names parameters of the encoder only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# Tensor name to the rank of each of its entries, 0 for the first.
Ranks = Mapping[str, np.ndarray]
# Canonical name to shape of every parameter, classifier included.
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Whole:
    """A tensor that trains whole."""


@dataclass(frozen=True, eq=False)
class Indices:
    """A tensor that trains in part: the sorted indices of its entries in the flattened tensor."""

    flat: np.ndarray


@dataclass(frozen=True)
class LowRank:
    """A matrix that trains by an update of low rank, multiplied by ``scale``."""

    rank: int
    scale: float


Entry = Whole | Indices | LowRank
# Tensor name to the part of it that trains. Frozen tensors are left out.
Entries = dict[str, Entry]


def count(entries: Entries, shapes: Shapes) -> int:
    """Return how many numbers train."""
    total = 0
    for name, entry in entries.items():
        match entry:
            case Whole():
                total += math.prod(shapes[name])
            case Indices(flat):
                total += len(flat)
            case LowRank(rank):
                total += rank * sum(shapes[name])
    return total
