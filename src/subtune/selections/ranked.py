"""The first entries of a ranking by Fisher information."""

import math
from decimal import Decimal
from typing import Annotated

import numpy as np
from pydantic import Field

from subtune.core.content_ids import Value
from subtune.selections.kind import AbstractSelection, Entries, Indices, Ranks, Shapes, Work

Fraction = Annotated[float, Field(gt=0, le=1)]


class Ranked(Value):
    """The first ⌈fraction·n⌉ entries of the ranking with a content id."""

    ranking: str
    fraction: Fraction


class Top(AbstractSelection):
    """The top fraction of a ranking of entries by Fisher information."""

    top: Ranked

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        # A ranking over tasks may hold tensors that the head of one task does not read.
        ranks = {name: rank for name, rank in ranks.items() if name in shapes}
        every = np.concatenate([rank.ravel() for rank in ranks.values()])
        kept = top_count(self.top.fraction, len(every))
        last = np.partition(every, kept - 1)[kept - 1]
        indices = {name: np.flatnonzero(rank <= last) for name, rank in ranks.items()}
        return {name: Indices(flat) for name, flat in indices.items() if len(flat)}

    def work(self, of: AbstractSelection | None = None) -> Work:
        assert of is not None, "the ranked selection decides what a top fraction costs"
        return of.work()

    def in_words(self) -> str:
        return f"top {self.top.fraction:g} of ranking {self.top.ranking}"

    @property
    def ranking(self) -> str:
        return self.top.ranking


def top_count(fraction: float, n: int) -> int:
    """Return ⌈fraction·n⌉ of the decimal number as written: 0.07 of 100 is 7, not 8."""
    return math.ceil(Decimal(repr(fraction)) * n)
