"""Compute the statistics by which claims are tested, and significance tests between methods.

Most claims use one of five statistics: `minus`, `best_minus`, `minus_printed`,
`minus_at_train_size` and `parameters_of_families`. The docstring of any further statistic explains
why none of these five can be used. Statistics for a single paper are in the paper's package.

A statistic takes tables with reproduced or printed numbers. It returns a series with one number per
cell, where 0 means no difference: a difference, a rank correlation, or the logarithm of a ratio.
The index levels are model, score column (or task) and seed, if the tables contain them.
Without numbers for the statistic, the series is empty.

``first``, ``second``, ``methods`` and ``others`` are regular expressions. All methods or parameters
whose whole name matches form a *family*. A plain name is a family with one member.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import (
    count_encoder_parameters,
    drop_runs_with_mask,
    pivot_methods,
    select_same_unit,
)
from subtune.core.errors import convert_errors

# Scores of two methods are paired if they have equal values in these columns.
PAIR_KEYS = ["model", "column", "seed"]
# A rank correlation needs at least this many pairs.
FEWEST_PAIRS = 3
SIGNIFICANCE = 0.05


def empty_values() -> pd.Series:
    """Build an empty series, for a statistic without data."""
    return pd.Series(dtype=float)


# Statistics that most claims use.


def minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Compute ``mean(first) - mean(second)`` of the scores of two families."""
    rows = drop_runs_with_mask(chosen)
    firsts, seconds = (match_family(rows["method"].unique(), family) for family in (first, second))
    rows = drop_columns_with_diverged_runs(rows[rows["method"].isin(firsts + seconds)])
    wide = method_scores(rows)
    means = [wide.reindex(columns=family).mean(axis=1) for family in (firsts, seconds)]
    return (means[0] - means[1]).dropna()


def best_minus(
    chosen: pd.DataFrame,
    first: str,
    second: str,
    digits: int,
    of_first: Literal["max", "min"] = "max",
) -> pd.Series:
    """Compute ``max(first) - max(second)`` of the scores of two families, for each score column.

    Methods in both families count only for the first family. With ``of_first="min"``, the lowest
    score of ``first`` is used. Scores are means over seeds, rounded to ``digits``, as the paper
    prints them.
    """
    differences = each_minus(chosen, first, second, digits)
    return differences.groupby(level=["model", "column"]).agg(of_first)


def each_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Compute ``method - max(second)`` for each method of ``first``, rounded as in `best_minus`."""
    wide = pivot_methods(chosen).round(digits)
    firsts, seconds = (wide[family] for family in split_families(wide, first, second))
    differences = firsts.sub(seconds.max(axis=1), axis=0).round(digits)
    return differences.stack().dropna()


def minus_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Compute each method's score minus the printed score of its counterpart, for the same model.

    ``pairs`` maps each method to its counterpart in the table or figure ``exhibit``.
    """
    wide = method_scores(chosen)
    rows = printed[(printed["exhibit"] == exhibit) & (printed["split"] == split)]
    quoted = rows.groupby(["model", "column", "method"])["value"].mean().unstack()
    differences = {
        method: wide[method] - quoted[other].reindex(wide.index.droplevel("seed")).to_numpy()
        for method, other in pairs.items()
        if method in wide and other in quoted
    }
    return pd.concat(differences, names=["method"]).dropna() if differences else empty_values()


