"""Fisher information and changes of parameters, by component and by layer."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.analysis.scores import whole_methods
from subtune.families.base import Component, component_of, in_order
from subtune.runs import records
from subtune.selections.methods import LAYER_PARAMETERS


def with_places(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with each ``parameter``'s ``component``, ``layer`` and ``part``.

    Outside the layers ``layer`` is missing.
    """
    places = [component_of(name) for name in table["parameter"]]
    columns = pd.DataFrame(places, table.index, Component._fields)
    return pd.concat([table, columns], axis="columns")


def with_layer_parameters(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `with_places`, with names of `LAYER_PARAMETERS` in ``parameter``.

    Other parameters of the layers have no name; parameters outside the layers have no row.
    """
    names = {tensor: name for name, tensor in LAYER_PARAMETERS.items()}
    table = with_places(table).dropna(subset="layer")
    return table.assign(parameter=(table["component"] + "." + table["part"]).map(names))


def parameter_information(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the mean information per entry of each kind of layer parameter.

    Returns:
        ``task``, ``parameter`` (a name of `LAYER_PARAMETERS`), ``information``.
    """
    table = pd.concat(
        [with_layer_parameters(rows).assign(task=task) for task, rows in sums.items()]
    )
    added = table.groupby(["task", "parameter"], sort=False)[["information", "size"]].sum()
    return (added["information"] / added["size"]).rename("information").reset_index()


def component_shares(sums: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return each component's share of a task's information (LayerNorm paper, 2.4).

    It is the mean over the component's entries in all layers, divided by the sum of these means.

    Returns:
        ``task``, ``component``, ``share``.
    """
    parts = [pd.DataFrame(columns=["task", "component", "share"])]
    for task, table in sums.items():
        table = with_places(table).dropna(subset="layer")
        components = in_order(table["component"])
        added = table.groupby("component")[["information", "size"]].sum().loc[components]
        mean = added["information"] / added["size"]
        share = (mean / mean.sum()).to_numpy()
        parts.append(pd.DataFrame({"task": task, "component": components, "share": share}))
    return pd.concat(parts, ignore_index=True)


def component_ranking(shares: pd.DataFrame) -> pd.Series:
    """Return each component's share, summed over tasks, the largest first (LayerNorm paper, 2.4 and
    Table 1)."""
    total = shares.groupby("component")["share"].sum().loc[in_order(shares["component"])]
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
        shares: from `layernorm_by_layer`. Missing shares stay missing and are left out of sums.

    Returns:
        ``layer``, ``part``, ``share``; missing if a task's share is missing. As in the paper's
        figure, each part sums to the number of tasks.
    """
    sums = shares.groupby(["task", "part"])["share"].transform("sum")
    apart = shares.assign(share=shares["share"] / sums)
    groups = apart.groupby(["layer", "part"])["share"]
    return groups.sum(skipna=False).reset_index()


def changes_of_full_tuning(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return `changes_by_component` for full fine-tuning on every task."""
    runs = whole_methods(chosen).dropna(subset=["value"]).query("decides and method == 'full'")
    return changes_by_component(
        {
            task: [records.read_changes(store, run) for run in task_runs["run"]]
            for task, task_runs in runs.groupby("task", sort=False)
        }
    )


def changes_of_methods(
    chosen: pd.DataFrame, methods_on_tasks: Collection[tuple[str, str]], store: Path
) -> pd.DataFrame:
    """Return `changes_by_parameter` for pairs of method and task, with every model.

    Returns:
        ``parameter``, ``layer``, ``change``, ``model``, ``method``, ``task``.
    """
    runs = whole_methods(chosen).dropna(subset=["value"]).query("decides")
    parts = [pd.DataFrame(columns=["model", "method", "task", "parameter", "layer", "change"])]
    for (model, method, task), same in runs.groupby(["model", "method", "task"], sort=False):
        if (method, task) in methods_on_tasks:
            part = changes_by_parameter([records.read_changes(store, run) for run in same["run"]])
            parts.append(part.assign(model=model, method=method, task=task))
    return pd.concat(parts)


def changes_by_component(changes: Mapping[str, Sequence[pd.DataFrame]]) -> pd.DataFrame:
    """Return the mean |change| of each component in each layer (LayerNorm paper, Eq. 1).

    Args:
        changes: task name to a table per seed: ``parameter``, ``mean_abs_change``, ``size``.

    Returns:
        ``task``, ``component``, ``layer``, ``change``: the mean over a component's entries.
    """
    parts = [pd.DataFrame(columns=["task", "component", "layer", "change"])]
    for task, tables in changes.items():
        table = with_places(pd.concat(tables, ignore_index=True))
        table = table.assign(total=table["mean_abs_change"] * table["size"], task=task)
        added = table.groupby(["task", "component", "layer"])[["total", "size"]].sum()
        parts.append((added["total"] / added["size"]).rename("change").reset_index())
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def changes_by_parameter(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the mean |change| of each layer's biases and LayerNorm weights (BitFit, section 4).

    Args:
        tables: one per seed: ``parameter``, ``mean_abs_change``, ``size``.

    Returns:
        ``parameter`` (a name of `LAYER_PARAMETERS`), ``layer``, ``change`` (the mean over seeds).
    """
    table = with_layer_parameters(pd.concat(tables, ignore_index=True))
    means = table.groupby(["parameter", "layer"], as_index=False)["mean_abs_change"].mean()
    return means.rename(columns={"mean_abs_change": "change"}).astype({"layer": int})
