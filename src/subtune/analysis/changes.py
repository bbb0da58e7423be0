"""Changes of parameters during training."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.analysis.information import of_layer_parameters, with_places
from subtune.analysis.scores import whole_methods
from subtune.runs import records


def changes_of_full_tuning(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return `changes_by_component` for full fine-tuning on every task.

    Raises:
        SubtuneError: a record is missing.
    """
    runs = whole_methods(chosen).dropna(subset=["value"]).query("decides and method == 'full'")
    return changes_by_component(
        {
            task: [records.read_changes(store, run) for run in of_task["run"]]
            for task, of_task in runs.groupby("task", sort=False)
        }
    )


def changes_of_methods(
    chosen: pd.DataFrame, methods_on_tasks: Collection[tuple[str, str]], store: Path
) -> pd.DataFrame:
    """Return `changes_by_parameter` for pairs of method and task, with every model.

    Returns:
        ``parameter``, ``layer``, ``change``, ``model``, ``method``, ``task``.

    Raises:
        SubtuneError: a record is missing.
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
    table = of_layer_parameters(pd.concat(tables, ignore_index=True))
    means = table.groupby(["parameter", "layer"], as_index=False)["mean_abs_change"].mean()
    return means.rename(columns={"mean_abs_change": "change"}).astype({"layer": int})
