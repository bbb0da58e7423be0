"""Learning curves of the runs that the tables show."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.scores import best_of_seeds
from subtune.exhibits.figures.drawing import legend_above, line_look, name_panel, panels_of
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learning_curves(
    chosen: pd.DataFrame,
    curves: pd.DataFrame,
    task_titles: Mapping[str, str],
    style: Mapping[str, Any],
) -> "Figure":
    """Draw the dev score by epoch: a line per method, a panel per task and model.

    Args:
        chosen: the runs of the best learning rates; only each method's best seed is drawn.
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
            look = {**line_look(number), "marker": ".", "markersize": 3}
            panel.plot(line["epoch"], line["score"], label=title_of(method), **look)
        title = f"{task_titles[task]} ({model})" if several else task_titles[task]
        name_panel(panel, title, lines["metric"].iloc[0])
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel("epoch")
    legend_above(figure, axes[0], columns=4)
    return figure