def minus_at_train_size(
    sizes: pd.DataFrame, metric: str | None, end: Literal["min", "max"], first: str, second: str
) -> pd.Series:
    """Compute `minus` on the smallest or largest training set, by default in the usual metric."""
    rows = _with_several_sizes(sizes, metric)
    at_end = rows.groupby(["model", "column"])["train_rows"].transform(end)
    rows = rows[rows["train_rows"] == at_end]
    return empty_values() if rows.empty else minus(rows, first, second)


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Compute ``log(share * min(first) / max(second))`` of the parameter counts of two families."""
    rows = drop_runs_with_mask(chosen)
    rows = rows.assign(count=count_encoder_parameters(rows))
    counts = rows.groupby(["model", "task", "method"])["count"].max().unstack()
    smallest = counts[match_family(counts, first)].min(axis=1)
    largest = counts[match_family(counts, second)].max(axis=1)
    return np.log(share * smallest / largest).dropna()


# Statistics that two papers use.


def minus_by_rows(sizes: pd.DataFrame, metric: str | None, first: str, second: str) -> pd.Series:
    """Compute the rank correlation between training set size and ``first - second``.

    There is one value per combination of values in the columns `PAIR_KEYS`.
    `minus_at_train_size` does not suffice for claims about the trend over all sizes.
    """
    rows = _with_several_sizes(sizes, metric)
    wide = rows.groupby([*PAIR_KEYS, "train_rows", "method"])["value"].mean().unstack()
    wide = wide.reindex(columns=[first, second])
    return rank_correlations(
        (wide[first] - wide[second]).dropna(), "train_rows", PAIR_KEYS
    ).dropna()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Compute ``log(min(names) / max(others))`` of the changes of parameters, per model and task.

    ``method`` trains the parameters. `minus` cannot be used, because it compares scores.
    """
    means = average_changes(changes, method)
    compared = [name for name in match_family(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return empty_values()
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


# Helpers of statistics.


def match_family(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a regular expression fully matches."""
    with convert_errors(f"found {pattern!r}, expected a regular expression of methods"):
        compiled = re.compile(pattern)
    return [name for name in names if compiled.fullmatch(name)]


def split_families(names: Iterable[str], first: str, second: str) -> tuple[list[str], list[str]]:
    """Return the names in each of two families. Names in both count only for the first family."""
    firsts = match_family(names, first)
    return firsts, [name for name in match_family(names, second) if name not in firsts]


def method_scores(chosen: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the scores of runs without a mask.

    There is one row per model, score column and seed, and one column per method.
    """
    return drop_runs_with_mask(chosen).groupby([*PAIR_KEYS, "method"])["value"].mean().unstack()


def best_rates(chosen: pd.DataFrame, methods: str) -> pd.Series:
    """Return the best learning rate of each method of a family, for each model and task."""
    if "learning_rate" not in chosen:
        return empty_values()
    rows = drop_runs_with_mask(chosen).dropna(subset=["learning_rate"])
    rows = rows[np.isfinite(rows["value"])]
    rows = rows[rows["method"].isin(match_family(rows["method"].unique(), methods))]
    return rows.groupby(["model", "task", "method"])["learning_rate"].first()


def average_changes(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """Average changes over layers: one row per model and task, one column per parameter."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute Spearman's correlation, or NaN for too few pairs or a constant variable."""
    from scipy import stats

    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(stats.spearmanr(first, second).statistic)


def rank_correlations(values: pd.Series, level: str, groups: list[str]) -> pd.Series:
    """Compute the rank correlation between an index level and the values, in each group."""
    return values.groupby(level=groups).apply(
        lambda group: rank_correlation(group.index.get_level_values(level), group)
    )


def drop_columns_with_diverged_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Keep the scores of each pair of model and score column in which no run diverged."""
    scores = chosen["value"].notna()
    return chosen[scores.groupby([chosen["model"], chosen["column"]]).transform("all")]


def _with_several_sizes(sizes: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Select the scores in one metric, for models and columns with several training set sizes."""
    rows = sizes[sizes["decides"] if metric is None else sizes["metric"] == metric]
    return rows[rows.groupby(["model", "column"])["train_rows"].transform("nunique") > 1]


# Significance tests between methods.


def kruskal_wallis(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute the p-value of the Kruskal–Wallis test between two groups of scores."""
    from scipy import stats

    if len({*first, *second}) == 1:
        return 1.0
    return float(stats.kruskal(first, second).pvalue)


def kruskal_wallis_p(*tables_and_methods: Any) -> pd.Series:
    """Compute the p-value of `kruskal_wallis` for two methods, over all score columns together.

    The arguments are one or several score tables, and the names of two methods. `minus` cannot
    be used, because the claim is about a significance test.
    """
    *tables, first, second = tables_and_methods
    wide = [pivot_methods(table).reindex(columns=[first, second]) for table in tables]
    scores = pd.concat(wide).dropna()
    # With three scores per method, no difference is significant.
    if len(scores) <= FEWEST_PAIRS:
        return empty_values()
    return pd.Series([kruskal_wallis(scores[first].tolist(), scores[second].tolist())])


def paired_tests(chosen: pd.DataFrame) -> pd.DataFrame:
    """Test each pair of methods for a difference between their scores.

    The scores are means over seeds, and are paired by model and score column. If scores have
    different units, those of scorers are left out. ``pairs`` is the
    number of pairs, ``mean_difference`` is the mean of ``first - second``, ``p_value`` is from
    `wilcoxon`, and ``p_holm`` is corrected by `holm` for the number of pairs of methods.
    """
    means = pivot_methods(select_same_unit(chosen))
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
    """Compute the p-value of Wilcoxon's two-sided signed-rank test, or None for a single value."""
    from scipy import stats

    if len(difference) < 2:
        return None
    return 1.0 if (difference == 0).all() else float(stats.wilcoxon(difference).pvalue)


def holm(p_values: pd.Series) -> pd.Series:
    """Correct p-values for multiple tests by Holm's method (1979). Missing values stay missing."""
    known = p_values.dropna().sort_values()
    factors = np.arange(len(known), 0, -1)
    return (known * factors).cummax().clip(upper=1).reindex(p_values.index)


# The statistics that ``claims.yaml`` names; a paper adds its own.
STATISTICS = (
    minus,
    best_minus,
    each_minus,
    minus_printed,
    minus_at_train_size,
    parameters_of_families,
    minus_by_rows,
    changes_to_largest_other,
    kruskal_wallis_p,
)
