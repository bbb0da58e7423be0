"""Draw curves of scores, and reproduced scores against printed scores."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.chosen_runs import (
    add_whole_selection,
    best_of_seeds,
    drop_runs_with_mask,
    select_masked_runs,
)
from subtune.exhibits.output import (
    COLOURS,
    EMPTY,
    MARKERS,
    NARROW,
    WIDTH,
    ExperimentResults,
    label_panel,
    new_figure,
    new_panels,
)
from subtune.exhibits.score_tables import AVERAGE
from subtune.methods import method_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LINE_STYLES = ("-", "--", ":", "-.")
# The style of each scope. Line styles and markers also differ, so that curves can be distinguished
# without colour.
SCOPE_STYLES: dict[str, dict[str, Any]] = {
    "individual": {"label": "individual", "color": "#0072b2", "linestyle": "-", "marker": "o"},
    "global": {"label": "global", "color": "#d55e00", "linestyle": "--", "marker": "s"},
    "cv": {"label": "cross-validated", "color": "#009e73", "linestyle": ":", "marker": "^"},
}
REFERENCE_STYLES: tuple[dict[str, Any], ...] = (
    {"color": "0.45", "linestyle": "-"},
    {"color": "0.0", "linestyle": "-."},
)
PRINTED_KEYS = ["split", "model", "method", "task"]
SPLITS = ("validation", "test")


def draw_learning_curves(results: ExperimentResults) -> "Figure":
    """Draw the dev score against the epoch: a panel per task and model, and a line per method."""
    from matplotlib.ticker import MaxNLocator

    runs = best_of_seeds(results["chosen"])[["model", "task", "method", "run"]]
    curves = runs.merge(results["learning_curves"], on="run")
    several = curves["model"].nunique() > 1
    panels = _split_by_panel(curves, ["model", "task"], results.task_titles)
    figure, axes = new_panels(len(panels), WIDTH, height_of_panel=0.6)
    for panel, ((model, task), lines) in zip(axes, panels.items(), strict=True):
        for number, method in enumerate(curves["method"].unique()):
            line = lines[lines["method"] == method]
            look = {**_line_style(number), "marker": "."}
            panel.plot(line["epoch"], line["score"], label=method_title(method), **look)
        title = results.task_titles[task]
        label_panel(panel, title, lines["metric"].iloc[0], model if several else None)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel("epoch")
    _draw_legend_above(figure, axes[0], columns=4)
    return figure


def draw_scores_by_fraction(
    results: ExperimentResults, scopes: Sequence[str], references: Sequence[str] = ()
) -> "Figure":
    """Draw the dev score against the trained fraction of LayerNorm parameters, by score column.

    Each scope is a curve, with a band of one standard deviation over seeds on each side. References
    (at most two) are horizontal lines.
    """
    from matplotlib.ticker import PercentFormatter

    scores = add_whole_selection(results["chosen"])
    columns = [column for column in results.column_titles if column in set(scores["column"])]
    scopes = [scope for scope in scopes if scope in set(scores["scope"])]
    figure, panels = new_panels(len(columns), WIDTH, height_of_panel=0.6)
    for panel, column in zip(panels, columns, strict=True):
        scores_of_column = scores[scores["column"] == column]
        whole = drop_runs_with_mask(scores_of_column)
        for method, line_style in zip(references, REFERENCE_STYLES, strict=False):
            value = whole.loc[whole["method"] == method, "value"].dropna()
            if len(value):
                panel.axhline(value.mean(), label=method_title(method), **line_style)
        masks = select_masked_runs(scores_of_column)
        for scope in scopes:
            seeds = masks[masks["scope"] == scope].groupby("fraction")["value"]
            _plot_with_band(
                panel, seeds.mean(), seeds.std(), SCOPE_STYLES[scope] | {"markersize": 2.5}
            )
        label_panel(panel, results.column_titles[column], scores_of_column["metric"].iloc[0])
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    figure.supxlabel("trained fraction of LayerNorm's parameters")
    curves_and_lines = len(panels[0].get_legend_handles_labels()[1])
    if curves_and_lines > 1:
        _draw_legend_above(figure, panels[0], columns=curves_and_lines)
    return figure


def draw_scores_by_size(
    results: ExperimentResults, metric: str | None = None, methods: Sequence[str] | None = None
) -> "Figure":
    """Draw the dev score against the training set size, with one line per method.

    There is one panel per model, task and score column. The x axis is logarithmic. A line shows the
    mean over seeds, with a band of one standard deviation on each side. It has a gap where a run
    diverged. The default metric is the one by which the task's runs are chosen.
    """
    sizes, task_titles = results["sizes"], results.task_titles
    deciding_metric = sizes[sizes["decides"]].groupby("task")["metric"].first()
    shown = sizes[sizes["metric"] == (metric or sizes["task"].map(deciding_metric))]
    methods = [m for m in methods or shown["method"].unique() if m in set(shown["method"])]
    several = shown["model"].nunique() > 1
    panels = _split_by_panel(shown, ["model", "task", "column"], task_titles)
    width = NARROW if len(panels) == 1 else WIDTH
    figure, axes = new_panels(len(panels), width, height_of_panel=0.6)
    for panel, ((model, task, column), scores) in zip(axes, panels.items(), strict=True):
        for number, method in enumerate(methods):
            seeds = scores[scores["method"] == method].groupby("train_rows")["value"]
            mean = seeds.mean().where(seeds.apply(lambda values: values.notna().all()))
            marker = {"marker": MARKERS[number % len(MARKERS)], "label": method_title(method)}
            _plot_with_band(panel, mean, seeds.std(), _line_style(number) | marker)
        title = task_titles[task] if column == task else f"{task_titles[task]}, {column}"
        label_panel(panel, title, scores["metric"].iloc[0], model if several else None)
        panel.set_xscale("log")
        numbers = sorted(scores["train_rows"].unique())
        panel.set_xticks(numbers, [f"{number:,}" for number in numbers], rotation=45, ha="right")
        panel.minorticks_off()
    figure.supxlabel("training examples")
    _draw_legend_above(figure, axes[0], columns=2 if width == NARROW else 4)
    return figure


def _split_by_panel(
    table: pd.DataFrame, keys: list[str], task_titles: Mapping[str, str]
) -> dict[tuple, pd.DataFrame]:
    """Split a table by panel: first by model, and then in the order of ``task_titles``."""
    models, tasks = [*table["model"].unique()], [*task_titles]
    groups = [*table.groupby(keys, sort=False)]
    return dict(sorted(groups, key=lambda g: (models.index(g[0][0]), tasks.index(g[0][1]))))


def _line_style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
        "markersize": 3,
    }


def _plot_with_band(
    panel: "Axes", mean: pd.Series, spread: pd.Series, look: Mapping[str, Any]
) -> None:
    """Draw a line and, for several seeds, a band of one standard deviation on each side."""
    panel.plot(mean.index, mean, **look)
    spread = spread.fillna(0)
    if spread.any():
        low, high = mean - spread, mean + spread
        panel.fill_between(mean.index, low, high, color=look["color"], alpha=0.2, linewidth=0)


def _draw_legend_above(figure: "Figure", panel: "Axes", columns: int) -> None:
    handles, labels = panel.get_legend_handles_labels()
    columns = min(columns, len(labels))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def draw_reproduction(results: ExperimentResults) -> "Figure":
    """Draw reproduced scores against printed scores, with one point per score."""
    figure = new_figure(NARROW, NARROW * 1.05)
    axes = figure.subplots()
    table = results["reproduction"]
    table = table[table["metric"] != AVERAGE]
    compared = table.dropna(subset=["ours"]).drop_duplicates([*PRINTED_KEYS, "our_model"])
    tasks = [task for task in results.column_titles if task in set(compared["task"])]
    for (number, task), split in itertools.product(enumerate(tasks), SPLITS):
        points = compared[(compared["task"] == task) & (compared["split"] == split)]
        # Colours repeat if there are many tasks. The later tasks have open markers.
        fill = "full" if number < len(COLOURS) else "none"
        axes.errorbar(
            points["reported"],
            points["ours"],
            yerr=points["standard_deviation"].fillna(0),
            linestyle="none",
            marker=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)],
            markersize=3.5,
            fillstyle="bottom" if split == "test" else fill,
            elinewidth=0.8,
            label=results.column_titles[task] if split == "validation" else None,
        )
    low = min([0.0, *compared["ours"], *compared["reported"]])
    axes.plot([low, 1], [low, 1], color="0.6", linewidth=1, zorder=0)
    axes.set_xlabel("reported score")
    models = ", ".join(compared["our_model"].dropna().unique()) or EMPTY
    axes.set_ylabel(f"reproduced score ({models})")
    drawn, cells = compared["split"].value_counts(), table.drop_duplicates(PRINTED_KEYS)["split"]
    dev, test = (f"{drawn.get(split, 0)} of the {(cells == split).sum()}" for split in SPLITS)
    with_test = f"\nand {test} test scores (half filled)" if "test" in drawn else ""
    axes.set_title(f"{dev} dev scores that the paper prints{with_test}")
    axes.set_aspect("equal")
    axes.grid(color="0.9")
    if tasks:
        axes.legend(fontsize=6, loc="upper left")
    return figure
