"""How much training changed the parameters."""

from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.models.components import COMPONENTS, component_of


def changes_by_component(changes: Mapping[str, Sequence[pd.DataFrame]]) -> pd.DataFrame:
    """Mean |change| of each component in each layer (LayerNorm paper, Eq. 1).

    Args:
        changes: task name to one table per seed of ``parameter``, ``mean_abs_change``, ``size``.

    Returns:
        ``task``, ``component``, ``layer``, ``change``: the mean over a component's entries.
    """
    parts = []
    for task, tables in changes.items():
        table = pd.concat(tables)
        where = table["parameter"].map(component_of)
        table = table.assign(
            task=task,
            component=[w.component for w in where],
            layer=[w.layer for w in where],
            total=table["mean_abs_change"] * table["size"],
        )
        table = table[table["component"].isin(COMPONENTS) & table["layer"].notna()]
        added = table.groupby(["task", "component", "layer"], as_index=False)[
            ["total", "size"]
        ].sum()
        added["change"] = added["total"] / added["size"]
        parts.append(added[["task", "component", "layer", "change"]])
    return pd.concat(parts, ignore_index=True).astype({"layer": int})
