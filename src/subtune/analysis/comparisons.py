"""Tests of whether methods differ, and our scores beside those that a paper prints."""

import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from subtune.analysis.scores import by_method, whole_methods

SIGNIFICANCE = 0.05
# The fewest methods and columns with an order to test.
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


# The metric of a mean over tasks.
AVERAGE = "average"


def reproduction(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return printed scores with ours and the difference.

    Ours are missing if we have not run the cell, or the run diverged. If we have a single model and
    it is not the paper's, its scores are used.

    Args:
        printed: a paper's scores, from `subtune.papers.printed.scores`.
        test_scores: as ``chosen``, with the scores that the GLUE server returned.

    Returns:
        The columns of ``printed`` with ``value`` as ``reported``, and ``our_model``, ``seeds``,
        ``ours`` (mean over seeds), ``standard_deviation`` (of several seeds), ``difference``
        (ours minus reported). An average has one of ours if we have run all its tasks.
    """
    splits = {"validation": chosen} | ({} if test_scores is None else {"test": test_scores})
    ours = pd.concat(
        [_means(scores, printed).assign(split=split) for split, scores in splits.items()]
    )
    models = list(whole_methods(chosen)["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known).merge(
        ours.rename(columns={"model": "our_model", "column": "task"}),
        on=["split", "our_model", "method", "task", "is_average"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.drop(columns="is_average").astype({"seeds": "Int64"})


def averages(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return each seed's mean over columns, for models, methods and seeds that have them all.

    Returns:
        ``model``, ``method``, ``seed``, ``value``, missing if the method diverged on a column.
    """
    seeds = scores[scores["column"].isin(columns)].groupby(["model", "method", "seed"])["value"]
    means = pd.DataFrame({"value": seeds.mean(skipna=False), "columns": seeds.size()})
    whole = means[means["columns"] == len(columns)]
    return whole.drop(columns="columns").reset_index()


def _means(scores: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return our scores by model, method and column, and their averages over a paper's tasks."""
    whole = whole_methods(scores).dropna(subset=["value"])
    means = averages(whole, averaged_tasks(printed)).assign(column=AVERAGE, is_average=True)
    groups = pd.concat([whole.assign(is_average=False), means])
    groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
    return groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """Return the tasks of a paper's averages; none if it prints no average."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def exhibit_scores(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Return the printed scores of some of a paper's exhibits, in the order of these."""
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)


def train_and_dev(chosen: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return train and dev scores of the runs that were scored on their training rows.

    The first minus the second is the generalisation gap.

    Args:
        trained: ``run``, and one column per metric.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``,
        ``gap``, one row per run and column of the tables.
    """
    both = whole_methods(chosen).merge(trained, on="run")
    both["train"] = [row[row["metric"]] for _, row in both.iterrows()]
    both = both.rename(columns={"value": "dev"})
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]
