"""Whether numbers support a claim: an interval over units, and a rule for each kind of claim.

A unit is what a claim is asked of once: a task's column in a table, or a task. The interval is
Student's, at 95 %, for the mean over units.

* ``more``: supported where the whole interval is above 0; not supported where all of it is below
  the equivalence margin.
* ``same``: supported where the whole interval is within the margin; not supported where none of it
  is.
* ``no less``: supported where the whole interval is above the negative margin; not supported where
  all of it is below.

What is in between, and fewer than `FEWEST_UNITS`, is not enough runs to tell.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from subtune.papers.base import Kind

FEWEST_UNITS = 3
LEVEL = 0.95
SUPPORTED, NOT_SUPPORTED, NOT_ENOUGH = "supported", "not supported", "not enough runs"


class Interval(NamedTuple):
    """A mean over units, and the interval for it; NaN where there are too few."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The mean of a claim's units and its interval."""
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
        "no less": low > -margin,
    }
    refuted = {
        "more": high < margin,
        "same": low >= margin or high <= -margin,
        "no less": high <= -margin,
    }
    if supported[kind]:
        return SUPPORTED
    return NOT_SUPPORTED if refuted[kind] else NOT_ENOUGH
