"""Entries of tensors that train, and the interface of every kind of selection.

The classifier trains under every selection, so a selection names parameters of the encoder only.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.families.base import is_classifier

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


class Work(Enum):
    """The most expensive thing that a selection trains.

    The value is the cost of a training step in forward passes. A backward pass computes gradients
    of the layers' inputs, and of matrices if they train. A frozen encoder needs no backward pass.
    """

    NOTHING = 1.0
    VECTORS = 2.0
    ENTRIES = 2.1
    LOW_RANK = 2.3
    MATRICES = 3.0
    # Diff pruning trains all matrices, and then some entries.
    DIFFERENCES = 5.1


class AbstractSelection(Value):
    """A choice of an encoder's parameters that train, as data.

    The first field's name tells one kind of selection from the others.
    """

    # `work` returns this, if it is the same for all selections of a kind.
    usual_work: ClassVar[Work]

    def resolve(self, shapes: Shapes, seed: int, ranks: Ranks | None = None) -> Entries:
        """Return the entries that train, the classifier's included.

        Args:
            shapes: canonical name to shape of every parameter, classifier included.
            seed: seed of random draws.
            ranks: ranks of the selection's ``ranking``, if it has one.

        Raises:
            SubtuneError: the model lacks what is selected.
        """
        classifier = dict.fromkeys(filter(is_classifier, shapes), Whole())
        entries = self.encoder_entries(shapes, seed, ranks or {})
        for name, entry in entries.items():
            if isinstance(entry, Indices) and len(shapes[name]) > 2:
                raise SubtuneError(f"selection: {name!r} is no matrix, and can only train whole")
        return entries | classifier

    @abstractmethod
    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """Return the encoder's entries that train. Arguments are those of `resolve`."""

    def work(self, of: "AbstractSelection | None" = None) -> Work:
        """Return the most expensive thing that trains, judged by names that every encoder has.

        Args:
            of: the selection whose entries the ``ranking`` ranks, if there is one.
        """
        return self.usual_work

    @abstractmethod
    def in_words(self) -> str:
        """Return what trains beside the classifier, as a line of text."""

    @property
    def ranking(self) -> str | None:
        """Content id of the ranking that decides the selection, if one does."""
        return None
