"""Entries drawn at random with the run's seed."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Discriminator, Field, Tag, model_validator

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.selections.kind import AbstractSelection, Entries, Indices, Ranks, Shapes, Whole, Work
from subtune.selections.whole import Patterns, listed, matching


class Draw(Value):
    """Entries drawn uniformly from the tensors that match ``within``.

    Their number is ``count``, or the size of all tensors that match ``as_many_as``.
    """

    as_many_as: Patterns | None = None
    count: int | None = Field(default=None, ge=1)
    within: Patterns = ("**",)

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.as_many_as is None) == (self.count is None):
            raise ValueError("expected exactly one of as_many_as, count")
        return self

    def entries(self, shapes: Shapes, generator: np.random.Generator) -> Entries:
        """Draw entries of a model.

        Raises:
            SubtuneError: the model has fewer entries, or a pattern matches nothing.
        """
        size = self.count or sum(
            math.prod(shapes[name]) for name in matching(self.as_many_as or (), shapes)
        )
        names = matching(self.within, shapes)
        ends = np.cumsum([math.prod(shapes[name]) for name in names])
        if size > ends[-1]:
            raise SubtuneError(f"selection: cannot draw {size} entries, `within` holds {ends[-1]}")
        drawn = np.sort(generator.choice(ends[-1], size, replace=False))
        pieces = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
        starts = np.concatenate([[0], ends[:-1]])
        return {
            name: Indices(piece - start)
            for name, piece, start in zip(names, pieces, starts, strict=True)
            if len(piece)
        }

    def in_words(self) -> str:
        """Return what is drawn, as a line of text."""
        size = self.count or f"as many as in {listed(self.as_many_as or ())}"
        return f"random entries of {listed(self.within)}: {size}"


class Lines(Value):
    """One random line of every matrix that matches ``lines_of``; ``whole`` tensors train, too.

    A line is one column. In a matrix with at least as many rows as columns, a coin flip decides
    between one column and as many random rows as have the same number of entries.
    """

    lines_of: Patterns
    whole: Patterns | None = None

    def entries(self, shapes: Shapes, generator: np.random.Generator) -> Entries:
        """Draw lines of a model's matrices.

        Raises:
            SubtuneError: a tensor is no matrix, or a pattern matches nothing.
        """
        entries: Entries = dict.fromkeys(matching(self.whole or (), shapes), Whole())
        for name in matching(self.lines_of, shapes):
            if len(shapes[name]) != 2:
                raise SubtuneError(f"selection: {name!r} is no matrix: it has no rows and columns")
            rows, columns = shapes[name]
            grid = np.arange(rows * columns).reshape(rows, columns)
            if rows >= columns and generator.random() < 0.5:
                line = grid[generator.choice(rows, rows // columns, replace=False)]
            else:
                line = grid[:, generator.integers(columns)]
            entries[name] = Indices(np.sort(line, axis=None))
        return entries

    def in_words(self) -> str:
        """Return what is drawn, as a line of text."""
        return f"random rows or columns of {listed(self.lines_of)}; {listed(self.whole or ())}"


def _draw_or_lines(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else getattr(value, "model_fields_set", ())
    return "[lines]" if "lines_of" in keys else "[draw]"


class Random(AbstractSelection):
    """Entries drawn at random with the run's seed."""

    usual_work = Work.ENTRIES
    random: Annotated[
        Annotated[Draw, Tag("[draw]")] | Annotated[Lines, Tag("[lines]")],
        Discriminator(_draw_or_lines),
    ]

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return self.random.entries(shapes, np.random.default_rng(seed))

    def in_words(self) -> str:
        return self.random.in_words()
