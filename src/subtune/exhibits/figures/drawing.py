"""Parts that figures share: panels, lines, heat maps, axes, files."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from subtune.tasks.metrics import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# Sizes for a figure that stands in a paper's text. PDF files hold whole TrueType fonts.
SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "figure.titlesize": 8,
    "figure.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "lines.linewidth": 1,
    "pdf.fonttype": 42,
}
DOTS_PER_INCH = 220
# A narrow figure's share of the text's width.
COLUMN = 0.5
# More panels than this take minutes to lay out.
MOST_PANELS = 60
# Okabe and Ito's colours, which the colour-blind tell apart. Further lines differ by style.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# The look of a cell without a number.
MISSING: dict[str, Any] = {
    "facecolor": "0.9", "edgecolor": "0.45", "hatch": "//////", "linewidth": 0,
}  # fmt: skip
MARKERS = "osD^v<>P*X"
LINE_STYLES = ("-", "--", ":", "-.")


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, its size in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(SETTINGS)
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", outputs: Sequence[str | Path]) -> None:
    """Write a figure to each output, in the format of its suffix, without a time stamp."""
    for path in map(Path, outputs):
        metadata = {"CreationDate": None} if path.suffix == ".pdf" else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)


def panels_of(count: int, width: float, height_of_panel: float) -> "tuple[Figure, list[Axes]]":
    """Return a figure with ``count`` panels; the height is a share of a panel's width.

    At most `MOST_PANELS` are drawn; the last place then says how many are left out.
    """
    places = min(count, MOST_PANELS)
    shown = places if places == count else places - 1
    # Rows of four, or of three if that leaves fewer gaps.
    columns = min((4, 3), key=lambda width: -places % width) if places > 4 else places
    rows = math.ceil(places / columns)
    height = 0.8 + rows * height_of_panel * width / columns * 1.2
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[places:]:
        spare.remove()
    for note in axes[shown:places]:
        note.set_axis_off()
        note.text(0.5, 0.5, f"{count - shown:,} more:\nsee the tables", ha="center", va="center")
    return figure, list(axes[:shown])


def without_numbers(width: float) -> "Figure":
    """Return a figure that says that every run diverged."""
    figure = new_figure(width, 1)
    figure.suptitle("every run diverged: there is nothing to draw")
    return figure


def line_look(number: int) -> dict[str, Any]:
    """Return the colour and line style of a line, counted from 0."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
    }


def plot_with_band(
    panel: "Axes", mean: pd.Series, spread: pd.Series, look: Mapping[str, Any]
) -> None:
    """Draw a line, and a band of one standard deviation if there is a spread."""
    panel.plot(mean.index, mean, **look)
    spread = spread.fillna(0)
    if spread.any():
        low, high = mean - spread, mean + spread
        panel.fill_between(mean.index, low, high, color=look["color"], alpha=0.2, linewidth=0)


def name_panel(panel: "Axes", title: str, metric: str, grid: str = "0.9") -> None:
    """Write a panel's title and metric, and draw its grid."""
    panel.set_title(title)
    panel.set_ylabel(TITLES[metric], fontsize=7)
    panel.grid(color=grid)
    panel.tick_params(labelsize=6)


def legend_above(figure: "Figure", panel: "Axes", columns: int) -> None:
    """Draw the legend of one panel above all panels."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(columns, len(labels))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def heat_map(
    panel: "Axes", grid: pd.DataFrame, colormap: str, limits: tuple[float, float], number: str
) -> "AxesImage":
    """Draw a table as colours with its numbers in them.

    Missing cells are grey and hatched. ``limits`` are the colours' ends, ``number`` a format.
    """
    from matplotlib.patches import Rectangle

    image = panel.imshow(grid, aspect="auto", cmap=colormap, vmin=limits[0], vmax=limits[1])
    panel.set_xticks(range(grid.shape[1]), list(grid.columns), rotation=60, ha="right")
    panel.set_yticks(range(grid.shape[0]), [str(layer) for layer in grid.index])
    for (row, column), value in np.ndenumerate(grid.to_numpy()):
        if np.isfinite(value):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            panel.text(
                column,
                row,
                number.format(value),
                ha="center",
                va="center",
                fontsize=5.5,
                color="white" if dark else "black",
            )
        else:
            panel.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **MISSING))
    return image


def layer_ticks(layers: pd.Index) -> tuple[list[int], list[str]]:
    """Return about six positions on an axis of layers, and their names."""
    step = max(1, len(layers) // 6)
    positions = list(range(0, len(layers), step))
    return positions, [str(layers[position]) for position in positions]
