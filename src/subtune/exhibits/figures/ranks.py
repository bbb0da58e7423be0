"""A critical-difference diagram: methods by their mean rank (Demšar, 2006)."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.significance import FEWEST_COLUMNS, FEWEST_METHODS, mean_ranks
from subtune.exhibits.figures.drawing import new_figure, without_numbers
from subtune.selections.methods import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inches of a line of text, and of what stands above the first one.
LINE, TOP = 0.18, 0.9
# A bar of methods that do not differ ends so far beyond its outermost ranks.
BEYOND = 0.04


def critical_difference(chosen: pd.DataFrame, style: Mapping[str, Any]) -> "Figure":
    """Draw methods on a line by their mean rank, the best at the left.

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
