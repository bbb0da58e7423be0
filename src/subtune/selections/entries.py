"""The entries of a model's tensors that train.

The classifier always trains, whatever the selection; so a selection speaks of the rest alone.
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
    """A tensor of which some entries train: their indices in the flattened tensor, sorted."""

    flat: np.ndarray


@dataclass(frozen=True)
class LowRank:
    """A matrix that trains by an update of low rank, multiplied by ``scale``."""

    rank: int
    scale: float


Entry = Whole | Indices | LowRank
# Tensor name to what of it trains; tensors that do not train have no entry.
Entries = dict[str, Entry]


def count(entries: Entries, shapes: Shapes) -> int:
    """How many numbers train."""
    return sum(_count(entry, shapes[name]) for name, entry in entries.items())


def _count(entry: Entry, shape: Shape) -> int:
    match entry:
        case Whole():
            return math.prod(shape)
        case Indices(flat):
            return len(flat)
        case LowRank(rank):
            return rank * sum(shape)
