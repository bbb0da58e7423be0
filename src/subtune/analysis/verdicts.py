"""Verdicts on claims: as the paper judges, and by a confidence interval.

A claim expects one of three things of a number ``x``. A number closer to 0 than the equivalence
margin counts as no difference.

* ``more``: x > 0
* ``same``: x is within the margin
* ``no less``: x is not below the negative margin

Papers judge a single number: a mean, a count of table cells, an order or a p-value. The interval is
Student's, at 95 %, for the mean over units. Units are seeds where there are at least
`FEWEST_UNITS`: the mean of each seed over everything else. With fewer seeds, units are what else
tells numbers apart, such as tasks, or models and tasks.

* ``more``: supported if the whole interval is above 0; not supported if all of it is below the
  margin.
* ``same``: supported if the whole interval is within the margin; not supported if none of it is.
* ``no less``: supported if the whole interval is not below the negative margin; not supported if
  all of it is.

Everything in between, and fewer than `FEWEST_UNITS`, is undecided.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from subtune.analysis import crossed
from subtune.analysis.crossed import Interval

Expectation = Literal["more", "same", "no less"]
Measure = Literal["score", "ratio", "share", "rank correlation", "epochs"]
# A value closer to 0 than this counts as no difference: two points of a score, 5 % of a ratio, 2 %
# of all information, a weak rank correlation.
EQUIVALENCE_MARGINS: dict[Measure, float] = {
    "score": 0.02,
    "ratio": 0.05,
    "share": 0.02,
    "rank correlation": 0.1,
    "epochs": 0.0,
}
FEWEST_UNITS = 3
HOLDS, DOES_NOT_HOLD = "holds", "does not hold"
NOT_PRINTED = "not printed"
SUPPORTED, NOT_SUPPORTED, UNDECIDED = "supported", "not supported", "undecided"


def holds(expects: Expectation, value: float, equivalence_margin: float) -> bool:
    """Return whether a number is as a claim expects."""
    if expects == "more":
        return value > 0
    if expects == "same":
        return abs(value) < equivalence_margin
    return value >= -equivalence_margin


def units(cells: pd.Series) -> tuple[str, pd.Series]:
    """Return what an interval is over: the unit in words, and a number per unit.

    Args:
        cells: from `subtune.analysis.statistics`. A seed without a cell that others have is left
            out, so that all seeds are means over the same cells.
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
    """Return what tells cells apart, in words. MNLI has two columns; each counts as a task."""
    levels = [level for level in cells.index.names if level]
    several = [level for level in levels if cells.index.get_level_values(level).nunique() > 1]
    names = several or levels[-1:]
    return " × ".join("task" if name == "column" else str(name) for name in names)


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of a claim's units and its interval."""
    if len(values) < FEWEST_UNITS:
        return Interval(float(np.mean(values)) if len(values) else math.nan, math.nan, math.nan)
    return crossed.interval([crossed.study(values, None, 0)])


def verdict(expects: Expectation, interval: Interval, equivalence_margin: float) -> str:
    """Return what an interval says of a claim."""
    low, high, margin = interval.low, interval.high, equivalence_margin
    if math.isnan(low):
        return UNDECIDED
    supported, refuted = {
        "more": (low > 0, high < margin),
        "same": (-margin < low and high < margin, low >= margin or high <= -margin),
        "no less": (low >= -margin, high < -margin),
    }[expects]
    if supported:
        return SUPPORTED
    return NOT_SUPPORTED if refuted else UNDECIDED
