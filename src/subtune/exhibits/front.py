"""The figure of scores against trained parameters, with the Pareto front."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.analysis.candidates import QUESTION
from subtune.exhibits.output import (
    COLOURS,
    COLUMN,
    MARKERS,
    name_panel,
    panels_of,
    without_numbers,
)
from subtune.exhibits.results import Results, Style
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The lines of full fine-tuning, and of methods that train nothing in the encoder.
LINES: dict[str, dict[str, Any]] = {
    "full": {"label": title_of("full"), "color": "0.35", "linestyle": "-"},
    "frozen": {"label": "classifier alone", "color": "0.35", "linestyle": ":"},
    "embeddings": {"label": "embeddings", "color": "0.35", "linestyle": "--"},
}
FRONT: dict[str, Any] = {"color": "0.85", "linewidth": 3, "zorder": 1, "where": "post"}
# Limits of the names beside a panel: the number of methods, the letters of a name, and the distance
# of lines as a share of the panel's height.
MOST_NAMES, LONGEST_NAME, NAMES_APART = 8, 24, 0.08
# The colour of points without a name.
OTHERS = "0.75"


def score_by_parameters(results: Results, style: Style) -> "Figure":
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
        return without_numbers(style["width"])
    masks = "masked" if rows["scope"].nunique() == 1 else "{}"
    rows["label"] = [
        title_of(method) + ("" if pd.isna(scope) else f", {masks.format(scope)}")
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
    share = COLUMN if len(questions) == 1 else 1
    figure, panels = panels_of(len(questions), share * style["width"], 0.65, most_columns=3)
    several = rows["model"].nunique() > 1
    for panel, ((model, task, metric), methods) in zip(panels, questions, strict=True):
        panel.set_xscale("log")
        panel.xaxis.set_minor_formatter(NullFormatter())
        if len(points):
            panel.set_xlim(*_sizes(points["trained"].min(), points["trained"].max()))
        _draw(panel, methods, looks)
        title = results.task_titles[task]
        name_panel(panel, title, metric, model if several else None, grid="0.92")
    figure.supxlabel("trained parameters, without the classifier")
    return figure


def _draw(panel: "Axes", rows: pd.DataFrame, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the methods of one panel, and names at its right."""
    lines, points = rows[rows["is_line"]], rows[~rows["is_line"]].sort_values("trained")
    panel.set_ylim(*_limits(lines, points))
    front = points[points["on_front"]]
    panel.step(front["trained"], front["score"], **FRONT)
    named = _named(points)
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
    _write_names(panel, sorted(names, key=lambda name: name[0]))


def _sizes(smallest: int, largest: int) -> tuple[float, float]:
    """Return limits of the axis of parameters that include at least two powers of ten."""
    left, right = math.log10(smallest / 2), math.log10(largest * 2)
    if math.floor(right) <= math.ceil(left):
        left, right = math.floor(left), math.ceil(right)
    return 10**left, 10**right


def _limits(lines: pd.DataFrame, points: pd.DataFrame) -> tuple[float, float]:
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


def _named(points: pd.DataFrame) -> set[str]:
    """Return the labels to write.

    Sure methods come first, then methods on the Pareto front, then methods with high scores.
    """
    methods = points.groupby("label").agg({"sure": "any", "on_front": "any", "score": "max"})
    return set(methods.sort_values([*methods], ascending=False).index[:MOST_NAMES])


def _write_names(
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
