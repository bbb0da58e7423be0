"""Learning curves of the runs that the tables show."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.scores import best_of_seeds
from subtune.exhibits.figures.drawing import COLOURS, LINE_STYLES, panels_of
from subtune.exhibits.tables.writing import METRIC_TITLES
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learning_curves(
    chosen: pd.DataFrame,
    curves: pd.DataFrame,
    task_titles: Mapping[str, str],
    style: Mapping[str, Any],
) -> "Figure":
    """Dev score by epoch, a line per method and a panel per task, and per model if several.

    Args:
        chosen: the runs of the best learning rates; of several seeds the best run is drawn.
        curves: from `subtune.analysis.curves.learning_curves`.
        task_titles: task name to title, in the order of the panels.
        style: ``width`` in inches.
    """
    from matplotlib.ticker import MaxNLocator

    runs = best_of_seeds(chosen)[["model", "task", "method", "run"]]
    curves = runs.merge(curves, on="run")
    several = curves["model"].nunique() > 1
    panels = [
        (model, task)
        for model in curves["model"].unique()
        for task in task_titles
        if ((curves["model"] == model) & (curves["task"] == task)).any()
    ]
    methods = list(curves["method"].unique())
    figure, axes = panels_of(len(panels), style["width"], height_of_panel=0.6)
    for panel, (model, task) in zip(axes, panels, strict=False):
        lines = curves[(curves["model"] == model) & (curves["task"] == task)]
        for number, method in enumerate(methods):
            line = lines[lines["method"] == method]
            panel.plot(
                line["epoch"],
                line["score"],
                color=COLOURS[number % len(COLOURS)],
                linestyle=LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
                marker=".",
                markersize=3,
                label=title_of(method),
            )
        panel.set_title(f"{task_titles[task]} ({model})" if several else task_titles[task])
        panel.set_ylabel(METRIC_TITLES[lines["metric"].iloc[0]], fontsize=7)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(color="0.9")
        panel.tick_params(labelsize=6)
    figure.supxlabel("epoch")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))
    return figure
