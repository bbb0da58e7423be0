"""Differences of scores between methods, between families of methods, and between masks."""

import re
from collections.abc import Iterable, Mapping

import pandas as pd

from subtune.analysis.scores import by_method, masked, whole_methods, without_diverged

NOTHING = pd.Series(dtype=float)
CELL = ["model", "column", "seed"]


def method_scores(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return scores of whole methods: a row per model, column of the tables and seed."""
    return whole_methods(chosen).groupby([*CELL, "method"])["value"].mean().unstack()


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a pattern matches from the start."""
    return [name for name in names if re.match(pattern, name)]


def minus(
    chosen: pd.DataFrame, first: str | Iterable[str], second: str | Iterable[str]
) -> pd.Series:
    """Return the score of the first method minus that of the second.

    If one of them is several methods, their mean counts.
    """
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]
    methods = [method for group in groups for method in group]
    whole = whole_methods(chosen)
    wide = method_scores(without_diverged(whole[whole["method"].isin(methods)]))
    means = [wide.reindex(columns=group).mean(axis=1) for group in groups]
    return (means[0] - means[1]).dropna()


def family_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the mean score of one family minus that of another."""
    names = chosen["method"].unique()
    return minus(chosen, matching(names, first), matching(names, second))


def best_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Return the best score of one family minus the best of another, of means over seeds.

    Scores are rounded as a paper prints them. Methods of the first are left out of the second.
    """
    firsts, seconds = rounded_families(chosen, first, second, digits)
    return (firsts.max(axis=1) - seconds.max(axis=1)).round(digits).dropna()


def rounded_families(
    chosen: pd.DataFrame, first: str, second: str, digits: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rounded means over seeds of two families; the second without the first."""
    wide = by_method(chosen).round(digits)
    firsts, seconds = _apart(wide, first, second)
    return wide[firsts], wide[seconds]


def best_on_average_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of two methods: of each family the best in the mean over the columns.

    Methods of the first are left out of the second. A column where a method has no score is left
    out.
    """
    groups = _apart(chosen["method"].unique(), first, second)
    rows = whole_methods(chosen)
    rows = without_diverged(rows[rows["method"].isin(groups[0] + groups[1])])
    means = by_method(rows).dropna().mean() if len(rows) else pd.Series(dtype=float)
    averages = [means.reindex(group).dropna() for group in groups]
    if any(average.empty for average in averages):
        return NOTHING
    return minus(rows, *(average.idxmax() for average in averages))


def _apart(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    firsts = matching(names, first)
    return firsts, [name for name in matching(names, second) if name not in firsts]


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Return the score of a method minus one that an exhibit prints, of the same model.

    Args:
        printed: a paper's scores, from `subtune.papers.printed.scores_like_ours`.
        pairs: method to the printed method that it is compared with.
        exhibit: where the printed scores are.
        split: validation or test.
    """
    wide = method_scores(chosen)
    rows = printed[(printed["exhibit"] == exhibit) & (printed["split"] == split)]
    quoted = rows.groupby(["model", "column", "method"])["value"].mean().unstack()
    parts = {
        method: wide[method] - quoted[other].reindex(wide.index.droplevel("seed")).to_numpy()
        for method, other in pairs.items()
        if method in wide and other in quoted
    }
    return pd.concat(parts, names=["method"]).dropna() if parts else NOTHING


def _by_scope(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return scores of masks: a row per model, column, seed and fraction, a column per scope."""
    return masked(chosen).groupby([*CELL, "fraction", "scope"])["value"].mean().unstack()


def scope_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the score of one kind of mask minus that of another, the mean over fractions."""
    masks = _by_scope(chosen).reindex(columns=[first, second])
    fractions = (masks[first] - masks[second]).groupby(level=CELL)
    return fractions.mean(skipna=False).dropna()


def fraction_minus_whole(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> pd.Series:
    """Return the score of the mask with the nearest fraction, minus that of the whole method."""
    masks, whole = _by_scope(chosen), method_scores(chosen)
    if scope not in masks or method not in whole:
        return NOTHING
    fractions = masks.index.get_level_values("fraction").unique()
    nearest = min(fractions, key=lambda value: abs(value - fraction))
    return (masks[scope].xs(nearest, level="fraction") - whole[method]).dropna()
