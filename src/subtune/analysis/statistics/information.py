"""Fisher information of components and layers; of layers also changes."""

from collections.abc import Collection

import pandas as pd

from subtune.analysis.information import component_ranking
from subtune.analysis.statistics.cells import NOTHING, rank_correlation, to_largest_other


def share_to_largest_other(
    shares: pd.DataFrame, component: str, without: Collection[str]
) -> pd.Series:
    """Log of a component's share of a task's information to the largest other one's.

    ``without``: components that are not compared. A table of ranks has no shares.
    """
    if "share" not in shares:
        return NOTHING
    wide = shares.pivot(index="task", columns="component", values="share")
    return to_largest_other(wide, component, without)


def ranks_first(shares: pd.DataFrame, component: str, without: Collection[str]) -> bool:
    """Whether a component has most information over all tasks (LayerNorm paper, Table 1).

    Args:
        shares: from `subtune.analysis.information.component_shares`, or a ``rank`` per
            ``component``.
        component: the one.
        without: components that are not compared.
    """
    if "rank" in shares:
        order = shares.sort_values("rank")["component"]
    else:
        order = component_ranking(shares).index.to_series()
    return order[~order.isin(without)].iloc[0] == component


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """The biases' share of a task's LayerNorm information, minus the weights'.

    Layers of which one is not known do not count.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # Norms of some models have no biases.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


def rank_of_layers(layers: pd.DataFrame, value: str, component: str | None) -> pd.Series:
    """Rank correlation of a layer's number and its LayerNorms' information or change, per task.

    Args:
        layers: ``task``, ``layer`` and the value, and where there are several a ``component``. A
            layer of which a part is not known does not count.
        value: the column.
        component: of which component, where there are several.
    """
    rows = layers if component is None else layers[layers["component"] == component]
    totals = rows.groupby(["task", "layer"])[value].agg(lambda parts: parts.sum(skipna=False))
    return (
        totals.dropna()
        .groupby(level="task")
        .apply(lambda of_task: rank_correlation(of_task.index.get_level_values("layer"), of_task))
    )
