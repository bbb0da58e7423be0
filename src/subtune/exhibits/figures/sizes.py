"""Scores by the number of training rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.exhibits.figures.drawing import (
    COLUMN,
    MARKERS,
    legend_above,
    line_look,
    name_panel,
    panels_of,
    plot_with_band,
)
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def score_by_train_rows(
    sizes: pd.DataFrame,
    task_titles: Mapping[str, str],
    style: Mapping[str, Any],
    metric: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Draw the dev score against the number of training rows, a line per method.

    Each model, task and column has a panel. The axis of rows is logarithmic. A line is the mean
    over seeds, with a band of one standard deviation. It has a gap where a run diverged.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        task_titles: task name to title, in the order of the panels.
        style: ``width`` in inches.
        metric: the metric to show; by default the one that each task's runs are chosen by.
        methods: the methods to show, in order; by default all.
    """
    shown = sizes[sizes["metric"] == metric] if metric else _in_their_metric(sizes)
    methods = [m for m in methods or shown["method"].unique() if m in set(shown["method"])]
    panels = [
        (model, task, column)
        for model in shown["model"].unique()
        for task in task_titles
        for column in shown.loc[
            (shown["model"] == model) & (shown["task"] == task), "column"
        ].unique()
    ]
    share = COLUMN if len(panels) == 1 else 1
    figure, axes = panels_of(len(panels), share * style["width"], height_of_panel=0.6)
    for panel, (model, task, column) in zip(axes, panels, strict=False):
        scores = shown[(shown["model"] == model) & (shown["column"] == column)]
        for number, method in enumerate(methods):
            seeds = scores[scores["method"] == method].groupby("train_rows")["value"]
            mean = seeds.mean().where(seeds.apply(lambda values: values.notna().all()))
            look = {**line_look(number), "marker": MARKERS[number % len(MARKERS)], "markersize": 3}
            plot_with_band(panel, mean, seeds.std(), {**look, "label": title_of(method)})
        title = task_titles[task] if column == task else f"{task_titles[task]}, {column}"
        if shown["model"].nunique() > 1:
            title = f"{title} ({model})"
        name_panel(panel, title, scores["metric"].iloc[0])
        panel.set_xscale("log")
        numbers = sorted(scores["train_rows"].unique())
        panel.set_xticks(numbers, [f"{number:,}" for number in numbers], rotation=45, ha="right")
        panel.minorticks_off()
    figure.supxlabel("training rows")
    legend_above(figure, axes[0], columns=int(4 * share))
    return figure


def _in_their_metric(sizes: pd.DataFrame) -> pd.DataFrame:
    """Return the scores in the metric that the runs of their task are chosen by."""
    metric_of = sizes[sizes["decides"]].groupby("task")["metric"].first()
    return sizes[sizes["metric"] == sizes["task"].map(metric_of)]
