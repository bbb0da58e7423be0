"""Statistics that only the LayerNorm paper's claims need."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from subtune.analysis.parameters import component_ranking
from subtune.analysis.scores import masked
from subtune.analysis.statistics import CELL, NOTHING, method_scores, minus, rank_correlations


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of dev scores and of test scores.

    `minus` does not fit: it reads a single table.
    """
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def mask_minus(
    chosen: pd.DataFrame, first: str, second: str, fraction: float | None = None
) -> pd.Series:
    """Return the score of one kind of mask minus that of another.

    `minus` does not fit: it leaves out masks.

    Args:
        first: a kind of mask (``individual``, ``global`` or ``cv``), or a whole method.
        second: like ``first``.
        fraction: the masks with the nearest fraction are compared; default: the mean over all
            fractions.
    """
    masks = masked(chosen).groupby([*CELL, "fraction", "scope"])["value"].mean().unstack()
    if masks.empty:
        return NOTHING
    whole = method_scores(chosen).drop(columns=masks.columns, errors="ignore")
    wide = masks.join(whole).reindex(columns=[first, second])
    if fraction is not None:
        fractions = wide.index.get_level_values("fraction")
        nearest = min(fractions, key=lambda value: abs(value - fraction))
        wide = wide[fractions == nearest]
    return (wide[first] - wide[second]).groupby(level=CELL).mean(skipna=False).dropna()


def to_largest_other(
    table: pd.DataFrame, component: str, without: Collection[str], value: str = "share"
) -> pd.Series:
    """Return how far a component is above all others: a log ratio for each task.

    It is the component's mean over layers, divided by the largest such mean of another component.
    The series is empty for a table of ranks. `changes_to_largest_other` does not fit: these tables
    have components instead of parameters, and no methods.

    Args:
        without: components that are not compared.
        value: the column: ``share`` of information, or ``change``.
    """
    if value not in table:
        return NOTHING
    wide = table.groupby(["task", "component"])[value].mean().unstack()
    if component not in wide:
        return NOTHING
    others = wide.drop(columns=[component, *without], errors="ignore")
    return np.log(wide[component] / others.max(axis=1)).dropna()


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Return whether a component has the most information over all tasks (Table 1).

    A statistic per task does not fit: Table 1 prints only an order over all tasks.

    Args:
        shares: from `component_shares`, or a ``rank`` per ``component``.
        without: components that are not compared.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Return, per task, the rank correlation of layer numbers and values of LayerNorms.

    A difference does not fit: the claim is about a trend over layers.

    Args:
        layers: ``task``, ``layer``, the value and, if there are several components, ``component``.
        value: the column: information or change.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    return rank_correlations(rows.groupby(["task", "layer"])[value].sum(), "layer", ["task"])


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Return the biases' share of a task's LayerNorm information minus the weights' share.

    Layers without one of the two are left out. `minus` does not fit: the table has no methods.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # Norms of some models have no biases.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]
