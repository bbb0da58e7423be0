"""How much single parameters of a layer changed, layer by layer."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from subtune.figures.drawing import COLUMN, layer_ticks
from subtune.methods import LAYER_PARAMETERS


def parameter_changes(changes: pd.DataFrame, title: str, style: Mapping[str, Any]) -> Figure:
    """Mean |change| of each parameter of a layer (rows) in each layer (columns), a panel per model.

    Args:
        changes: ``model``, ``parameter`` (a name of `subtune.methods.LAYER_PARAMETERS`), ``layer``,
            ``change``.
        title: what was trained, and on which task.
        style: ``width`` in inches, ``colormap``.
    """
    models = list(changes["model"].unique())
    order = [name for name in LAYER_PARAMETERS if name in set(changes["parameter"])]
    width = style["width"] * (COLUMN if len(models) == 1 else 1)
    size = (width, 0.9 + 0.2 * len(order))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False).ravel()
    for axes, model in zip(panels, models, strict=True):
        own = changes[changes["model"] == model]
        grid = own.pivot(index="parameter", columns="layer", values="change").reindex(order)
        image = axes.imshow(grid, aspect="auto", cmap=style["colormap"], vmin=0)
        axes.set_title(f"{title}\n({model})")
        axes.set_xticks(*layer_ticks(grid.columns))
        axes.set_yticks(range(len(order)), order)
        axes.set_xlabel("layer")
        figure.colorbar(image, ax=axes).set_label("mean |change|\n(parameter units)")
    return figure
