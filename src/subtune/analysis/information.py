"""Fisher information by component and by layer."""

from collections.abc import Mapping

import pandas as pd

from subtune.families import naming
from subtune.families.base import Component, component_of
from subtune.selections.methods import LAYER_PARAMETERS


def with_places(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with each ``parameter``'s ``component``, ``layer`` and ``part``.

    Outside the layers ``layer`` is missing.
    """
    places = [component_of(name) for name in table["parameter"]]
    columns = pd.DataFrame(places, table.index, Component._fields)
    return pd.concat([table, columns], axis="columns")


def of_layer_parameters(table: pd.DataFrame) -> pd.DataFrame:
    """Return `with_places`, with each ``parameter`` by its name in `LAYER_PARAMETERS`.

    Other parameters of the layers have no name, and those outside the layers no row.
    """
    names = {tensor: name for name, tensor in LAYER_PARAMETERS.items()}
    table = with_places(table).dropna(subset="layer")
    return table.assign(parameter=(table["component"] + "." + table["part"]).map(names))


def parameter_information(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the information of each parameter that a layer has: the mean over all its entries.

    Args:
        sums: as in `component_shares`.

    Returns:
        ``task``, ``parameter`` (a name of `LAYER_PARAMETERS`), ``information``.
    """
    table = pd.concat([of_layer_parameters(rows).assign(task=task) for task, rows in sums.items()])
    added = table.groupby(["task", "parameter"], sort=False)[["information", "size"]].sum()
    return (added["information"] / added["size"]).rename("information").reset_index()


def component_shares(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return each component's share of a task's information (LayerNorm paper, 2.4).

    It is the mean over the component's entries in all layers, divided by the sum of these means.

    Args:
        sums: task name to its ``parameter``, ``size``, ``information``.

    Returns:
        ``task``, ``component``, ``share``.
    """
    parts = [pd.DataFrame(columns=["task", "component", "share"])]
    for task, table in sums.items():
        table = with_places(table).dropna(subset="layer")
        components = naming.in_order(table["component"])
        added = table.groupby("component")[["information", "size"]].sum().loc[components]
        mean = added["information"] / added["size"]
        share = (mean / mean.sum()).to_numpy()
        parts.append(pd.DataFrame({"task": task, "component": components, "share": share}))
    return pd.concat(parts, ignore_index=True)


def component_ranking(shares: pd.DataFrame) -> pd.Series:
    """Return each component's share, added over tasks; the largest first.

    LayerNorm paper, 2.4 and Table 1.

    Args:
        shares: from `component_shares`.
    """
    total = shares.groupby("component")["share"].sum().loc[naming.in_order(shares["component"])]
    return total.sort_values(ascending=False, kind="stable")


def layernorm_by_layer(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return each layer's share of LayerNorm's information (LayerNorm paper, Figures 3 and 4).

    Returns:
        ``task``, ``layer``, ``part`` (weight or bias), ``share``. A task's shares sum to 1.
    """
    parts = []
    for task, table in sums.items():
        table = with_places(table.assign(task=task)).query("component == 'output.LayerNorm'")
        share = table["information"] / table["information"].sum()
        parts.append(table[["task", "layer", "part"]].assign(share=share))
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def global_by_layer(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the global information (LayerNorm paper, Figure 4).

    Weights and biases of a task are each divided by their sum, and added over tasks.

    Args:
        shares: from `layernorm_by_layer`. Missing shares stay missing and count in no sum.

    Returns:
        ``layer``, ``part``, ``share``; missing if a task's share is. Each part sums to the number
        of tasks, as both columns of the paper's figure do.
    """
    sums = shares.groupby(["task", "part"])["share"].transform("sum")
    apart = shares.assign(share=shares["share"] / sums)
    groups = apart.groupby(["layer", "part"])["share"]
    return groups.sum(skipna=False).reset_index()


def complete_layers(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of layers for which a task has both weight and bias.

    Args:
        shares: ``task``, ``layer``, ``part``, ``share``, some of them missing.
    """
    known = shares["share"].notna().groupby([shares["task"], shares["layer"]]).transform("all")
    return shares[known]
