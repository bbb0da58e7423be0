"""Differences of scores between methods."""

from collections.abc import Iterable, Mapping

import pandas as pd

from subtune.analysis.scores import by_method, whole_methods, without_diverged
from subtune.analysis.statistics.cells import NOTHING, matching, method_scores


def minus(
    chosen: pd.DataFrame, first: str | Iterable[str], second: str | Iterable[str]
) -> pd.Series:
    """Score of the first method minus that of the second; of several, their means count."""
    groups = [[one] if isinstance(one, str) else list(one) for one in (first, second)]
    methods = [method for group in groups for method in group]
    whole = whole_methods(chosen)
    wide = method_scores(without_diverged(whole[whole["method"].isin(methods)]))
    means = [wide.reindex(columns=group).mean(axis=1) for group in groups]
    return (means[0] - means[1]).dropna()


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """`minus`, of scores on dev and on test sets."""
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def family_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Mean score of one family minus that of another."""
    names = chosen["method"].unique()
    return minus(chosen, matching(names, first), matching(names, second))


def best_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Best score of one family minus the best of another, of means over seeds.

    They are rounded as a paper prints them. Methods of the first are left out of the second.
    """
    groups = _rounded_apart(chosen, first, second, digits)
    return (groups[0].max(axis=1) - groups[1].max(axis=1)).round(digits).dropna()


def worst_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Worst score of one family minus the best of another, as in `best_minus`."""
    groups = _rounded_apart(chosen, first, second, digits)
    return (groups[0].min(axis=1) - groups[1].max(axis=1)).round(digits).dropna()


def best_on_average_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """`minus` of two methods: the one of each family that is best in the mean over the columns.

    Methods of the first are left out of the second, and columns on which one has no score.
    """
    groups = _apart(chosen["method"].unique(), first, second)
    rows = whole_methods(chosen)
    rows = without_diverged(rows[rows["method"].isin(groups[0] + groups[1])])
    means = by_method(rows).dropna().mean() if len(rows) else pd.Series(dtype=float)
    averages = [means.reindex(group).dropna() for group in groups]
    if any(average.empty for average in averages):
        return NOTHING
    return minus(rows, *(average.idxmax() for average in averages))


def _rounded_apart(
    chosen: pd.DataFrame, first: str, second: str, digits: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    wide = by_method(chosen).round(digits)
    firsts, seconds = _apart(wide, first, second)
    return wide[firsts], wide[seconds]


def _apart(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    """The names of two families; what is in the first is not in the second."""
    firsts = matching(names, first)
    return firsts, [name for name in matching(names, second) if name not in firsts]


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Score of a method minus one that an exhibit prints, of the same model.

    Args:
        chosen: the runs of the best learning rates.
        printed: a paper's scores, from `subtune.analysis.claims.printed_scores`.
        pairs: method to the one that it is compared with.
        exhibit: where that one's scores are printed.
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


def distance_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """`minus_printed` without its sign, so that what is above and below does not cancel."""
    return minus_printed(chosen, printed, pairs, exhibit, split).abs()


def spread_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Standard deviation over seeds of one method minus that of another."""
    wide = method_scores(chosen)
    if not {first, second} <= set(wide):
        return NOTHING
    spread = wide[[first, second]].dropna().groupby(level=["model", "column"]).std()
    return (spread[first] - spread[second]).dropna()
