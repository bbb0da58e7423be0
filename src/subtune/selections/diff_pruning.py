"""Diff pruning: differences to the pretrained values, few of which stay (Guo et al., 2021)."""

import math
from itertools import accumulate

import numpy as np
from pydantic import Field

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.families.base import is_pretrained
from subtune.selections.kind import AbstractSelection, Entries, Indices, Ranks, Shapes, Work
from subtune.selections.ranked import Fraction


class DiffPruningSettings(Value):
    """The settings of the first training, which finds the differences that stay.

    ``share`` of all entries stay. ``penalty`` is λ of the expected number of differences (section
    3.1). ``structured`` adds a gate for each tensor (section 3.3). Gates train at
    ``gate_learning_rate``, as in the published code; differences at ``learning_rate``, or at the
    run's own without one.
    """

    share: Fraction
    penalty: float = Field(default=1.25e-7, ge=0)
    structured: bool = True
    gate_learning_rate: float = Field(default=0.1, gt=0)
    learning_rate: float | None = Field(default=None, gt=0)


class DiffPruning(AbstractSelection):
    """The largest differences of a first training, which train again alone."""

    usual_work = Work.DIFFERENCES
    diff_pruning: DiffPruningSettings

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """Return as many entries as will train. Which ones they are, the first training finds."""
        sizes = {name: math.prod(shape) for name, shape in shapes.items() if is_pretrained(name)}
        if self.diff_pruning.share * sum(sizes.values()) < 1:
            raise SubtuneError("diff_pruning.share: expected at least one entry of the model")
        ends = [int(self.diff_pruning.share * end) for end in accumulate(sizes.values())]
        counts = zip(sizes, ends, [0, *ends], strict=False)
        return {name: Indices(np.arange(end - before)) for name, end, before in counts}

    def in_words(self) -> str:
        return f"the {self.diff_pruning.share:.2%} of all entries that Diff pruning keeps"
