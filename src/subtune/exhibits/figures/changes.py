"""Heat maps of how much training changed parameters, layer by layer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.exhibits.figures.drawing import (
    COLUMN,
    layer_ticks,
    new_figure,
    panels_of,
    without_numbers,
)
from subtune.families import naming
from subtune.selections.methods import LAYER_PARAMETERS, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def component_changes(
    changes: pd.DataFrame, task_titles: Mapping[str, str], style: Mapping[str, Any]
) -> "Figure":
    """Draw the mean |change| of each component (rows) in each layer (columns), a panel per task.

    Args:
        changes: ``task``, ``component``, ``layer``, ``change``.
        task_titles: task name to title, in the order of the panels.
    """
    from matplotlib.colors import LogNorm

    if changes.empty:
        return without_numbers(style["width"])
    tasks = [task for task in task_titles if task in set(changes["task"])]
    figure, panels = panels_of(len(tasks), style["width"], height_of_panel=0.62)
    positive = changes.loc[changes["change"] > 0, "change"]
    norm = LogNorm(positive.min(), positive.max()) if len(positive) else None
    components = naming.in_order(changes["component"])
    for panel, task in zip(panels, tasks, strict=False):
        rows = changes[changes["task"] == task]
        grid = rows.pivot(index="component", columns="layer", values="change")
        grid = grid.reindex(components)
        image = panel.imshow(grid, aspect="auto", cmap=style["colormap"], norm=norm)
        panel.set_title(task_titles[task])
        panel.set_xticks(*layer_ticks(grid.columns))
        panel.set_yticks(range(len(components)), components, fontsize=6)
    for panel in panels:
        panel.label_outer()
    figure.supxlabel("layer")
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8)
    bar.set_label("mean |change|, full fine-tuning\n(parameter units, log scale)")
    return figure


def parameter_changes(
    changes: pd.DataFrame,
    task_titles: Mapping[str, str],
    method: str,
    task: str,
    style: Mapping[str, Any],
) -> "Figure":
    """Draw the mean |change| of each parameter (rows) in each layer (columns), a panel per model.

    Args:
        changes: ``model``, ``method``, ``task``, ``parameter`` (a name of
            `subtune.selections.methods.LAYER_PARAMETERS`), ``layer``, ``change``.
        task_titles: task name to title.
        method: the trained method.
        task: its task.
        style: ``width`` in inches, ``colormap``.
    """
    changes = changes[(changes["method"] == method) & (changes["task"] == task)]
    if changes.empty:
        return without_numbers(style["width"])
    title = f"{title_of(method)}, {task_titles[task]}"
    models = list(changes["model"].unique())
    order = [name for name in LAYER_PARAMETERS if name in set(changes["parameter"])]
    width = style["width"] * (COLUMN if len(models) == 1 else 1)
    figure = new_figure(width, 0.9 + 0.2 * len(order))
    panels = figure.subplots(1, len(models), squeeze=False).ravel()
    for axes, model in zip(panels, models, strict=True):
        rows = changes[changes["model"] == model]
        grid = rows.pivot(index="parameter", columns="layer", values="change").reindex(order)
        image = axes.imshow(grid, aspect="auto", cmap=style["colormap"], vmin=0)
        axes.set_title(f"{title}\n({model})")
        axes.set_xticks(*layer_ticks(grid.columns))
        axes.set_yticks(range(len(order)), order)
        axes.set_xlabel("layer")
        figure.colorbar(image, ax=axes).set_label("mean |change|\n(parameter units)")
    return figure
