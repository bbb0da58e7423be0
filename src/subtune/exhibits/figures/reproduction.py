"""Reported scores against ours."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.reproduction import AVERAGE
from subtune.exhibits.figures.drawing import COLOURS, COLUMN, MARKERS, new_figure
from subtune.exhibits.tables.writing import EMPTY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = ["split", "model", "method", "task"]
SPLITS = ("validation", "test")


def reproduction(
    table: pd.DataFrame, column_titles: Mapping[str, str], style: Mapping[str, Any]
) -> "Figure":
    """Draw a point per score that a paper prints and that we have; the diagonal is agreement.

    Scores of test sets have half-filled markers.

    Args:
        table: from `subtune.analysis.reproduction.reproduction`.
        column_titles: column of the tables to its title.
        style: ``width`` in inches.
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
