"""Where Fisher information is, by component and by layer."""

from collections.abc import Mapping

import pandas as pd

from subtune.models.families import CANONICAL


def component_shares(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each component's share of a task's information: the mean over its entries of all layers,
    divided by the sum of these means (LayerNorm paper, 2.4).

    Args:
        sums: task name to its ``parameter``, ``size``, ``information``.

    Returns:
        ``task``, ``component``, ``share``.
    """
    components = list(CANONICAL.components)
    parts = []
    for task, table in sums.items():
        component = table["parameter"].map(lambda name: CANONICAL.component_of(name).component)
        added = table.groupby(component)[["information", "size"]].sum().loc[components]
        mean = added["information"] / added["size"]
        share = (mean / mean.sum()).to_numpy()
        parts.append(pd.DataFrame({"task": task, "component": components, "share": share}))
    return pd.concat(parts, ignore_index=True)


def component_ranking(shares: pd.DataFrame) -> pd.Series:
    """Components to their shares of each task's information, added over tasks, largest first.

    (LayerNorm paper, 2.4 and Table 1.)

    Args:
        shares: from `component_shares`.
    """
    total = shares.groupby("component")["share"].sum().loc[list(CANONICAL.components)]
    return total.sort_values(ascending=False, kind="stable")


def layernorm_by_layer(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each layer's share of a task's LayerNorm information (LayerNorm paper, Figures 3 and 4).

    Returns:
        ``task``, ``layer``, ``part`` (weight or bias), ``share``. A task's shares sum to 1.
    """
    parts = []
    for task, table in sums.items():
        where = table["parameter"].map(CANONICAL.component_of)
        table = table.assign(
            task=task, layer=[w.layer for w in where], part=[w.part for w in where]
        )[[w.component == "output.LayerNorm" for w in where]]
        table["share"] = table["information"] / table["information"].sum()
        parts.append(table[["task", "layer", "part", "share"]])
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def global_by_layer(shares: pd.DataFrame) -> pd.DataFrame:
    """The global information: the sum over tasks of `layernorm_by_layer`'s shares."""
    return shares.groupby(["layer", "part"], as_index=False)["share"].sum()
