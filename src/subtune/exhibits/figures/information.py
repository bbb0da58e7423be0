"""Fisher information of LayerNorm, layer by layer: ours and a paper's."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.exhibits.figures.drawing import COLUMN, heat_map, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("weight", "bias")
HEIGHT_OF_LAYER = 0.14


def information_by_task(
    shares: pd.DataFrame,
    printed: pd.DataFrame,
    task_titles: Mapping[str, str],
    style: Mapping[str, Any],
) -> "Figure":
    """Draw LayerNorm's Fisher information, layer × task, for weight and bias: ours and the paper's.

    Args:
        shares: ``task``, ``layer``, ``part``, ``share`` of the task's LayerNorm information.
        printed: ``task``, ``layer``, ``part``, ``value`` as the paper prints them; a missing
            value cannot be read there.
        task_titles: task name to title, in the order of the columns.
        style: ``width`` in inches, ``colormap``.
    """
    layers = [shares["layer"].nunique(), printed["layer"].nunique()]
    height = 2.6 + HEIGHT_OF_LAYER * sum(layers)
    figure = new_figure(style["width"], height)
    panels = figure.subplots(2, 2, height_ratios=layers)
    largest = shares["share"].max()
    for part, ours, theirs in zip(PARTS, *panels, strict=True):
        grid = _grid(shares, part, "share", task_titles)
        image = heat_map(ours, grid * 100, style["colormap"], (0, largest * 100), "{:.1f}")
        ours.set_title(f"this run: {part}")
        grid = _grid(printed, part, "value", task_titles)
        other = heat_map(theirs, grid, style["colormap"], (0, 1), "{:.2g}")
        theirs.set_title(f"paper: {part}")
    for row in panels:
        row[0].set_ylabel("layer")
    figure.colorbar(image, ax=panels[0]).set_label("% of the task's\nLayerNorm information")
    figure.colorbar(other, ax=panels[1]).set_label(
        "as printed\n(scale not stated; BERT-large-cased)"
    )
    return figure


def global_information(
    shares: pd.DataFrame, printed: pd.DataFrame, style: Mapping[str, Any]
) -> "Figure":
    """Draw LayerNorm's global Fisher information, layer × part: ours and the paper's.

    Every column adds up to the number of tasks. Norms without biases have one column. Colours share
    one scale: multiples of an even share per layer.

    Args:
        shares: from `subtune.analysis.information.global_by_layer`.
        printed: ``layer``, ``part``, ``value``, on the same scale.
        style: ``width`` in inches, ``colormap``.
    """
    tables = {"this run": shares.rename(columns={"share": "value"}), "paper": printed}
    grids = {
        title: table.pivot(index="layer", columns="part", values="value").reindex(columns=PARTS)
        for title, table in tables.items()
    }
    even_shares = {title: float(np.nanmean(grid)) for title, grid in grids.items()}
    multiples = np.concatenate(
        [np.ravel(grid) / even_shares[title] for title, grid in grids.items()]
    )
    low, high = float(np.nanmin(multiples)), float(np.nanmax(multiples))
    height = 1.4 + HEIGHT_OF_LAYER * max(map(len, grids.values()))
    figure = new_figure(style["width"] * COLUMN, height)
    panels = figure.subplots(1, 2)
    for panel, (title, grid) in zip(panels, grids.items(), strict=True):
        limits = (low * even_shares[title], high * even_shares[title])
        image = heat_map(panel, grid, style["colormap"], limits, "{:.2f}")
        panel.set_title(title)
        bar = figure.colorbar(image, ax=panel, location="bottom", shrink=0.9)
        bar.set_label(f"sum over {round(grid.sum().max())} tasks")
    panels[0].set_ylabel("layer")
    return figure


def _grid(table: pd.DataFrame, part: str, value: str, titles: Mapping[str, str]) -> pd.DataFrame:
    grid = table[table["part"] == part].pivot(index="layer", columns="task", values=value)
    return grid[[task for task in titles if task in grid.columns]].rename(columns=titles)
