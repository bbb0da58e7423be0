"""The LayerNorm paper's figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from subtune.figures.drawing import COLUMN, heat_map, layer_ticks, panels_of
from subtune.models.families import CANONICAL
from subtune.tables.writing import METRIC_TITLES, title_of

SCOPE_TITLES = {"individual": "individual", "global": "global", "cv": "cross-validated"}
# Line styles and markers carry the meaning too, so that the figures read in grey.
SCOPE_STYLES: dict[str, dict[str, Any]] = {
    "individual": {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    "global": {"color": "#d55e00", "linestyle": "--", "marker": "s"},
    "cv": {"color": "#009e73", "linestyle": ":", "marker": "^"},
}
REFERENCES: dict[str, dict[str, Any]] = {
    "layernorm": {"color": "0.45", "linestyle": "-"},
    "full": {"color": "0.0", "linestyle": "-."},
}
PARTS = ("weight", "bias")
HEIGHT_OF_LAYER = 0.14


def figure1(changes: pd.DataFrame, titles: Mapping[str, str], style: Mapping[str, Any]) -> Figure:
    """Mean |change| of each component (rows) in each layer (columns), one panel per task.

    Args:
        changes: ``task``, ``component``, ``layer``, ``change``.
        titles: task name to title, in the order of the panels.
    """
    tasks = [task for task in titles if task in set(changes["task"])]
    figure, panels = panels_of(len(tasks), style["width"], height_of_panel=0.62)
    positive = changes.loc[changes["change"] > 0, "change"]
    norm = LogNorm(positive.min(), positive.max()) if len(positive) else None
    components = list(CANONICAL.components)
    for panel, task in zip(panels, tasks, strict=True):
        own = changes[changes["task"] == task]
        grid = own.pivot(index="component", columns="layer", values="change").loc[components]
        image = panel.imshow(grid, aspect="auto", cmap=style["colormap"], norm=norm)
        panel.set_title(titles[task])
        panel.set_xticks(*layer_ticks(grid.columns))
        panel.set_yticks(range(len(components)), components, fontsize=6)
    for panel in panels:
        panel.label_outer()
    figure.supxlabel("layer")
    bar = figure.colorbar(image, ax=list(panels), shrink=0.8)
    bar.set_label("mean |change|, full fine-tuning\n(parameter units, log scale)")
    return figure


def score_by_fraction(
    scores: pd.DataFrame,
    titles: Mapping[str, str],
    scopes: Sequence[str],
    references: Sequence[str],
    style: Mapping[str, Any],
) -> Figure:
    """Figures 2 and 5: dev score against the trained fraction of LayerNorm, a panel per column.

    Args:
        scores: the chosen runs, from `subtune.analysis.scores.with_whole_selection`.
        titles: column to its title, in the order to show.
        scopes: kinds of mask, a curve each, with a band of one standard deviation over seeds.
        references: methods that are a horizontal line.
        style: ``width`` in inches.
    """
    columns = [column for column in titles if column in set(scores["column"])]
    scopes = [scope for scope in scopes if scope in set(scores["scope"])]
    figure, panels = panels_of(len(columns), style["width"], height_of_panel=0.6)
    for panel, column in zip(panels, columns, strict=True):
        own = scores[scores["column"] == column]
        for method in references:
            value = own.loc[(own["method"] == method) & (own["scope"] == ""), "value"]
            if len(value):
                panel.axhline(value.mean(), label=title_of(method), **REFERENCES[method])
        for scope in scopes:
            seeds = own[own["scope"] == scope].groupby("fraction")["value"]
            line, spread = seeds.mean(), seeds.std().fillna(0)
            panel.plot(
                line.index, line, markersize=2.5, label=SCOPE_TITLES[scope], **SCOPE_STYLES[scope]
            )
            if spread.any():
                colour = SCOPE_STYLES[scope]["color"]
                panel.fill_between(
                    line.index, line - spread, line + spread, color=colour, alpha=0.2, linewidth=0
                )
        panel.set_title(titles[column])
        panel.set_ylabel(METRIC_TITLES[own["metric"].iloc[0]], fontsize=7)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
        panel.grid(color="0.9")
        panel.tick_params(labelsize=6)
    figure.supxlabel("trained share of LayerNorm's parameters")
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def figure3(
    shares: pd.DataFrame,
    printed: pd.DataFrame,
    titles: Mapping[str, str],
    style: Mapping[str, Any],
) -> Figure:
    """LayerNorm's Fisher information, layer × task, weight and bias: ours and the paper's.

    Args:
        shares: ``task``, ``layer``, ``part``, ``share`` of the task's LayerNorm information.
        printed: ``task``, ``layer``, ``part``, ``value`` as the paper prints them.
    """
    layers = [shares["layer"].nunique(), printed["layer"].nunique()]
    height = 2.6 + HEIGHT_OF_LAYER * sum(layers)
    figure = Figure(figsize=(style["width"], height), layout="constrained")
    panels = figure.subplots(2, 2, height_ratios=layers)
    largest = shares["share"].max()
    for part, ours, theirs in zip(PARTS, *panels, strict=True):
        grid = _grid(shares, part, "share", titles)
        image = heat_map(ours, grid * 100, style["colormap"], (0, largest * 100), "{:.1f}")
        ours.set_title(f"this run: {part}")
        grid = _grid(printed, part, "value", titles)
        other = heat_map(theirs, grid, style["colormap"], (0, 1), "{:.2g}")
        theirs.set_title(f"paper: {part}")
    for row in panels:
        row[0].set_ylabel("layer")
    figure.colorbar(image, ax=panels[0]).set_label("% of the task's\nLayerNorm information")
    figure.colorbar(other, ax=panels[1]).set_label(
        "as printed\n(scale not stated; BERT-large-cased)"
    )
    return figure


def figure4(
    shares: pd.DataFrame, printed: pd.DataFrame, tasks: int, style: Mapping[str, Any]
) -> Figure:
    """LayerNorm's global Fisher information, layer × part: ours and the paper's."""
    layers = max(shares["layer"].nunique(), printed["layer"].nunique())
    size = (style["width"] * COLUMN, 1.4 + HEIGHT_OF_LAYER * layers)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, 2)
    sources = (
        (
            shares.rename(columns={"share": "value"}),
            "this run",
            f"sum over {tasks}\ntasks of shares",
        ),
        (printed, "paper", "as printed\n(scale not stated)"),
    )
    for panel, (table, title, unit) in zip(panels, sources, strict=True):
        grid = table.pivot(index="layer", columns="part", values="value")[list(PARTS)]
        limits = (float(np.nanmin(grid)), float(np.nanmax(grid)))
        image = heat_map(panel, grid, style["colormap"], limits, "{:.2f}")
        panel.set_title(title)
        figure.colorbar(image, ax=panel, location="bottom", shrink=0.9).set_label(unit)
    panels[0].set_ylabel("layer")
    return figure


def _grid(table: pd.DataFrame, part: str, value: str, titles: Mapping[str, str]) -> pd.DataFrame:
    own = table[table["part"] == part]
    grid = own.pivot(index="layer", columns="task", values=value)
    return grid[[task for task in titles if task in grid.columns]].rename(columns=titles)
