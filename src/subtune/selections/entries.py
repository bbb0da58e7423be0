"""The entries of a model's tensors that train.

The classifier trains under every selection, so a selection names parameters of the encoder only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Shape = Sequence[int]
# Tensor name to the rank of each of its entries, 0 for the first.
Ranks = Mapping[str, np.ndarray]
# Canonical name to shape of every parameter, classifier included.
Shapes = Mapping[str, Shape]


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
    return sum(_count(entry, shapes[name]) for name, entry in entries.items())


def _count(entry: Entry, shape: Shape) -> int:
    match entry:
        case Whole():
            return math.prod(shape)
        case Indices(flat):
            return len(flat)
        case LowRank(rank):
            return rank * sum(shape)
