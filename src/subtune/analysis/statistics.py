"""Statistics of claims: numbers in which 0 means no difference.

Each statistic reads tables of numbers, ours or a paper's, and returns a series with one number per
cell. Index levels: model, column or task, and seed, where the table has them. The numbers are
differences of scores or of shares, rank correlations, and logarithms of ratios. The series is empty
if a table lacks the numbers.

A family of methods is given by a pattern that matches the methods' names; the name of a single
method is such a pattern. Statistics that only one paper needs are in that paper's folder. Tests for
differences between methods are at the end.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from subtune.analysis.parameters import component_ranking
from subtune.analysis.scores import by_method, masked, trained_beside_classifier, whole_methods

NOTHING = pd.Series(dtype=float)
CELL = ["model", "column", "seed"]
# The fewest pairs for a rank correlation.
FEWEST_PAIRS = 3
SIGNIFICANCE = 0.05


def method_scores(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return scores of whole methods: rows are model, column of the tables and seed; columns are
    methods."""
    return whole_methods(chosen).groupby([*CELL, "method"])["value"].mean().unstack()


def without_diverged(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of models and columns on which no method diverged."""
    scores = chosen["value"].notna()
    return chosen[scores.groupby([chosen["model"], chosen["column"]]).transform("all")]


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a pattern matches."""
    return [name for name in names if re.fullmatch(pattern, name)]


def minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the mean score of one family minus that of another."""
    rows = whole_methods(chosen)
    firsts, seconds = (matching(rows["method"].unique(), family) for family in (first, second))
    wide = method_scores(without_diverged(rows[rows["method"].isin(firsts + seconds)]))
    means = [wide.reindex(columns=group).mean(axis=1) for group in (firsts, seconds)]
    return (means[0] - means[1]).dropna()


def best_minus(
    chosen: pd.DataFrame,
    first: str,
    second: str,
    digits: int,
    of_first: Literal["max", "min"] = "max",
) -> pd.Series:
    """Return the best score of one family minus the best of another.

    Scores are means over seeds, rounded as a paper prints them. The second family excludes methods
    of the first.

    Args:
        of_first: ``min`` for the worst score of the first family.
    """
    wide = by_method(chosen).round(digits)
    firsts, seconds = (wide[names] for names in _apart(wide, first, second))
    return (firsts.agg(of_first, axis=1) - seconds.max(axis=1)).round(digits).dropna()


def best_on_average_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of the best methods of two families, by their means over the columns.

    The second family excludes methods of the first. Columns that lack a method's score are left
    out.
    """
    firsts, seconds = _apart(chosen["method"].unique(), first, second)
    rows = whole_methods(chosen)
    rows = without_diverged(rows[rows["method"].isin(firsts + seconds)])
    means = by_method(rows).dropna().mean()
    averages = [means.reindex(group).dropna() for group in (firsts, seconds)]
    if any(average.empty for average in averages):
        return NOTHING
    return minus(rows, *(re.escape(str(average.idxmax())) for average in averages))


def _apart(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the names of two families; the second excludes names of the first."""
    firsts = matching(names, first)
    return firsts, [name for name in matching(names, second) if name not in firsts]


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Return a method's score minus a printed score of the same model.

    Args:
        printed: the paper's scores, in the form of ours.
        pairs: each method's printed counterpart.
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
    """Return scores of masks: rows are model, column, seed and fraction; columns are scopes."""
    return masked(chosen).groupby([*CELL, "fraction", "scope"])["value"].mean().unstack()


def scope_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the score of one kind of mask minus that of another, averaged over fractions."""
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


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation; NaN for fewer than three pairs, or if a variable is
    constant."""
    from scipy import stats

    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(stats.spearmanr(first, second).statistic)


def changes_of(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return a method's changes averaged over layers: rows are model and task, columns
    parameters."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Return the log ratio of the smallest of some changes to the largest of others.

    There is one number per model and task. ``others`` is a pattern of the other parameters' names.
    """
    means = changes_of(changes, method)
    compared = [name for name in matching(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return NOTHING
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Return, per task, the log of ``share`` × one family's fewest parameters ÷ another's most."""
    rows = whole_methods(chosen)
    rows = rows.assign(count=trained_beside_classifier(rows))
    counts = rows.groupby(["model", "task", "method"])["count"].max().unstack()
    smallest = counts[matching(counts, first)].min(axis=1)
    largest = counts[matching(counts, second)].max(axis=1)
    return np.log(share * smallest / largest).dropna()


def best_rates(chosen: pd.DataFrame, methods: str) -> pd.Series:
    """Return the best learning rates of a family, per model, task and method."""
    if "learning_rate" not in chosen:
        return NOTHING
    rows = whole_methods(chosen).dropna(subset=["learning_rate"])
    rows = rows[np.isfinite(rows["value"])]
    rows = rows[rows["method"].isin(matching(rows["method"].unique(), methods))]
    return rows.groupby(["model", "task", "method"])["learning_rate"].first()


def to_largest_other(
    table: pd.DataFrame, component: str, without: Collection[str], value: str = "share"
) -> pd.Series:
    """Return, per task, the log ratio of a component's mean over layers to the largest other one.

    Components in ``without`` are not compared. The series is empty for a table of ranks.

    Args:
        value: the column: share of information or change.
    """
    if value not in table:
        return NOTHING
    wide = table.groupby(["task", "component"])[value].mean().unstack()
    if component not in wide:
        return NOTHING
    others = wide.drop(columns=[component, *without], errors="ignore")
    return np.log(wide[component] / others.max(axis=1)).dropna()


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Return whether a component has the most information over all tasks (LayerNorm paper, Table
    1).

    Components in ``without`` are not compared.

    Args:
        shares: from `component_shares`, or a ``rank`` per ``component``.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Return, per task, the rank correlation of layer numbers and values of LayerNorms.

    Args:
        layers: ``task``, ``layer``, the value and, if there are several components, ``component``.
        value: the column: information or change.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    return _correlations(rows.groupby(["task", "layer"])[value].sum(), "layer", ["task"])


def _correlations(values: pd.Series, level: str, groups: list[str]) -> pd.Series:
    """Return the rank correlation of values with one index level, per group of the other levels."""
    return values.groupby(level=groups).apply(
        lambda group: rank_correlation(group.index.get_level_values(level), group)
    )


def minus_on_rows(
    sizes: pd.DataFrame, metric: str | None, end: Literal["min", "max"], first: str, second: str
) -> pd.Series:
    """Return `minus` of the runs on the smallest or on the largest number of training rows.

    Args:
        metric: the metric of the scores; default: the one by which each task's runs are chosen.
    """
    rows = _with_several_sizes(sizes, metric)
    at_end = rows.groupby(["model", "column"])["train_rows"].transform(end)
    rows = rows[rows["train_rows"] == at_end]
    return NOTHING if rows.empty else minus(rows, first, second)


def minus_by_rows(sizes: pd.DataFrame, metric: str | None, first: str, second: str) -> pd.Series:
    """Return, per cell, the rank correlation of the number of training rows with the score of the
    first method minus that of the second."""
    rows = _with_several_sizes(sizes, metric)
    wide = rows.groupby([*CELL, "train_rows", "method"])["value"].mean().unstack()
    wide = wide.reindex(columns=[first, second])
    return _correlations((wide[first] - wide[second]).dropna(), "train_rows", CELL).dropna()


def _with_several_sizes(sizes: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Return one metric's scores for models and columns with several numbers of training rows."""
    rows = sizes[sizes["decides"] if metric is None else sizes["metric"] == metric]
    return rows[rows.groupby(["model", "column"])["train_rows"].transform("nunique") > 1]


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of the Kruskal–Wallis test between two groups of scores."""
    from scipy import stats

    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def scores_of(methods: Sequence[str], chosen: pd.DataFrame) -> pd.DataFrame:
    """Return means over seeds, a column per method, without models and columns that lack a
    method."""
    return by_method(chosen).reindex(columns=list(methods)).dropna()


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return tests of each pair of methods, paired by model and column.

    Returns:
        ``first``, ``second``, ``pairs`` (the number of columns with scores of both),
        ``mean_difference`` (first minus second, of means over seeds), ``p_value`` (from
        `wilcoxon`), and ``p_holm`` (corrected for all pairs by `holm`), rounded to four digits.
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
    """Return the two-sided p-value: 1 if nothing differs, None with fewer than two pairs."""
    from scipy import stats

    if len(difference) < 2:
        return None
    return 1.0 if (difference == 0).all() else float(stats.wilcoxon(difference).pvalue)


def holm(p_values: pd.Series) -> pd.Series:
    """Return p-values with Holm's correction (1979); missing ones stay missing."""
    known = p_values.dropna().sort_values()
    factors = np.arange(len(known), 0, -1)
    return (known * factors).cummax().clip(upper=1).reindex(p_values.index)
