"""Statistics of claims: numbers in which 0 means no difference; and tests between methods.

Most claims share five statistics: `minus`, `best_minus`, `minus_printed`, `minus_on_rows` and
`parameters_of_families`. Every other statistic says why a claim needs it. If a single paper needs a
statistic, it is in that paper's folder.

A statistic reads tables of numbers, ours or a paper's. It returns a series with one number per
cell: a difference of scores or of shares, a rank correlation, or the logarithm of a ratio. Index
levels are model, column or task, and seed, if the table has them. The series is empty if a table
lacks the numbers.

``first``, ``second``, ``methods`` and ``others`` are regular expressions that must match a whole
name, of methods or of parameters. The names that match are a *family*; a plain name is one of one.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import by_method, trained_beside_classifier, whole_methods

CELL = ["model", "column", "seed"]
# The fewest pairs for a rank correlation.
FEWEST_PAIRS = 3
SIGNIFICANCE = 0.05


def no_values() -> pd.Series:
    """Return the numbers of a claim for which there are no runs."""
    return pd.Series(dtype=float)


# Statistics that most claims share.


def minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the mean score of one family minus that of another."""
    rows = whole_methods(chosen)
    firsts, seconds = (match_names(rows["method"].unique(), family) for family in (first, second))
    wide = method_scores(drop_diverged(rows[rows["method"].isin(firsts + seconds)]))
    means = [wide.reindex(columns=family).mean(axis=1) for family in (firsts, seconds)]
    return (means[0] - means[1]).dropna()


def best_minus(
    chosen: pd.DataFrame,
    first: str,
    second: str,
    digits: int,
    of_first: Literal["max", "min"] = "max",
) -> pd.Series:
    """Return, per column, the best score of one family minus the best of another.

    The second family excludes methods of the first.

    Args:
        digits: scores are means over seeds, rounded to this many digits, as a paper prints them.
        of_first: ``min`` takes the worst score of the first family instead of the best.
    """
    wide = by_method(chosen).round(digits)
    firsts, seconds = (wide[family] for family in split_families(wide, first, second))
    return (firsts.agg(of_first, axis=1) - seconds.max(axis=1)).round(digits).dropna()


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Return a method's score minus a printed score of the same model.

    Args:
        printed: the paper's scores, in the form of ours.
        pairs: each method's printed counterpart.
        exhibit: the table or figure that prints the counterparts.
        split: ``validation`` or ``test``.
    """
    wide = method_scores(chosen)
    rows = printed[(printed["exhibit"] == exhibit) & (printed["split"] == split)]
    quoted = rows.groupby(["model", "column", "method"])["value"].mean().unstack()
    differences = {
        method: wide[method] - quoted[other].reindex(wide.index.droplevel("seed")).to_numpy()
        for method, other in pairs.items()
        if method in wide and other in quoted
    }
    return pd.concat(differences, names=["method"]).dropna() if differences else no_values()


def minus_on_rows(
    sizes: pd.DataFrame, metric: str | None, end: Literal["min", "max"], first: str, second: str
) -> pd.Series:
    """Return `minus` of the runs on the smallest or on the largest number of training rows.

    Args:
        metric: the metric of the scores; default: the one by which each task's runs are chosen.
        end: ``min`` for the smallest number of rows, ``max`` for the largest.
    """
    rows = _with_several_sizes(sizes, metric)
    at_end = rows.groupby(["model", "column"])["train_rows"].transform(end)
    rows = rows[rows["train_rows"] == at_end]
    return no_values() if rows.empty else minus(rows, first, second)


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Return `log(share * min(first) / max(second))` of parameter counts, per model and task."""
    rows = whole_methods(chosen)
    rows = rows.assign(count=trained_beside_classifier(rows))
    counts = rows.groupby(["model", "task", "method"])["count"].max().unstack()
    smallest = counts[match_names(counts, first)].min(axis=1)
    largest = counts[match_names(counts, second)].max(axis=1)
    return np.log(share * smallest / largest).dropna()


# Statistics of two papers.


def minus_by_rows(sizes: pd.DataFrame, metric: str | None, first: str, second: str) -> pd.Series:
    """Return, per cell, the rank correlation of the number of training rows with `minus`.

    `minus_on_rows` does not fit: the claim is about the trend over all numbers of rows.

    Args:
        metric: as in `minus_on_rows`.
        first: a single method.
        second: a single method.
    """
    rows = _with_several_sizes(sizes, metric)
    wide = rows.groupby([*CELL, "train_rows", "method"])["value"].mean().unstack()
    wide = wide.reindex(columns=[first, second])
    return rank_correlations((wide[first] - wide[second]).dropna(), "train_rows", CELL).dropna()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Return, per model and task, how much some parameters change relative to all others.

    This is the log ratio of the smallest change of the named parameters to the largest change of
    the others. `minus` does not fit: the claim is about changes, not about scores.

    Args:
        method: the method that trains the parameters.
        names: the parameters.
        others: the parameters that they are compared with, except those in ``names``.
    """
    means = mean_changes(changes, method)
    compared = [name for name in match_names(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return no_values()
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


# Parts of statistics.


def match_names(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a pattern matches."""
    return [name for name in names if re.fullmatch(pattern, name)]


def split_families(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the names of two families; the second excludes names of the first."""
    firsts = match_names(names, first)
    return firsts, [name for name in match_names(names, second) if name not in firsts]


def method_scores(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return scores of whole methods: a row per model, column and seed; a column per method."""
    return whole_methods(chosen).groupby([*CELL, "method"])["value"].mean().unstack()


def best_rates(chosen: pd.DataFrame, methods: str) -> pd.Series:
    """Return the best learning rates of a family, per model, task and method."""
    if "learning_rate" not in chosen:
        return no_values()
    rows = whole_methods(chosen).dropna(subset=["learning_rate"])
    rows = rows[np.isfinite(rows["value"])]
    rows = rows[rows["method"].isin(match_names(rows["method"].unique(), methods))]
    return rows.groupby(["model", "task", "method"])["learning_rate"].first()


def mean_changes(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return a method's changes, averaged over layers: a row per model and task, a column per
    parameter."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's correlation; NaN for fewer than three pairs, or if a variable is
    constant."""
    from scipy import stats

    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(stats.spearmanr(first, second).statistic)


def rank_correlations(values: pd.Series, level: str, groups: list[str]) -> pd.Series:
    """Return, for each of ``groups``, the rank correlation of values and the index ``level``."""
    return values.groupby(level=groups).apply(
        lambda group: rank_correlation(group.index.get_level_values(level), group)
    )


def drop_diverged(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of models and columns on which no method diverged."""
    scores = chosen["value"].notna()
    return chosen[scores.groupby([chosen["model"], chosen["column"]]).transform("all")]


def _with_several_sizes(sizes: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Return one metric's scores for models and columns with several numbers of training rows."""
    rows = sizes[sizes["decides"] if metric is None else sizes["metric"] == metric]
    return rows[rows.groupby(["model", "column"])["train_rows"].transform("nunique") > 1]


# Tests between methods.


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of the Kruskal–Wallis test between two groups of scores."""
    from scipy import stats

    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return tests of each pair of methods, paired by model and column.

    Returns:
        A row per pair of methods, with numbers rounded to four digits.

        * ``first``, ``second``: the methods
        * ``pairs``: the number of columns with scores of both
        * ``mean_difference``: the mean over seeds of the first minus that of the second
        * ``p_value``: from `wilcoxon`
        * ``p_holm``: ``p_value`` corrected for all pairs by `holm`
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
