"""Figures of the LayerNorm paper: scores by trained fraction, changes, and Fisher information."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import (
    add_whole_selection,
    drop_runs_with_mask,
    select_masked_runs,
)
from subtune.exhibits.figures import draw_heat_map, draw_legend_above, label_panel, plot_with_band
from subtune.exhibits.output import (
    NARROW,
    WIDTH,
    ExperimentResults,
    empty_figure,
    new_figure,
    new_panels,
)
from subtune.methods import method_title
from subtune.methods.roles import sort_components

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# The style of each scope. Line styles and markers also differ, so that curves can be distinguished
# without colour.
SCOPE_STYLES: dict[str, dict[str, Any]] = {
    "individual": {"label": "individual", "color": "#0072b2", "linestyle": "-", "marker": "o"},
    "global": {"label": "global", "color": "#d55e00", "linestyle": "--", "marker": "s"},
    "cv": {"label": "cross-validated", "color": "#009e73", "linestyle": ":", "marker": "^"},
}
REFERENCE_STYLES: dict[str, dict[str, Any]] = {
    "layernorm": {"color": "0.45", "linestyle": "-"},
    "full": {"color": "0.0", "linestyle": "-."},
}
WEIGHT_AND_BIAS = ["weight", "bias"]
HEIGHT_OF_LAYER = 0.14
# The style of a cell without a number.
MISSING: dict[str, Any] = {
    "facecolor": "0.9", "edgecolor": "0.45", "hatch": "//////", "linewidth": 0,
}  # fmt: skip


def draw_scores_by_fraction(
    results: ExperimentResults, scopes: Sequence[str], references: Sequence[str] = ()
) -> "matplotlib.figure.Figure":
    """Draw the dev score against the trained fraction of LayerNorm parameters, by score column.

    Each scope is a curve, with a band of one standard deviation over seeds on each side. References
    (keys of `REFERENCE_STYLES`) are horizontal lines.
    """
    from matplotlib.ticker import PercentFormatter

    scores = add_whole_selection(results["chosen"])
    columns = [column for column in results.column_titles if column in set(scores["column"])]
    scopes = [scope for scope in scopes if scope in set(scores["scope"])]
    figure, panels = new_panels(len(columns), WIDTH, height_of_panel=0.6)
    for panel, column in zip(panels, columns, strict=True):
        scores_of_column = scores[scores["column"] == column]
        whole = drop_runs_with_mask(scores_of_column)
        for method in references:
            value = whole.loc[whole["method"] == method, "value"].dropna()
            if len(value):
                panel.axhline(value.mean(), label=method_title(method), **REFERENCE_STYLES[method])
        masks = select_masked_runs(scores_of_column)
        for scope in scopes:
            seeds = masks[masks["scope"] == scope].groupby("fraction")["value"]
            plot_with_band(
                panel, seeds.mean(), seeds.std(), SCOPE_STYLES[scope] | {"markersize": 2.5}
            )
        label_panel(panel, results.column_titles[column], scores_of_column["metric"].iloc[0])
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    figure.supxlabel("trained fraction of LayerNorm's parameters")
    curves_and_lines = len(panels[0].get_legend_handles_labels()[1])
    if curves_and_lines > 1:
        draw_legend_above(figure, panels[0], columns=curves_and_lines)
    return figure


def draw_component_changes(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw the mean |change| of each component (rows) in each layer (columns), by task."""
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
        of_task = changes[changes["task"] == task]
        grid = of_task.pivot(index="component", columns="layer", values="change")
        image = draw_heat_map(panel, grid.reindex(components), norm=norm)
        panel.set_title(results.task_titles[task])
        panel.tick_params("y", labelsize=6)
        panel.label_outer()
    figure.supxlabel("layer")
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8)
    bar.set_label("mean absolute change during\nfull fine-tuning (log scale)")
    return figure


def draw_information(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw LayerNorm's Fisher information by layer (rows) and task (columns).

    There are separate panels for weights and biases, and for reproduced and printed values.
    Reproduced values are shares of the task's LayerNorm information. Values that are illegible in
    the paper are missing.
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
            image = _draw_numbers(axes, grid, number, vmin=0, vmax=largest)
            axes.set_title(f"{title}: {part}")
        axes_of_row[0].set_ylabel("layer")
        figure.colorbar(image, ax=axes_of_row).set_label(label)
    return figure


def draw_global_information(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw LayerNorm's global Fisher information by layer (rows), for weights and biases (columns).

    One panel shows reproduced values, the other shows printed values. The values of each column sum
    to the number of tasks. The column for biases is empty if the norms have no biases. Both panels
    have the same colour scale, whose unit is the mean of the panel's values.
    """
    shares = results["global_layernorm_information"].rename(columns={"share": "value"})
    tables = {"this run": shares, "paper": results.printed("figure4")}
    values = pd.concat(tables, names=["source"])["value"]
    even_shares = values.groupby("source").mean()
    multiples = values.div(even_shares, level="source")
    height = 1.4 + HEIGHT_OF_LAYER * max(table["layer"].nunique() for table in tables.values())
    figure = new_figure(NARROW, height)
    panels = figure.subplots(1, 2)
    for panel, (title, table) in zip(panels, tables.items(), strict=True):
        grid = table.pivot(index="layer", columns="part", values="value")
        grid, even = grid.reindex(columns=WEIGHT_AND_BIAS), even_shares[title]
        limits = {"vmin": multiples.min() * even, "vmax": multiples.max() * even}
        image = _draw_numbers(panel, grid, "{:.2f}", **limits)
        panel.set_title(title)
        bar = figure.colorbar(image, ax=panel, location="bottom", shrink=0.9)
        bar.set_label(f"sum over {round(grid.sum().max())} tasks")
    panels[0].set_ylabel("layer")
    return figure


def _draw_numbers(panel: "Axes", grid: pd.DataFrame, number: str, **colours: Any) -> "AxesImage":
    """Draw a heat map with a number in each cell. Empty cells are grey and hatched."""
    from matplotlib.patches import Rectangle

    image = draw_heat_map(panel, grid, **colours)
    panel.set_xticks(range(grid.shape[1]), list(grid.columns), rotation=60, ha="right")
    for (row, column), value in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            look: dict[str, Any] = {"ha": "center", "color": "white" if dark else "black"}
            panel.text(column, row, number.format(value), fontsize=5.5, va="center", **look)
        else:
            panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **MISSING))
    return image
