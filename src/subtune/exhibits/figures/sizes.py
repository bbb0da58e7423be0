"""Scores by the number of training rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.exhibits.figures.drawing import COLOURS, COLUMN, LINE_STYLES, MARKERS, panels_of
from subtune.exhibits.tables.writing import METRIC_TITLES
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
    """Dev score against the number of training rows, a line per method and a panel per task.

    Where there are several models each has panels of its own, and so has each of a task's columns.
    The axis of rows is logarithmic. A line is the mean over seeds, with a band of one standard
    deviation where there are several; where a run diverged the line has a gap.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        task_titles: task name to title, in the order of the panels.
        style: ``width`` in inches.
        metric: the one that is shown; without it each task's, by which its runs are chosen.
        methods: those that are shown, in order; without it all.
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
            line, spread = seeds.mean(), seeds.std().fillna(0)
            line = line.where(seeds.apply(lambda values: values.notna().all()))
            colour = COLOURS[number % len(COLOURS)]
            panel.plot(
                line.index,
                line,
                color=colour,
                linestyle=LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=3,
                label=title_of(method),
            )
            if spread.any():
                panel.fill_between(
                    line.index, line - spread, line + spread, color=colour, alpha=0.2, linewidth=0
                )
        title = task_titles[task] if column == task else f"{task_titles[task]}, {column}"
        panel.set_title(f"{title} ({model})" if shown["model"].nunique() > 1 else title)
        panel.set_ylabel(METRIC_TITLES[scores["metric"].iloc[0]], fontsize=7)
        panel.set_xscale("log")
        numbers = sorted(scores["train_rows"].unique())
        panel.set_xticks(numbers, [f"{number:,}" for number in numbers], rotation=45, ha="right")
        panel.minorticks_off()
        panel.grid(color="0.9")
        panel.tick_params(labelsize=6)
    figure.supxlabel("training rows")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(int(4 * share), len(labels))
    )
    return figure


def _in_their_metric(sizes: pd.DataFrame) -> pd.DataFrame:
    """Scores in the metric of the tables, by which the runs of a task are chosen."""
    metric_of = sizes[sizes["decides"]].groupby("task")["metric"].first()
    return sizes[sizes["metric"] == sizes["task"].map(metric_of)]
