"""Changes, Fisher information and numbers of parameters; best learning rates; rank correlations."""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from subtune.analysis.information import component_ranking
from subtune.analysis.scores import trained_beside_classifier, whole_methods
from subtune.analysis.statistics.scores import NOTHING, matching

# The fewest pairs of a rank correlation.
FEWEST_PAIRS = 3


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's; NaN for fewer than three pairs, or if either does not vary."""
    from scipy import stats

    if len(first) < FEWEST_PAIRS or min(np.ptp(first), np.ptp(second)) == 0:
        return np.nan
    return float(stats.spearmanr(first, second).statistic)


def to_largest_other(table: pd.DataFrame, name: str, without: Collection[str]) -> pd.Series:
    """Return the log of a column's ratio to the largest of the others, per row."""
    if name not in table:
        return NOTHING
    others = table.drop(columns=[name, *(other for other in without if other in table)])
    return np.log(table[name] / others.max(axis=1)).dropna()


def changes_of(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return a method's changes, means over layers: rows model and task, columns parameters."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Return the log ratio of the smallest of some changes to the largest of others.

    There is one number per model and task. ``others`` is what the other parameters' names begin
    with.
    """
    means = changes_of(changes, method)
    compared = [name for name in matching(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return NOTHING
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Return the log of a share of one family's fewest parameters to another's most, per task.

    A claim that the second trains fewer holds only if even its largest method does.
    """
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


def share_to_largest_other(
    shares: pd.DataFrame, component: str, without: Collection[str]
) -> pd.Series:
    """Return the log of a component's share of a task's information to the largest other share.

    Components in ``without`` are not compared. A table of ranks has no shares.
    """
    if "share" not in shares:
        return NOTHING
    wide = shares.pivot(index="task", columns="component", values="share")
    return to_largest_other(wide, component, without)


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Return whether a component has most information over all tasks (LayerNorm paper, Table 1).

    Args:
        shares: from `subtune.analysis.information.component_shares`, or a ``rank`` per
            ``component``.
        without: components that are not compared.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Return the rank correlation of a layer's number and its LayerNorms' values, per task.

    Args:
        layers: ``task``, ``layer`` and the value, and if there are several a ``component``. A
            layer with a missing part does not count.
        value: the column: information or change.
        component: which component, if there are several.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    totals = rows.groupby(["task", "layer"])[value].agg(lambda parts: parts.sum(skipna=False))
    return (
        totals.dropna()
        .groupby(level="task")
        .apply(lambda of_task: rank_correlation(of_task.index.get_level_values("layer"), of_task))
    )
