"""Tests of whether methods differ."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from subtune.analysis.scores import by_method

SIGNIFICANCE = 0.05
# Fewer have no order to test.
FEWEST_METHODS, FEWEST_COLUMNS = 3, 2


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of the Kruskal–Wallis test between two groups of scores."""
    from scipy import stats

    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def scores_of(methods: Sequence[str], chosen: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, a column per method, for models and columns that have them all."""
    return by_method(chosen).reindex(columns=list(methods)).dropna()


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return tests of each pair of methods, paired by model and column.

    Returns:
        ``first``, ``second``, ``pairs`` (how many columns both have), ``mean_difference`` (first
        minus second, of means over seeds), ``p_value`` (from `wilcoxon`), ``p_holm`` (the same,
        corrected for all pairs of the table, from `holm`); all rounded to four digits.
    """
    means = by_method(chosen)
    rows = []
    for first, second in itertools.combinations(chosen["method"].drop_duplicates(), 2):
        if first in means and second in means:
            both = means[[first, second]].dropna()
            difference = both[first] - both[second]
            rows.append((first, second, len(both), difference.mean(), wilcoxon(difference)))
    columns = ["first", "second", "pairs", "mean_difference", "p_value"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=holm(table["p_value"].astype(float))).round(4)


def wilcoxon(difference: pd.Series) -> float | None:
    """Return the two-sided p-value: 1 if nothing differs, none with fewer than two pairs."""
    from scipy import stats

    if len(difference) < 2:
        return None
    return 1.0 if (difference == 0).all() else float(stats.wilcoxon(difference).pvalue)


def holm(p_values: pd.Series) -> pd.Series:
    """Return p-values that are corrected for their number (Holm, 1979); missing ones stay."""
    known = p_values.dropna().sort_values()
    factors = np.arange(len(known), 0, -1)
    return (known * factors).cummax().clip(upper=1).reindex(p_values.index)


def mean_ranks(chosen: pd.DataFrame) -> tuple[pd.Series, float]:
    """Return each method's mean rank over columns, best first, and the critical difference.

    Methods whose mean ranks differ by more are different in Nemenyi's test at 5 % (Demšar, 2006,
    section 3.2.2). Methods without a score in every column are left out. With fewer than
    `FEWEST_METHODS` or `FEWEST_COLUMNS` the difference is NaN.
    """
    from scipy import stats

    means = by_method(chosen).dropna(axis="columns")
    columns, methods = means.shape
    ranks = means.rank(axis="columns", ascending=False).mean().sort_values(kind="stable")
    if methods < FEWEST_METHODS or columns < FEWEST_COLUMNS:
        return ranks, math.nan
    quantile = stats.studentized_range.ppf(1 - SIGNIFICANCE, methods, math.inf) / math.sqrt(2)
    return ranks, float(quantile * math.sqrt(methods * (methods + 1) / (6 * columns)))
