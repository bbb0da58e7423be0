"""Fisher information and changes of parameters, by component and by layer."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd

from subtune.analysis.chosen_runs import whole_methods
from subtune.methods import LAYER_PARAMETERS
from subtune.methods.roles import Component, sort_components, split_name
from subtune.runs import records


def add_places(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with each ``parameter``'s ``component``, ``layer`` and ``part``.

    A parameter outside the layers has no ``layer``.
    """
    places = [split_name(name) for name in table["parameter"]]
    columns = pd.DataFrame(places, table.index, Component._fields)
    return pd.concat([table, columns], axis="columns")


def with_layer_parameters(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the layers' parameters, with `add_places` applied.

    ``parameter`` becomes the name in `LAYER_PARAMETERS`, or NaN if that list lacks the parameter.
    """
    names = {tensor: name for name, tensor in LAYER_PARAMETERS.items()}
    table = add_places(table).dropna(subset="layer")
    return table.assign(parameter=(table["component"] + "." + table["part"]).map(names))


def information_tables(sums: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of Fisher information by name, from the sums of all tasks.

    * ``parameter_information``: ``task``, ``parameter`` (a name of `LAYER_PARAMETERS`) and
      ``information``, the mean per entry of each kind of layer parameter
    * ``component_shares``: ``task``, ``component`` and ``share`` (LayerNorm paper, 2.4). A
      share is the mean over the component's entries in all layers, divided by the sum of all
      components' means.
    * ``layernorm_information``: ``task``, ``layer``, ``part`` (weight or bias) and ``share``,
      each layer's share of the task's LayerNorm information (LayerNorm paper, Figure 3)
    * ``global_layernorm_information``: from the function of this name
    """

    def share_of_task(table: pd.DataFrame) -> pd.Series:
        information = table.groupby("task")["information"]
        return information.transform(lambda values: values / values.sum())

    parameters = with_layer_parameters(sums)
    places = add_places(sums)
    components = _per_entry(places.dropna(subset="layer"), ["task", "component"], "information")
    components["share"] = share_of_task(components)
    layers = places.query("component == 'output.LayerNorm'").astype({"layer": int})
    layers["share"] = share_of_task(layers)
    layers = layers[["task", "layer", "part", "share"]]
    return {
        "component_shares": components[["task", "component", "share"]],
        "parameter_information": _per_entry(parameters, ["task", "parameter"], "information"),
        "layernorm_information": layers,
        "global_layernorm_information": global_layernorm_information(layers),
    }


def _per_entry(tensors: pd.DataFrame, keys: list[str], column: str) -> pd.DataFrame:
    """Return the sum of a column, divided by the number of entries, per group of tensors."""
    added = tensors.groupby(keys, sort=False)[[column, "size"]].sum()
    return (added[column] / added["size"]).rename(column).reset_index()


def component_ranking(shares: pd.DataFrame) -> pd.Series:
    """Return each component's share, summed over tasks, the largest first (LayerNorm paper, 2.4 and
    Table 1)."""
    total = shares.groupby("component")["share"].sum().loc[sort_components(shares["component"])]
    return total.sort_values(ascending=False, kind="stable")


def global_layernorm_information(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the global information (LayerNorm paper, Figure 4).

    A task's weights are divided by the sum of its weights, and its biases by the sum of its biases.
    The quotients are then summed over tasks.

    Args:
        shares: the table ``layernorm_information``. Missing shares stay missing and are left out of
            sums.

    Returns:
        ``layer``, ``part``, ``share``. A share is missing if a task's share is missing. As in the
        paper's figure, the shares of each part sum to the number of tasks.
    """
    sums = shares.groupby(["task", "part"])["share"].transform("sum")
    apart = shares.assign(share=shares["share"] / sums)
    groups = apart.groupby(["layer", "part"])["share"]
    return groups.sum(skipna=False).reset_index()


def component_changes(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return the mean |change| of each component in each layer after full fine-tuning (LayerNorm
    paper, Eq. 1).

    Returns:
        ``task``, ``component``, ``layer``, ``change``: the mean over a component's entries and over
        seeds.
    """
    parts = [pd.DataFrame(columns=["task", "component", "layer", "change"])]
    for (task,), table in _run_changes(chosen[chosen["method"] == "full"], ["task"], store):
        table = add_places(table).sort_values(["component", "layer"], kind="stable")
        table = table.assign(change=table["mean_abs_change"] * table["size"])
        parts.append(_per_entry(table, ["component", "layer"], "change").assign(task=task))
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def mean_abs_changes(
    chosen: pd.DataFrame, methods_on_tasks: Collection[tuple[str, str]], store: Path
) -> pd.DataFrame:
    """Return the mean |change| of each layer's biases and LayerNorm weights (BitFit, section 4).

    Args:
        methods_on_tasks: pairs of method and task; all models are included.

    Returns:
        ``model``, ``method``, ``task``, ``parameter`` (a name of `LAYER_PARAMETERS`), ``layer``,
        ``change`` (the mean over seeds).
    """
    pairs = zip(chosen["method"], chosen["task"], strict=True)
    drawn = chosen[[pair in methods_on_tasks for pair in pairs]]
    parts = [pd.DataFrame(columns=["model", "method", "task", "parameter", "layer", "change"])]
    for key, table in _run_changes(drawn, ["model", "method", "task"], store):
        groups = with_layer_parameters(table).groupby(["parameter", "layer"])
        means = groups["mean_abs_change"].mean().rename("change").reset_index()
        parts.append(means.assign(**dict(zip(["model", "method", "task"], key, strict=True))))
    return pd.concat(parts, ignore_index=True).astype({"layer": int})


def _run_changes(
    chosen: pd.DataFrame, keys: list[str], store: Path
) -> Iterator[tuple[tuple, pd.DataFrame]]:
    """Yield each combination of values of the columns ``keys``, with the changes in its runs.

    Masked runs and runs that diverged are left out.
    """
    runs = whole_methods(chosen).dropna(subset=["value"]).query("decides")
    for key, same in runs.groupby(keys, sort=False):
        yield key, pd.concat([records.read_changes(store, run) for run in same["run"]])
