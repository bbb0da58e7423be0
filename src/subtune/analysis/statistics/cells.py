"""What statistics have in common: cells, families of methods, ranks, ratios."""

import re
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pandas as pd
import scipy

from subtune.analysis.scores import whole_methods

NOTHING = pd.Series(dtype=float)
CELL = ["model", "column", "seed"]
# Of a rank correlation.
FEWEST_PAIRS = 3


def method_scores(chosen: pd.DataFrame) -> pd.DataFrame:
    """Scores of whole methods: a row per model, column of the tables and seed."""
    return whole_methods(chosen).groupby([*CELL, "method"])["value"].mean().unstack()


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names that a pattern matches from the start."""
    return [name for name in names if re.match(pattern, name)]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; NaN of fewer than three pairs, and where either does not vary."""
    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(scipy.stats.spearmanr(first, second).statistic)


def to_largest_other(table: pd.DataFrame, name: str, without: Collection[str]) -> pd.Series:
    """Log of a column to the largest of the others, per row."""
    if name not in table:
        return NOTHING
    others = table.drop(columns=[name, *(other for other in without if other in table)])
    return np.log(table[name] / others.max(axis=1)).dropna()
