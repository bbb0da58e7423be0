"""Draws the forest plot: each method's score with its interval, the smallest method first."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.answer import format_probability
from subtune.analysis.candidates import QUESTION, sort_methods
from subtune.analysis.chosen_runs import title_with_mask
from subtune.exhibits.output import EMPTY, ExperimentResults, empty_figure, new_figure
from subtune.tasks.metrics import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The width of a panel, the height of a row, and the height of titles and labels, in inches.
PANEL_WIDTH, ROW_HEIGHT, AROUND = 3.8, 0.2, 1.07
# A panel shows at most `MOST_ROWS` methods, and has space for at least `FEWEST_ROWS` methods. Names
# are truncated to `LONGEST_NAME` characters.
MOST_ROWS, FEWEST_ROWS, LONGEST_NAME = 16, 3, 22
# The style of each kind of method. A marker is filled if the column ``sure`` is true.
LOOKS: dict[str, dict[str, Any]] = {
    "method": {"color": "#0072b2", "marker": "o", "markersize": 5},
    "floor": {"color": "0.4", "marker": "s", "markersize": 4.5},
    "external": {"color": "#d55e00", "marker": "D", "markersize": 4.5},
    "reference": {"color": "black", "marker": "o", "markersize": 5},
}
BAND: dict[str, Any] = {"color": "#009e73", "alpha": 0.18, "linewidth": 0}
# The reference's score on the runs with which a method is compared, if the method lacks some.
PARTIAL: dict[str, Any] = {"color": "black", "marker": "|", "markersize": 9}
# Where the two text columns end, in points from the panel's right edge, and their font size.
PARAMETERS_AT, PROBABILITY_AT, LETTERS = 48, 94, 8


def _list_panels(
    methods: pd.DataFrame, task_titles: Mapping[str, str]
) -> list[tuple[str, pd.DataFrame]]:
    """Choose the panels of a forest plot, one per model and task.

    Methods without a model, and external predictions, are in all panels of their task.

    Args:
        methods: rows from `subtune.analysis.candidates.summarise_methods`.

    Returns:
        The title and the methods of each panel.
    """
    panels, several = [], methods["model"].nunique() > 1
    scored = sort_methods(methods).dropna(subset="score")
    for (_, task, _), rows in scored.groupby(QUESTION, sort=False):
        has_model = rows["encoder_size"].fillna(0) > 0
        # If no method has a model, there is one panel for all methods.
        for model in (rows[has_model] if has_model.any() else rows[:1])["model"].unique():
            title = f"{task_titles[task]}, {model}" if several else task_titles[task]
            panels.append((title, _choose_rows(rows, ~has_model | (rows["model"] == model))))
    return panels


def draw_front(results: ExperimentResults) -> "Figure":
    """Draw a forest plot: each method's score with its interval, in one panel per model and task.

    Methods are sorted by size, the smallest first; external predictions are last. A bar is
    the 95 % interval of the *paired difference*, shifted by the reference's score on the same runs.
    If a method lacks some runs, a short line shows the reference's score on the method's runs.
    Intervals of the scores themselves would be wider, because they include the variance that the
    method and the reference share. Such intervals can overlap although one method is clearly
    better. A method is as good as the reference if its bar lies within or above the band of the
    margin.

    Grey squares are methods that train nothing in the encoder; orange diamonds are external
    predictions.
    """
    panels = _list_panels(results.summary, results.task_titles)
    if not panels:
        return empty_figure()
    columns = min(2, len(panels))
    lines = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    most = [max(FEWEST_ROWS, *(len(rows) for _, rows in line)) for line in lines]
    heights = [AROUND + ROW_HEIGHT * count for count in most]
    figure = new_figure(PANEL_WIDTH * columns, sum(heights))
    grid = {"height_ratios": heights}
    axes = figure.subplots(len(lines), columns, squeeze=False, gridspec_kw=grid).ravel()
    for spare in axes[len(panels) :]:
        spare.remove()
    for number, (title, rows) in enumerate(panels):
        axes[number].set_title(title, fontweight="bold")
        _draw_panel(axes[number], rows, most[number // columns])
    return figure


def _choose_rows(rows: pd.DataFrame, is_shown: pd.Series) -> pd.DataFrame:
    """Choose at most `MOST_ROWS` methods of a panel, and add columns that are needed to draw them.

    The reference, external predictions, and methods that train nothing in the encoder are chosen
    first. Next are methods whose column ``sure`` is true, then methods on the Pareto front, then
    methods with high scores.

    Args:
        rows: the rows of all methods for the panel's task.
        is_shown: for each row, whether its method belongs to the panel.

    Returns:
        The chosen rows in their original order, with the columns ``kind`` (a key of `LOOKS`),
        ``centre`` (the score of the reference), and ``is_partial`` (whether the method is compared
        with some of the reference's runs, on which the reference has another score).
    """
    is_reference = rows["title"] == rows["reference"]
    kind = pd.Series("method", rows.index).mask(rows["trained"] == 0, "floor")
    kind = kind.mask(rows["encoder_size"].isna(), "external").mask(is_reference, "reference")
    centre = rows.loc[is_reference, "score"]
    rows = rows.assign(kind=kind, centre=centre.iloc[0] if len(centre) else math.nan)
    rows = rows.assign(is_partial=rows["reference_score"].fillna(rows["centre"]) != rows["centre"])
    rows = rows[is_shown]
    ranked = rows.assign(first=rows["kind"] != "method")
    ranked = ranked.sort_values(["first", "sure", "on_front", "score"], ascending=False)
    return rows.loc[sorted(ranked.index[:MOST_ROWS])]


def _draw_panel(panel: "Axes", rows: pd.DataFrame, height: int) -> None:
    """Draw the methods of one panel, with names on the left and columns of text on the right.

    Args:
        rows: the methods, from `_choose_rows`.
        height: the number of methods for which the panel has space.
    """
    margin, centre, metric = rows[["margin", "centre", "metric"]].iloc[0]
    low, high = _x_limits(rows)
    panel.set_xlim(low, high)
    panel.set_ylim(height - 0.4, -0.6)
    below = 1 - len(rows) / height
    panel.axvspan(centre - margin, centre, ymin=below, **BAND)
    panel.axvline(centre, ymin=below, color="black", linewidth=0.8)

    def write(text: str, x: float, y: float, ha: str = "right", **font: Any) -> None:
        look: dict[str, Any] = {"va": "center", "ha": ha, "fontsize": LETTERS, **font}
        place = panel.get_yaxis_transform()
        panel.annotate(text, (x > 0, y), (x, 0), place, "offset points", **look)

    for y, row in enumerate(rows.to_dict("records")):
        is_filled = row["sure"] or row["kind"] == "reference"
        look = LOOKS[row["kind"]] | ({} if is_filled else {"markerfacecolor": "white"})
        if low <= row["score"] <= high:
            ends = [[row["difference"] - row["low"]], [row["high"] - row["difference"]]]
            bar = None if pd.isna(row["low"]) else ends
            panel.errorbar([row["score"]], [y], xerr=bar, linestyle="", elinewidth=1.2, **look)
            if row["is_partial"]:
                panel.plot([row["reference_score"]], [y], **PARTIAL)
        else:
            write(f"◂ {row['score']:.3f}", 0, y, "left", color=look["color"])
        write(format_count(row["trained"], row["kind"]), PARAMETERS_AT, y)
        chance = EMPTY if pd.isna(row["chance"]) else format_probability(row["chance"])
        write(chance, PROBABILITY_AT, y)
    for heading, x in (("parameters", PARAMETERS_AT), (f"within {margin:g}", PROBABILITY_AT)):
        write(heading, x, -1.2, color="0.35", fontsize=6.5)
    names = [
        title_with_mask(row) + (f" {row['compared']}/{row['planned']}" if row["is_partial"] else "")
        for row in rows.to_dict("records")
    ]
    cut = [n if len(n) <= LONGEST_NAME else f"{n[: LONGEST_NAME - 1]}…" for n in names]
    panel.set_yticks(range(len(rows)), cut, fontsize=LETTERS)
    for label, kind in zip(panel.get_yticklabels(), rows["kind"], strict=True):
        label.set_color(LOOKS[kind]["color"] if kind != "method" else "black")
    panel.tick_params(axis="y", length=0)
    panel.locator_params(axis="x", nbins=3)
    reference = rows["reference"].iloc[0]
    band = f"band: within {margin:g} of {reference}"
    points = f"filled: within {margin:g} of all methods, 95 % sure, two seeds"
    bars = "bars: 95 % interval"
    if rows["is_partial"].any():
        bars += f"; line: {reference} on the same {rows['unit'].iloc[0]}s"
    panel.set_xlabel(f"{TITLES[metric]}\n{band}\n{bars}\n{points}", fontsize=7)
    panel.spines[["top", "left", "right"]].set_visible(False)
    panel.grid(axis="x", color="0.92")
    panel.set_axisbelow(True)


def _x_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Choose the limits of the x axis.

    The scores of all trained methods are within the limits, and so are the ends of their intervals
    unless these are far from the scores. Baselines and external predictions with much lower scores
    are outside, because the differences between trained methods would otherwise be invisible.
    """
    margin, centre = rows[["margin", "centre"]].iloc[0]
    methods = rows.loc[rows["kind"].isin(["method", "reference"]), "score"]
    low = min([*methods, centre - 1.5 * margin])
    high = max([*methods, centre + 0.5 * margin])
    span = high - low
    near = rows.loc[rows["score"] >= low - span, "score"]
    low, high = min([low, *near]), max([high, *near])
    # No score is higher than 1, although an interval may end above.
    highest = (rows["reference_score"] + rows["high"]).clip(upper=max(1, high))
    ends = (rows["reference_score"] + rows["low"]).dropna(), highest.dropna()
    low = min(low, max(low - 0.4 * span, ends[0].min())) if len(ends[0]) else low
    high = max(high, min(high + 0.4 * span, ends[1].max())) if len(ends[1]) else high
    space = 0.05 * (high - low)
    return low - space, high + space


def format_count(count: int, kind: str = "method") -> str:
    """Format a number of parameters with three digits, such as ``22.6 M``.

    The text is a dash for external predictions, because their number is unknown.
    """
    if kind == "external":
        return EMPTY
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
