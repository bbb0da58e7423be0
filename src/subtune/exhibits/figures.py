"""Figures of scores: the front, curves, and points against a paper's scores."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import (
    QUESTION,
    best_of_seeds,
    masked_runs,
    whole_methods,
    with_whole_selection,
)
from subtune.exhibits.output import (
    COLOURS,
    EMPTY,
    MARKERS,
    NARROW,
    WIDTH,
    ExperimentResults,
    empty_figure,
    name_panel,
    new_figure,
    new_panels,
)
from subtune.exhibits.score_tables import AVERAGE
from subtune.methods import method_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The lines of full fine-tuning, and of methods that train nothing in the encoder.
LINES: dict[str, dict[str, Any]] = {
    "full": {"label": method_title("full"), "color": "0.35", "linestyle": "-"},
    "frozen": {"label": "classifier alone", "color": "0.35", "linestyle": ":"},
    "embeddings": {"label": "embeddings", "color": "0.35", "linestyle": "--"},
}
FRONT: dict[str, Any] = {"color": "0.85", "linewidth": 3, "zorder": 1, "where": "post"}
# Limits of the names beside a panel: the number of methods, the letters of a name, and the distance
# of lines as a share of the panel's height.
MOST_NAMES, LONGEST_NAME, NAMES_APART = 8, 24, 0.08
# The colour of points without a name.
OTHERS = "0.75"


def draw_front(results: ExperimentResults) -> "Figure":
    """Draw the dev score against trained parameters, a panel per model and task.

    A method is a point, with a bar of one standard deviation if it has several seeds. The point is
    filled if the method is sure to lose at most the margin against the reference, or if it is a
    reference that beats full. A line joins the masks of one method and scope. Full fine-tuning, the
    classifier alone and embeddings are horizontal lines. The grey line is the Pareto front: the
    best score with at most that many parameters. Names are at the right of a panel, about as high
    as their points or lines. They are bold if the method is sure. At most
    `MOST_NAMES` methods are named; the others are grey.
    """
    from matplotlib.ticker import NullFormatter

    rows = results.summary.dropna(subset="score")
    if rows.empty:
        return empty_figure()
    masks = "masked" if rows["scope"].nunique() == 1 else "{}"
    rows["label"] = [
        method_title(method) + ("" if pd.isna(scope) else f", {masks.format(scope)}")
        for method, scope in zip(rows["method"], rows["scope"], strict=True)
    ]
    rows["is_line"] = rows["method"].isin(LINES) & rows["scope"].isna()
    points = rows[~rows["is_line"]].sort_values("trained")
    # A method has the same colour and marker in all panels.
    looks = {
        label: {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number // len(COLOURS) % len(MARKERS)],
            "markersize": 3.5,
        }
        for number, label in enumerate(points["label"].unique())
    }
    questions = [*rows.groupby(QUESTION, sort=False)]
    figure, panels = new_panels(
        len(questions), NARROW if len(questions) == 1 else WIDTH, 0.65, most_columns=3
    )
    several = rows["model"].nunique() > 1
    for panel, ((model, task, metric), methods) in zip(panels, questions, strict=True):
        panel.set_xscale("log")
        panel.xaxis.set_minor_formatter(NullFormatter())
        if len(points):
            panel.set_xlim(*_x_limits(points["trained"].min(), points["trained"].max()))
        _draw_panel(panel, methods, looks)
        title = results.task_titles[task]
        name_panel(panel, title, metric, model if several else None, grid="0.92")
    figure.supxlabel("trained parameters, without the classifier")
    return figure


def _draw_panel(panel: "Axes", rows: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the methods of one panel, and names at its right."""
    lines, points = rows[rows["is_line"]], rows[~rows["is_line"]].sort_values("trained")
    panel.set_ylim(*_y_limits(lines, points))
    front = points[points["on_front"]]
    panel.step(front["trained"], front["score"], **FRONT)
    # Sure methods are named first, then methods on the front, then methods with high scores.
    methods = points.groupby("label").agg({"sure": "any", "on_front": "any", "score": "max"})
    named = set(methods.sort_values([*methods], ascending=False).index[:MOST_NAMES])
    names: list[tuple[float, str, bool, Mapping[str, Any]]] = []
    for label, masks in points.groupby("label", sort=False):
        look = dict(looks[str(label)])
        if label not in named:
            look["color"] = OTHERS
        panel.plot(masks["trained"], masks["score"], color=look["color"], linewidth=0.7)
        # A method with several masks is filled and bold beside the panel if one mask is sure.
        for sure, alike in masks.groupby("sure"):
            look["markerfacecolor"] = look["color"] if sure else "white"
            x, y, spread = alike["trained"], alike["score"], alike["spread"].fillna(0)
            panel.errorbar(x, y, spread, linestyle="", elinewidth=0.7, **look)
        if label in named:
            names.append((masks["score"].max(), str(label), bool(masks["sure"].any()), look))
    low, high = panel.get_ylim()
    for _, line in lines.iterrows():
        look, score = LINES[line["method"]], line["score"]
        panel.axhline(score, **look)
        label = look["label"] if low <= score <= high else f"{look['label']}: {score:.2f}"
        names.append((score, label, line["sure"], look))
    panel.set_axisbelow(True)
    _annotate_points(panel, sorted(names, key=lambda name: name[0]))


