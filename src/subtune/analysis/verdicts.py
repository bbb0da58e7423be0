"""Whether numbers support a claim: as its paper judges, and by an interval.

Papers judge by looking at numbers: a mean, in how many cells of a table something holds, an order,
a test. Of a number ``x``, where one nearer to 0 than the equivalence margin counts as none:

* ``more`` holds where x > 0,
* ``same`` where x is within the margin,
* ``no less`` where x is not below the negative margin.

Beside that stands an interval, Student's at 95 %, for the mean over units. A unit is a seed where
there are at least `FEWEST_UNITS`: its mean over everything else, for the tasks at hand. Where there
are fewer seeds, units are what else tells numbers apart, as tasks, or models and tasks.

* ``more``: supported where the whole interval is above 0; not supported where all of it is below
  the margin.
* ``same``: supported where the whole interval is within the margin; not supported where none of it
  is.
* ``no less``: supported where the whole interval is not below the negative margin; not supported
  where all of it is.

What is in between, and fewer than `FEWEST_UNITS`, is not enough runs to tell.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.papers.base import Kind

FEWEST_UNITS = 3
LEVEL = 0.95
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
NOT_PRINTED = "not printed"
SUPPORTED, NOT_SUPPORTED, NOT_ENOUGH = "supported", "not supported", "not enough runs"


class Interval(NamedTuple):
    """A mean over units, and the interval for it; NaN where there are too few."""

    mean: float
    low: float
    high: float


def holds(kind: Kind, value: float, equivalence_margin: float) -> bool:
    """Whether a number is as a claim of this kind says."""
    if kind == "more":
        return value > 0
    if kind == "same":
        return abs(value) < equivalence_margin
    return value >= -equivalence_margin


def units(cells: pd.Series) -> tuple[str, pd.Series]:
    """What an interval is over: the unit in words, and a number per unit.

    Args:
        cells: from `subtune.analysis.statistics`. A seed that lacks a cell which others have is
            left out, so that all are means over the same.
    """
    if "seed" not in cells.index.names or cells.index.nlevels == 1:
        return _words(cells), cells
    wide = cells.unstack("seed")
    complete = wide.dropna(axis="columns")
    if complete.shape[1] >= FEWEST_UNITS:
        return "seed", complete.mean()
    means = wide.mean(axis=1)
    return _words(means), means


def _words(cells: pd.Series) -> str:
    """What tells cells apart, in words. MNLI has two columns; each counts as a task."""
    levels = [level for level in cells.index.names if level]
    several = [level for level in levels if cells.index.get_level_values(level).nunique() > 1]
    names = several or levels[-1:]
    return " × ".join("task" if name == "column" else str(name) for name in names)


def interval(values: Sequence[float]) -> Interval:
    """The mean of a claim's units and its interval."""
    from scipy import stats

    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    mean = float(np.mean(values))
    if len(values) < FEWEST_UNITS:
        return Interval(mean, math.nan, math.nan)
    error = stats.sem(values)
    if error == 0:
        return Interval(mean, mean, mean)
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=error)
    return Interval(mean, float(low), float(high))


def verdict(kind: Kind, interval: Interval, equivalence_margin: float) -> str:
    """What an interval says of a claim.

    Args:
        kind: the claim's kind, as in the head of this module.
        interval: of the claim's statistic.
        equivalence_margin: a value nearer to 0 than this counts as no difference.
    """
    low, high, margin = interval.low, interval.high, equivalence_margin
    if math.isnan(low):
        return NOT_ENOUGH
    supported = {
        "more": low > 0,
        "same": -margin < low and high < margin,
        "no less": low >= -margin,
    }
    refuted = {
        "more": high < margin,
        "same": low >= margin or high <= -margin,
        "no less": high < -margin,
    }
    if supported[kind]:
        return SUPPORTED
    return NOT_SUPPORTED if refuted[kind] else NOT_ENOUGH
