"""Compute Fisher information and changes of parameters, by component and by layer."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd

from subtune.analysis.chosen_runs import drop_runs_with_mask
from subtune.methods import FULL, LAYER_PARAMETERS
from subtune.methods.roles import Component, sort_components, split_name
from subtune.runs import records


def split_parameter_names(table: pd.DataFrame) -> pd.DataFrame:
    """Add the ``component``, ``layer`` (if any) and ``part`` of each ``parameter``."""
    places = [split_name(name) for name in table["parameter"]]
    columns = pd.DataFrame(places, table.index, Component._fields)
    return pd.concat([table, columns], axis="columns")


def add_layer_parameters(table: pd.DataFrame) -> pd.DataFrame:
    """Select the parameters of layers, and give them their names in `LAYER_PARAMETERS`, if any."""
    names = {tensor: name for name, tensor in LAYER_PARAMETERS.items()}
    table = split_parameter_names(table).dropna(subset="layer")
    return table.assign(parameter=(table["component"] + "." + table["part"]).map(names))


def information_tables(sums: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Compute the tables of Fisher information from the sums over the entries of each tensor.

    * ``parameter_information``: ``task``, ``parameter`` (a name in `LAYER_PARAMETERS`) and
      ``information``, the mean over the parameter's entries in all layers
    * ``component_shares``: ``task``, ``component`` and ``share``, the mean over the component's
      entries in all layers, divided by the sum of these means over all components (LayerNorm paper,
      2.4)
    * ``layernorm_information``: ``task``, ``layer``, ``part`` (weight or bias) and ``share``, each
      layer's share of the task's information in the output LayerNorm (LayerNorm paper, Figure 3)
    * ``global_layernorm_information``: from `global_layernorm_information`
    """

    def share_of_task(table: pd.DataFrame) -> pd.Series:
        information = table.groupby("task")["information"]
        return information.transform(lambda values: values / values.sum())

    parameters = add_layer_parameters(sums)
    places = split_parameter_names(sums)
    in_layers = places.dropna(subset="layer")
    components = _mean_per_entry(in_layers, ["task", "component"], "information")
    components["share"] = share_of_task(components)
    layers = places.query("component == 'output.LayerNorm'").astype({"layer": int})
    layers["share"] = share_of_task(layers)
    layers = layers[["task", "layer", "part", "share"]]
    return {
        "component_shares": components[["task", "component", "share"]],
        "parameter_information": _mean_per_entry(parameters, ["task", "parameter"], "information"),
        "layernorm_information": layers,
        "global_layernorm_information": global_layernorm_information(layers),
    }


def _mean_per_entry(tensors: pd.DataFrame, keys: list[str], column: str) -> pd.DataFrame:
    """Divide the sum of ``column`` by the number of entries in each group of ``keys``."""
    sums = tensors.groupby(keys, sort=False)[[column, "size"]].sum()
    return (sums[column] / sums["size"]).rename(column).reset_index()


def component_ranking(shares: pd.DataFrame) -> pd.Series:
    """Sum each component's shares over tasks, largest first (LayerNorm paper, 2.4 and Table 1)."""
    total = shares.groupby("component")["share"].sum().loc[sort_components(shares["component"])]
    return total.sort_values(ascending=False, kind="stable")


def global_layernorm_information(shares: pd.DataFrame) -> pd.DataFrame:
    """Sum the normalised ``layernorm_information`` over tasks (LayerNorm paper, Figure 4).

    For each task, the shares of weights and of biases are divided by their sums, in which missing
    values count as 0. Therefore the weights of all layers sum to the number of tasks. A layer's
    share is missing if it is missing on any task.
    """
    sums = shares.groupby(["task", "part"])["share"].transform("sum")
    normalised = shares.assign(share=shares["share"] / sums)
    groups = normalised.groupby(["layer", "part"])["share"]
    return groups.sum(skipna=False).reset_index()


def component_changes(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Compute the mean absolute change of components in full fine-tuning (LayerNorm paper, Eq. 1).

    ``change`` is the mean over the component's entries and over seeds.
    """
    parts = [pd.DataFrame(columns=["task", "component", "layer", "change"])]
    for (task,), table in _read_changes(chosen[chosen["method"] == FULL], ["task"], store):
        table = split_parameter_names(table).sort_values(["component", "layer"], kind="stable")
        table = table.assign(change=table["mean_abs_change"] * table["size"])
        parts.append(_mean_per_entry(table, ["component", "layer"], "change").assign(task=task))
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def mean_abs_changes(
    chosen: pd.DataFrame, methods_on_tasks: Collection[tuple[str, str]], store: Path
) -> pd.DataFrame:
    """Compute the mean absolute change of each layer's biases and LayerNorm weights (BitFit, 4).

    ``parameter`` is a name in `LAYER_PARAMETERS`, and ``change`` the mean over seeds.
    """
    pairs = zip(chosen["method"], chosen["task"], strict=True)
    selected = chosen[[pair in methods_on_tasks for pair in pairs]]
    parts = [pd.DataFrame(columns=["model", "method", "task", "parameter", "layer", "change"])]
    for key, table in _read_changes(selected, ["model", "method", "task"], store):
        groups = add_layer_parameters(table).groupby(["parameter", "layer"])
        means = groups["mean_abs_change"].mean().rename("change").reset_index()
        parts.append(means.assign(**dict(zip(["model", "method", "task"], key, strict=True))))
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def _read_changes(
    chosen: pd.DataFrame, keys: list[str], store: Path
) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield each combination of ``keys`` and the changes in its unmasked runs."""
    runs = drop_runs_with_mask(chosen).dropna(subset=["value"]).query("decides")
    for key, same in runs.groupby(keys, sort=False):
        yield key, pd.concat([records.read_parameter_changes(store, run) for run in same["run"]])
