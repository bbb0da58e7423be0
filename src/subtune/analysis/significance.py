"""Tests of whether methods differ."""

import itertools
from collections.abc import Sequence

import pandas as pd

from subtune.analysis.scores import by_method, whole_methods


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
    """Return Wilcoxon's signed-rank test of each pair of methods, paired by model and column.

    Returns:
        ``first``, ``second``, ``pairs`` (how many columns both have), ``mean_difference`` (first
        minus second, of means over seeds), ``p_value`` (from `wilcoxon`).
    """
    means = by_method(chosen)
    rows = []
    for first, second in itertools.combinations(chosen["method"].drop_duplicates(), 2):
        if first in means and second in means:
            both = means[[first, second]].dropna()
            difference = both[first] - both[second]
            rows.append((first, second, len(both), difference.mean(), wilcoxon(difference)))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "mean_difference", "p_value"])


def wilcoxon(difference: pd.Series) -> float | None:
    """Return the two-sided p-value: 1 if nothing differs, none with fewer than two pairs."""
    from scipy import stats

    if len(difference) < 2:
        return None
    return 1.0 if (difference == 0).all() else float(stats.wilcoxon(difference).pvalue)


def repeat_variance(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the spread over seeds of every method with several seeds on a task.

    Returns:
        ``model``, ``column``, ``method``, ``seeds``, ``mean``, ``variance``, ``standard_deviation``
        (with ``seeds`` − 1 degrees of freedom).
    """
    groups = whole_methods(chosen).groupby(["model", "column", "method"], sort=False)["value"]
    table = groups.agg(seeds="size", mean="mean", variance="var", standard_deviation="std")
    return table[table["seeds"] > 1].reset_index()
