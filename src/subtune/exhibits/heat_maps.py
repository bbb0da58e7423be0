"""Draws heat maps by layer: changes of parameters, and LayerNorm's Fisher information."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.exhibits.output import (
    NARROW,
    WIDTH,
    ExperimentResults,
    empty_figure,
    new_figure,
    new_panels,
)
from subtune.methods import LAYER_PARAMETERS, method_title
from subtune.methods.roles import sort_components

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

WEIGHT_AND_BIAS = ["weight", "bias"]
COLOUR_MAP = "viridis"
HEIGHT_OF_LAYER = 0.14
# The style of a cell without a number.
MISSING: dict[str, Any] = {
    "facecolor": "0.9", "edgecolor": "0.45", "hatch": "//////", "linewidth": 0,
}  # fmt: skip


def draw_component_changes(results: ExperimentResults) -> "Figure":
    """Draw the mean |change| of each component (rows) in each layer (columns).

    There is one panel per task.
    """
    from matplotlib.colors import LogNorm

    changes = results["changes"]
    if changes.empty:
        return empty_figure()
    tasks = [task for task in results.task_titles if task in set(changes["task"])]
    figure, panels = new_panels(len(tasks), WIDTH, height_of_panel=0.62)
    positive = changes.loc[changes["change"] > 0, "change"]
    norm = LogNorm(positive.min(), positive.max()) if len(positive) else None
    components = sort_components(changes["component"])
    for panel, task in zip(panels, tasks, strict=True):
        of_task = changes[changes["task"] == task].set_index("component")
        image = _draw_layers(panel, of_task, components, cmap=COLOUR_MAP, norm=norm)
        panel.set_title(results.task_titles[task])
        panel.tick_params("y", labelsize=6)
        panel.label_outer()
    figure.supxlabel("layer")
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8)
    bar.set_label("mean absolute change\nin full fine-tuning (log scale)")
    return figure


def draw_parameter_changes(results: ExperimentResults, method: str, task: str) -> "Figure":
    """Draw the mean |change| of each parameter (rows) in each layer (columns).

    There is one panel per model. Parameters are named as in `subtune.methods.LAYER_PARAMETERS`.
    """
    changes = results["parameter_changes"]
    changes = changes[(changes["method"] == method) & (changes["task"] == task)]
    if changes.empty:
        return empty_figure()
    models = list(changes["model"].unique())
    order = [name for name in LAYER_PARAMETERS if name in set(changes["parameter"])]
    width = NARROW if len(models) == 1 else WIDTH
    figure = new_figure(width, 0.9 + 0.2 * len(order))
    panels = figure.subplots(1, len(models), squeeze=False).ravel()
    for axes, model in zip(panels, models, strict=True):
        of_model = changes[changes["model"] == model].set_index("parameter")
        image = _draw_layers(axes, of_model, order, cmap=COLOUR_MAP, vmin=0)
        axes.set_title(f"{method_title(method)}, {results.task_titles[task]}\n({model})")
        axes.set_xlabel("layer")
        figure.colorbar(image, ax=axes).set_label("mean |change|\n(parameter units)")
    return figure


def _draw_layers(
    panel: "Axes", changes: pd.DataFrame, rows: Sequence[str], **colours: Any
) -> "AxesImage":
    """Draw a heat map with one row per name and one column per layer.

    Args:
        changes: a table with the columns ``layer`` and ``change``, indexed by name.
        colours: options of matplotlib's ``imshow``, such as the colour map.
    """
    grid = changes.pivot(columns="layer", values="change").reindex(rows)
    image = panel.imshow(grid, aspect="auto", **colours)
    layers = grid.columns
    # Only about six layers have labels, because all labels would overlap.
    positions = range(0, len(layers), max(1, len(layers) // 6))
    panel.set_xticks(positions, [str(layers[position]) for position in positions])
    panel.set_yticks(range(len(rows)), rows)
    return image


def draw_information(results: ExperimentResults) -> "Figure":
    """Draw LayerNorm's Fisher information by layer (rows) and task (columns).

    Separate panels show weights and biases, in our runs and in the paper. Our values are shares of
    the task's LayerNorm information. Values that are illegible in the paper are missing.
    """
    shares, printed = results["layernorm_information"], results.printed("figure3")
    layers = [shares["layer"].nunique(), printed["layer"].nunique()]
    figure = new_figure(WIDTH, 2.6 + HEIGHT_OF_LAYER * sum(layers))
    panels = figure.subplots(2, 2, height_ratios=layers)
    percent = shares.assign(value=shares["share"] * 100)
    share = "% of the task's\nLayerNorm information"
    as_printed = "as printed\n(scale not stated; BERT-large-cased)"
    rows = (
        ("this run", percent, percent["value"].max(), "{:.1f}", share),
        ("paper", printed, 1, "{:.2g}", as_printed),
    )
    for axes_of_row, (title, table, largest, number, label) in zip(panels, rows, strict=True):
        for axes, part in zip(axes_of_row, WEIGHT_AND_BIAS, strict=True):
            grid = table[table["part"] == part].pivot(index="layer", columns="task", values="value")
            tasks = [task for task in results.task_titles if task in grid.columns]
            grid = grid[tasks].rename(columns=results.task_titles)
            image = _draw_heat_map(axes, grid, (0, largest), number)
            axes.set_title(f"{title}: {part}")
        axes_of_row[0].set_ylabel("layer")
        figure.colorbar(image, ax=axes_of_row).set_label(label)
    return figure


def draw_global_information(results: ExperimentResults) -> "Figure":
    """Draw LayerNorm's global Fisher information by layer (rows), for weights and biases (columns).

    One panel shows our values, the other one those of the paper. The values of each column sum to
    the number of tasks. The column for biases is empty if the norms have no biases. Both panels
    have the same colour scale, whose unit is the mean of the panel's values.
    """
    shares = results["global_layernorm_information"].rename(columns={"share": "value"})
    grids = dict[str, pd.DataFrame]()
    for title, table in (("this run", shares), ("paper", results.printed("figure4"))):
        grid = table.pivot(index="layer", columns="part", values="value")
        grids[title] = grid.reindex(columns=WEIGHT_AND_BIAS)
    even_shares = {title: float(np.nanmean(grid)) for title, grid in grids.items()}
    multiples = np.concatenate([np.ravel(g / even_shares[title]) for title, g in grids.items()])
    low, high = float(np.nanmin(multiples)), float(np.nanmax(multiples))
    height = 1.4 + HEIGHT_OF_LAYER * max(map(len, grids.values()))
    figure = new_figure(NARROW, height)
    panels = figure.subplots(1, 2)
    for panel, (title, grid) in zip(panels, grids.items(), strict=True):
        limits = (low * even_shares[title], high * even_shares[title])
        image = _draw_heat_map(panel, grid, limits, "{:.2f}")
        panel.set_title(title)
        bar = figure.colorbar(image, ax=panel, location="bottom", shrink=0.9)
        bar.set_label(f"sum over {round(grid.sum().max())} tasks")
    panels[0].set_ylabel("layer")
    return figure


def _draw_heat_map(
    panel: "Axes", grid: pd.DataFrame, limits: tuple[float, float], number: str
) -> "AxesImage":
    """Draw a table as a heat map, with a number in each cell.

    Cells without a number are grey and hatched.

    Args:
        limits: the lowest and the highest number of the colour scale.
        number: the format of the numbers in the cells.
    """
    from matplotlib.patches import Rectangle

    image = panel.imshow(grid, aspect="auto", cmap=COLOUR_MAP, vmin=limits[0], vmax=limits[1])
    panel.set_xticks(range(grid.shape[1]), list(grid.columns), rotation=60, ha="right")
    panel.set_yticks(range(grid.shape[0]), [str(layer) for layer in grid.index])
    for (row, column), value in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            look: dict[str, Any] = {"ha": "center", "color": "white" if dark else "black"}
            panel.text(column, row, number.format(value), fontsize=5.5, va="center", **look)
        else:
            panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **MISSING))
    return image
