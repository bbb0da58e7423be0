"""Parts that figures share: sizes, colours, panels, files."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.tasks.metrics import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
MARKERS = "osD^v<>P*X"


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
        # The other formats are laid out as the first.
        figure.set_layout_engine("none")


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


def without_numbers(
    width: float, reason: str = "every run diverged: there is nothing to draw"
) -> "Figure":
    """Return a figure that says why it is empty."""
    figure = new_figure(width, 1)
    figure.suptitle(reason)
    return figure


def name_panel(
    panel: "Axes", title: str, metric: str, model: str | None = None, grid: str = "0.9"
) -> None:
    """Write a panel's title, its model, if there are several, and its metric. Draw its grid."""
    panel.set_title(f"{title} ({model})" if model else title)
    panel.set_ylabel(TITLES[metric], fontsize=7)
    panel.grid(color=grid)
    panel.tick_params(labelsize=6)