def _x_limits(smallest: int, largest: int) -> tuple[float, float]:
    """Return the limits of the x axis (parameters), which span at least two powers of ten."""
    left, right = math.log10(smallest / 2), math.log10(largest * 2)
    if math.floor(right) <= math.ceil(left):
        left, right = math.floor(left), math.ceil(right)
    return 10**left, 10**right


def _y_limits(lines: pd.DataFrame, points: pd.DataFrame) -> tuple[float, float]:
    """Return the limits of the axis of scores.

    The axis shows all points and full. It does not show another line that is so far away that the
    differences between points would be invisible.
    """
    spread = points["spread"].fillna(0)
    shown = lines if points.empty else lines[lines["method"] == "full"]
    scores = [*(points["score"] - spread), *(points["score"] + spread), *shown["score"]]
    low, high = min(scores), max(scores)
    near = lines["score"].between(low - (high - low) / 2, high + (high - low) / 2)
    scores += [*lines.loc[near, "score"]]
    space = 0.06 * (max(scores) - min(scores)) or 0.01
    return min(scores) - space, max(scores) + space


def _annotate_points(
    panel: "Axes", names: Sequence[tuple[float, str, bool, Mapping[str, Any]]]
) -> None:
    """Write names at a panel's right, as near to the height of their scores as possible.

    Args:
        panel: the panel.
        names: score, label, whether the name is bold, and style of the points or line. Scores are
            in ascending order.
    """
    # Importing scipy takes long.
    from scipy.optimize import isotonic_regression

    low, high = panel.get_ylim()
    # Least squares bring names that are a line apart as near to their scores as possible.
    steps = NAMES_APART * np.arange(len(names))
    scores = np.array([score for score, *_ in names])
    heights = isotonic_regression((scores - low) / (high - low) - steps).x
    heights = heights.clip(0, max(0, 1 - steps[-1])) + steps
    for height, (_, label, is_bold, look) in zip(heights, names, strict=True):
        beside: dict[str, Any] = {"transform": panel.transAxes, "clip_on": False}
        mark = [1.08] if "marker" in look else [1.03, 1.13]
        panel.plot(mark, [height] * len(mark), **beside, **look)
        text = label if len(label) <= LONGEST_NAME else label[: LONGEST_NAME - 1] + "…"
        font: dict[str, Any] = {"fontsize": 6, "fontweight": "bold" if is_bold else "normal"}
        panel.text(1.17, height, text, va="center", color=look["color"], **font, **beside)


