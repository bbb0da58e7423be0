"""Scores as points, against trained parameters or a paper's scores; and ranks on a line."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.statistics import FEWEST_COLUMNS, FEWEST_METHODS, mean_ranks
from subtune.analysis.summary import QUESTION, REFERENCE, summary
from subtune.exhibits.methods import AVERAGE
from subtune.exhibits.output import (
    COLOURS,
    COLUMN,
    EMPTY,
    MARKERS,
    name_panel,
    new_figure,
    panels_of,
    without_numbers,
)
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The lines of full fine-tuning, and of methods that train nothing of the encoder.
FULL: dict[str, Any] = {"color": "0.35", "linestyle": "-"}
FLOORS = {"frozen": ("classifier alone", ":"), "embeddings": ("embeddings", "--")}
# Widths in letters: of a page's text, and of the marker before each label of a legend.
LETTERS_OF_A_LINE, LETTERS_OF_A_MARK = 110, 7
FRONT: dict[str, Any] = {"color": "0.75", "linewidth": 3, "zorder": 1}
CELL = ["split", "model", "method", "task"]
SPLITS = ("validation", "test")
# Inches of a line of text, and of the space above the first one.
LINE, TOP = 0.18, 0.9
# A bar reaches so far beyond its outermost ranks.
BEYOND = 0.04


def score_by_parameters(
    chosen: pd.DataFrame, task_titles: Mapping[str, str], style: Mapping[str, Any]
) -> "Figure":
    """Draw the dev score against trained parameters, a panel per model and task.

    A method is a point, with a bar of one standard deviation if it has several seeds. The masks of
    one method and kind are points of one colour, joined. Full fine-tuning, the classifier alone and
    embeddings are horizontal lines. The grey line is the Pareto front: the best score with at most
    so many parameters.
    """
    from matplotlib.lines import Line2D

    rows = summary(chosen).dropna(subset="score")
    if rows.empty:
        return without_numbers(style["width"])
    rows["label"] = rows.apply(_label, axis=1)
    rows["is_point"] = (rows["trained"] > 0) & (rows["label"] != title_of(REFERENCE))
    # Each method, or its masks of one kind, has one colour.
    labels = rows[rows["is_point"]].sort_values("trained")["label"].unique()
    questions = [*rows.groupby(QUESTION, sort=False)]
    share = COLUMN if len(questions) == 1 else 1
    figure, panels = panels_of(len(questions), share * style["width"], height_of_panel=0.75)
    trained = rows.loc[rows["trained"] > 0, "trained"]
    for panel, ((model, task, metric), methods) in zip(panels, questions, strict=False):
        _draw(panel, methods, labels)
        panel.set_xscale("log")
        if len(trained):
            panel.set_xlim(trained.min() / 2, trained.max() * 2)
        several = rows["model"].nunique() > 1
        name_panel(panel, task_titles[task], metric, model if several else None, grid="0.92")
    figure.supxlabel("trained parameters, without the classifier")
    handles = [Line2D([], [], label=title_of(REFERENCE), **FULL)]
    for method, (label, line) in FLOORS.items():
        if (rows["method"] == method).any():
            handles.append(Line2D([], [], label=label, **FULL | {"linestyle": line}))
    handles.append(Line2D([], [], label="front", **FRONT))
    handles += [
        Line2D([], [], linestyle="", markersize=4, label=label, **_point(number))
        for number, label in enumerate(labels)
    ]
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(share * LETTERS_OF_A_LINE / (longest + LETTERS_OF_A_MARK)))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _label(row: pd.Series) -> str:
    title = title_of(row["method"])
    return title if pd.isna(row["scope"]) else f"{title}, masked, {row['scope']}"


def _point(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number // len(COLOURS) % len(MARKERS)],
    }


def _draw(panel: "Axes", rows: pd.DataFrame, labels: Iterable[str]) -> None:
    for score in rows.loc[rows["label"] == title_of(REFERENCE), "score"]:
        panel.axhline(score, **FULL)
    for method, (_, line) in FLOORS.items():
        for score in rows.loc[rows["method"] == method, "score"]:
            panel.axhline(score, **FULL | {"linestyle": line})
    rows = rows.sort_values("trained")
    front = rows[(rows["trained"] > 0) & rows["on_front"]]
    panel.step(front["trained"], front["score"], where="post", **FRONT)
    for number, label in enumerate(labels):
        points = rows[rows["is_point"] & (rows["label"] == label)]
        panel.errorbar(
            points["trained"],
            points["score"],
            yerr=points["spread"].fillna(0),
            markersize=3.5,
            elinewidth=0.7,
            linewidth=0.7,
            linestyle="-" if len(points) > 1 else "",
            **_point(number),
        )
    panel.set_axisbelow(True)


def reproduction(
    table: pd.DataFrame, column_titles: Mapping[str, str], style: Mapping[str, Any]
) -> "Figure":
    """Draw a point per score that a paper prints and that we have.

    Points on the diagonal agree. Scores of test sets have half-filled markers.

    Args:
        table: from `subtune.exhibits.methods.reproduction`.
    """
    width = style["width"] * COLUMN
    figure = new_figure(width, width * 1.05)
    axes = figure.subplots()
    table = table[table["metric"] != AVERAGE]
    both = table.dropna(subset=["ours"]).drop_duplicates([*CELL, "our_model"])
    tasks = [task for task in column_titles if task in set(both["task"])]
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
            label=column_titles[task] if split == "validation" else None,
        )
    low = min([0.0, *both["ours"], *both["reported"]])
    axes.plot([low, 1], [low, 1], color="0.6", linewidth=1, zorder=0)
    axes.set_xlabel("reported score")
    models = ", ".join(both["our_model"].dropna().unique()) or EMPTY
    axes.set_ylabel(f"score of this run ({models})")
    axes.set_title(_title(both, table))
    axes.set_aspect("equal")
    axes.grid(color="0.9")
    if tasks:
        axes.legend(fontsize=6, loc="upper left")
    return figure


def _title(both: pd.DataFrame, printed: pd.DataFrame) -> str:
    """Return how many of the printed scores are drawn, by split."""
    drawn, cells = both["split"].value_counts(), printed.drop_duplicates(CELL)["split"]
    dev, test = (f"{drawn.get(split, 0)} of the {(cells == split).sum()}" for split in SPLITS)
    title = f"{dev} dev scores that the paper prints"
    return f"{title}\nand {test} test scores (half filled)" if "test" in drawn else title


def critical_difference(chosen: pd.DataFrame, style: Mapping[str, Any]) -> "Figure":
    """Draw methods on a line by their mean rank, the best at the left (Demšar, 2006).

    A bar joins methods whose ranks differ by less than the critical difference, which stands above.
    """
    ranks, difference = mean_ranks(chosen)
    if math.isnan(difference):
        needed = f"at least {FEWEST_METHODS} methods and {FEWEST_COLUMNS} tasks"
        return without_numbers(style["width"], f"ranks need {needed} on which all have a score")
    count = len(ranks)
    bars = [*joined(ranks.tolist(), difference)]
    lines = math.ceil(count / 2)
    depth = len(bars) + 1 + lines
    figure = new_figure(style["width"], TOP + LINE * depth)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(1 - 0.35 * count, count + 0.35 * count)
    axes.set_ylim(-depth, 2.5)
    line: dict[str, Any] = {"color": "black", "linewidth": 0.8}
    axes.plot([1, count], [0, 0], **line)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.3], **line)
        axes.text(rank, 0.4, str(rank), ha="center", va="bottom", fontsize=7)
    axes.plot([1, 1 + difference], [1.7, 1.7], color="0.35", linewidth=2)
    text = f"critical difference {difference:.2f}"
    axes.text(1 + difference / 2, 1.8, text, ha="center", va="bottom", fontsize=7)
    for number, (low, high) in enumerate(bars, 1):
        axes.plot([low - BEYOND, high + BEYOND], [-0.6 * number] * 2, color="0.35", linewidth=3)
    for number, (method, rank) in enumerate(ranks.items()):
        is_left = number < lines
        row = number if is_left else count - 1 - number
        y, end = -len(bars) - 1 - row, 1 - 0.1 * count if is_left else count + 0.1 * count
        axes.plot([rank, rank, end], [0, y, y], **line)
        label = f"{title_of(str(method))} {rank:.1f}"
        side = "right" if is_left else "left"
        axes.text(end, y, f" {label} ", ha=side, va="center", fontsize=7)
    return figure


def joined(ranks: list[float], difference: float) -> Iterator[tuple[float, float]]:
    """Yield the outermost ranks of each largest group that lies within the difference.

    Args:
        ranks: in ascending order.
    """
    reached = -1
    for first, low in enumerate(ranks):
        last = max(n for n, rank in enumerate(ranks) if rank - low <= difference)
        if last > max(first, reached):
            yield low, ranks[last]
            reached = last
