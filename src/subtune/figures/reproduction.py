"""Reported scores against ours."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from subtune.figures.drawing import COLOURS, COLUMN
from subtune.papers.printed import AVERAGE
from subtune.tables.writing import EMPTY

MARKERS = "osD^v<>P*X"


def reproduction(
    table: pd.DataFrame, column_titles: Mapping[str, str], style: Mapping[str, Any]
) -> Figure:
    """One point per score that a paper prints and that we have; the diagonal is agreement.

    Args:
        table: from `subtune.analysis.reproduction.reproduction`.
        column_titles: column of the tables to its title.
        style: ``width`` in inches.
    """
    width = style["width"] * COLUMN
    figure = Figure(figsize=(width, width * 1.05), layout="constrained")
    axes = figure.subplots()
    table = table[table["metric"] != AVERAGE]
    both = table.dropna(subset=["ours"]).drop_duplicates(["our_model", "model", "method", "task"])
    tasks = [task for task in column_titles if task in set(both["task"])]
    for number, task in enumerate(tasks):
        points = both[both["task"] == task]
        axes.errorbar(
            points["reported"],
            points["ours"],
            yerr=points["standard_deviation"].fillna(0),
            linestyle="none",
            marker=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)],
            markersize=3.5,
            # Where colours begin anew, markers are open.
            fillstyle="full" if number < len(COLOURS) else "none",
            elinewidth=0.8,
            label=column_titles[task],
        )
    low = min([0.0, *both["ours"], *both["reported"]])
    axes.plot([low, 1], [low, 1], color="0.6", linewidth=1, zorder=0)
    axes.set_xlabel("reported score")
    models = ", ".join(both["our_model"].dropna().unique()) or EMPTY
    axes.set_ylabel(f"score of this run ({models})")
    axes.set_title(f"{len(both)} of the {_cells(table)} dev scores that the paper prints")
    axes.set_aspect("equal")
    axes.grid(color="0.9")
    if tasks:
        axes.legend(fontsize=6, loc="upper left")
    return figure


def _cells(table: pd.DataFrame) -> int:
    dev = table[table["split"] == "validation"]
    return len(dev.drop_duplicates(["model", "method", "task"]))