LINE_STYLES = ("-", "--", ":", "-.")
# The style of each kind of mask. Lines and markers also differ in grey print.
SCOPES: dict[str, dict[str, Any]] = {
    "individual": {"label": "individual", "color": "#0072b2", "linestyle": "-", "marker": "o"},
    "global": {"label": "global", "color": "#d55e00", "linestyle": "--", "marker": "s"},
    "cv": {"label": "cross-validated", "color": "#009e73", "linestyle": ":", "marker": "^"},
}
REFERENCE_STYLES: tuple[dict[str, Any], ...] = (
    {"color": "0.45", "linestyle": "-"},
    {"color": "0.0", "linestyle": "-."},
)
CELL = ["split", "model", "method", "task"]
SPLITS = ("validation", "test")


def draw_learning_curves(results: ExperimentResults) -> "Figure":
    """Draw the dev score by epoch: a line per method, a panel per task and model.

    Only each method's best seed is drawn, at its best learning rate.
    """
    from matplotlib.ticker import MaxNLocator

    runs = best_of_seeds(results["chosen"])[["model", "task", "method", "run"]]
    curves = runs.merge(results["learning_curves"], on="run")
    several = curves["model"].nunique() > 1
    panels = _in_panels(curves, ["model", "task"], results.task_titles)
    figure, axes = new_panels(len(panels), WIDTH, height_of_panel=0.6)
    for panel, ((model, task), lines) in zip(axes, panels.items(), strict=True):
        for number, method in enumerate(curves["method"].unique()):
            line = lines[lines["method"] == method]
            look = {**_line_style(number), "marker": "."}
            panel.plot(line["epoch"], line["score"], label=method_title(method), **look)
        title = results.task_titles[task]
        name_panel(panel, title, lines["metric"].iloc[0], model if several else None)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel("epoch")
    _legend_above(figure, axes[0], columns=4)
    return figure


def draw_scores_by_fraction(
    results: ExperimentResults, scopes: Sequence[str], references: Sequence[str] = ()
) -> "Figure":
    """Draw the dev score against the trained fraction of LayerNorm, a panel per column.

    Args:
        scopes: kinds of mask; each has a curve, with a band of one standard deviation over seeds.
        references: at most two methods, each a horizontal line.
    """
    from matplotlib.ticker import PercentFormatter

    scores = with_whole_selection(results["chosen"])
    columns = [column for column in results.column_titles if column in set(scores["column"])]
    scopes = [scope for scope in scopes if scope in set(scores["scope"])]
    figure, panels = new_panels(len(columns), WIDTH, height_of_panel=0.6)
    for panel, column in zip(panels, columns, strict=True):
        scores_of_column = scores[scores["column"] == column]
        whole = whole_methods(scores_of_column)
        for method, line_style in zip(references, REFERENCE_STYLES, strict=False):
            value = whole.loc[whole["method"] == method, "value"].dropna()
            if len(value):
                panel.axhline(value.mean(), label=method_title(method), **line_style)
        masks = masked_runs(scores_of_column)
        for scope in scopes:
            seeds = masks[masks["scope"] == scope].groupby("fraction")["value"]
            _plot_with_band(panel, seeds.mean(), seeds.std(), SCOPES[scope] | {"markersize": 2.5})
        name_panel(panel, results.column_titles[column], scores_of_column["metric"].iloc[0])
        panel.set_xlim(left=0)
        panel.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    figure.supxlabel("trained share of LayerNorm's parameters")
    curves_and_lines = len(panels[0].get_legend_handles_labels()[1])
    if curves_and_lines > 1:
        _legend_above(figure, panels[0], columns=curves_and_lines)
    return figure


def draw_scores_by_size(
    results: ExperimentResults,
    metric: str | None = None,
    methods: Sequence[str] | None = None,
) -> "Figure":
    """Draw the dev score against the number of training rows, a line per method.

    There is a panel for each model, task and column. The axis of rows is logarithmic. A line is the
    mean over seeds, with a band of one standard deviation and gaps where a run diverged.

    Args:
        metric: the metric to show; default: the one by which each task's runs are chosen.
    """
    sizes, task_titles = results["sizes"], results.task_titles
    deciding_metric = sizes[sizes["decides"]].groupby("task")["metric"].first()
    shown = sizes[sizes["metric"] == (metric or sizes["task"].map(deciding_metric))]
    methods = [m for m in methods or shown["method"].unique() if m in set(shown["method"])]
    several = shown["model"].nunique() > 1
    panels = _in_panels(shown, ["model", "task", "column"], task_titles)
    width = NARROW if len(panels) == 1 else WIDTH
    figure, axes = new_panels(len(panels), width, height_of_panel=0.6)
    for panel, ((model, task, column), scores) in zip(axes, panels.items(), strict=True):
        for number, method in enumerate(methods):
            seeds = scores[scores["method"] == method].groupby("train_rows")["value"]
            mean = seeds.mean().where(seeds.apply(lambda values: values.notna().all()))
            marker = {"marker": MARKERS[number % len(MARKERS)], "label": method_title(method)}
            _plot_with_band(panel, mean, seeds.std(), _line_style(number) | marker)
        title = task_titles[task] if column == task else f"{task_titles[task]}, {column}"
        name_panel(panel, title, scores["metric"].iloc[0], model if several else None)
        panel.set_xscale("log")
        numbers = sorted(scores["train_rows"].unique())
        panel.set_xticks(numbers, [f"{number:,}" for number in numbers], rotation=45, ha="right")
        panel.minorticks_off()
    figure.supxlabel("training rows")
    _legend_above(figure, axes[0], columns=2 if width == NARROW else 4)
    return figure


def _in_panels(
    table: pd.DataFrame, keys: list[str], task_titles: Mapping[str, str]
) -> dict[tuple, pd.DataFrame]:
    """Return the rows of each panel, by model and in the order of ``task_titles``."""
    models, tasks = [*table["model"].unique()], [*task_titles]
    groups = [*table.groupby(keys, sort=False)]
    return dict(sorted(groups, key=lambda g: (models.index(g[0][0]), tasks.index(g[0][1]))))


def _line_style(number: int) -> dict[str, Any]:
    """Return the style of a line by its number, from 0."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
        "markersize": 3,
    }


def _plot_with_band(
    panel: "Axes", mean: pd.Series, spread: pd.Series, look: Mapping[str, Any]
) -> None:
    """Draw a line, and a band of one standard deviation if there is a spread."""
    panel.plot(mean.index, mean, **look)
    spread = spread.fillna(0)
    if spread.any():
        low, high = mean - spread, mean + spread
        panel.fill_between(mean.index, low, high, color=look["color"], alpha=0.2, linewidth=0)


def _legend_above(figure: "Figure", panel: "Axes", columns: int) -> None:
    """Draw one panel's legend above all panels."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(columns, len(labels))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def draw_reproduction(results: ExperimentResults) -> "Figure":
    """Draw a point for each printed score that we have too.

    Points on the diagonal agree. Scores of test sets have half-filled markers.
    """
    figure = new_figure(NARROW, NARROW * 1.05)
    axes = figure.subplots()
    table = results["reproduction"]
    table = table[table["metric"] != AVERAGE]
    both = table.dropna(subset=["ours"]).drop_duplicates([*CELL, "our_model"])
    tasks = [task for task in results.column_titles if task in set(both["task"])]
    for (number, task), split in itertools.product(enumerate(tasks), SPLITS):
        points = both[(both["task"] == task) & (both["split"] == split)]
        # When the colours repeat, markers are open.
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
    low = min([0.0, *both["ours"], *both["reported"]])
    axes.plot([low, 1], [low, 1], color="0.6", linewidth=1, zorder=0)
    axes.set_xlabel("reported score")
    models = ", ".join(both["our_model"].dropna().unique()) or EMPTY
    axes.set_ylabel(f"score of this run ({models})")
    drawn, cells = both["split"].value_counts(), table.drop_duplicates(CELL)["split"]
    dev, test = (f"{drawn.get(split, 0)} of the {(cells == split).sum()}" for split in SPLITS)
    with_test = f"\nand {test} test scores (half filled)" if "test" in drawn else ""
    axes.set_title(f"{dev} dev scores that the paper prints{with_test}")
    axes.set_aspect("equal")
    axes.grid(color="0.9")
    if tasks:
        axes.legend(fontsize=6, loc="upper left")
    return figure
