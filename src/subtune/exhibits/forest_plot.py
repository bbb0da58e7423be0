"""Draw the forest plot: each method's score with its interval, the smallest method first."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from subtune.analysis.candidates import FROM_SMALLEST, QUESTION, sort_methods
from subtune.analysis.chosen_runs import title_with_mask
from subtune.exhibits.output import EMPTY, Figure, empty_figure, format_with_unit, new_figure
from subtune.tasks.metrics import is_scorer, metric_title

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

# A line of panels has at most `MOST_PANELS` panels and `MOST_ROWS` methods. Names of methods with
# more than `LONGEST_METHOD` characters are wrapped.
MOST_PANELS, MOST_ROWS, LONGEST_METHOD = 5, 16, 32
# Sizes in inches: the width of all panels in a line, of the parameter counts, and of a character;
# the height of a method, also with a wrapped name, and of titles and labels.
PANELS, NUMBERS, CHARACTER, AROUND = 3.6, 0.7, 0.067, 0.95
ROW_HEIGHT, WRAPPED_HEIGHT = 0.175, 0.25
COUNT_UNITS = ("", "k", "M")
# The style of each kind of method. A marker is filled if the column ``sure`` is true.
LOOKS: dict[str, dict[str, Any]] = {
    "method": {"color": "#0072b2", "marker": "o", "markersize": 5},
    "floor": {"color": "0.4", "marker": "s", "markersize": 4.5},
    "external": {"color": "#d55e00", "marker": "D", "markersize": 4.5},
    "reference": {"color": "black", "marker": "o", "markersize": 5},
}
BAND: dict[str, Any] = {"color": "#009e73", "alpha": 0.18, "linewidth": 0}
# Style of the reference's score, if a method lacks some of the runs of the reference.
PARTIAL: dict[str, Any] = {"color": "black", "marker": "|", "markersize": 9}
# Font sizes, and the distance between the names of methods and the first panel, in points.
FONT_POINTS, SMALL_FONT_POINTS, NAMES_AT = 8, 7, 40


class Panel(NamedTuple):
    """The methods of one model, and the methods without a model, on one task."""

    task: str
    model: str
    rows: pd.DataFrame


def draw_forest_plot(
    methods: pd.DataFrame, task_titles: Mapping[str, str]
) -> "matplotlib.figure.Figure":
    """Draw a forest plot: each method's score with its interval, in one panel per model and task.

    The panels of a model are side by side and share the names of the methods. Methods are sorted by
    size, the smallest first; external predictions are last. A bar is the 95 % interval of the
    *paired difference*, shifted by the reference's score on the same runs. If a method lacks some
    runs, a short line shows the reference's score on the method's runs. Intervals of the scores
    themselves would be wider, because they include the variance that the method and the reference
    share. Such intervals can overlap although one method is clearly better. A method is as good as
    the reference if its bar lies within or above the band of the margin.

    Grey squares are methods that train nothing in the encoder; orange diamonds are external
    predictions.

    Args:
        methods: rows from `subtune.analysis.candidates.summarise_methods`.
    """
    lines = _list_lines(methods)
    if not lines:
        return empty_figure()
    shown = [_choose_methods(line) for line in lines]
    is_wrapped = [chosen["name"].str.len().max() > LONGEST_METHOD for chosen in shown]
    heights = [
        AROUND + (WRAPPED_HEIGHT if wrapped else ROW_HEIGHT) * len(chosen)
        for chosen, wrapped in zip(shown, is_wrapped, strict=True)
    ]
    columns = max(map(len, lines))
    letters = round(PANELS / columns / CHARACTER)
    names = [name for chosen in shown for name in chosen["name"]]
    longest = min(LONGEST_METHOD, max(map(len, names)))
    figure = new_figure(longest * CHARACTER + NUMBERS + PANELS, sum(heights))
    grid = {"height_ratios": heights}
    axes = figure.subplots(len(lines), columns, squeeze=False, gridspec_kw=grid)
    has_models = len({line[0].model for line in lines}) > 1
    for line, chosen, panels in zip(lines, shown, axes, strict=True):
        for (task, model, rows), panel in zip(line, panels, strict=False):
            title = task_titles[task] + (f", {model}" if has_models else "")
            panel.set_title(_wrap(title, letters), fontweight="bold")
            metric = _wrap(metric_title(rows["metric"].iloc[0]), letters)
            panel.set_xlabel(metric, fontsize=SMALL_FONT_POINTS)
            _draw_panel(panel, rows, list(chosen["name"]))
            panel.set_xticks(_choose_ticks(panel.get_xlim(), most=max(2, letters // 8)))
        _write_names(panels[0], chosen)
        for spare in panels[len(line) :]:
            spare.remove()
    rows = pd.concat([panel.rows for line in lines for panel in line])
    figure.supxlabel(_explain_marks(rows), fontsize=SMALL_FONT_POINTS)
    return figure


FRONT = Figure(
    "front",
    "Scores of all methods, ordered by size",
    "The plot shows the score of each method at its best learning rate, and its number of trained "
    "parameters, without the classifier. The black line is the reference's score, and the band to "
    "its left is the margin. Bars show the 95 % interval of the difference from the reference, "
    "paired by seed and dev example and shifted by the reference's score. A point is filled if "
    "the method is within the margin of each other method with a probability of at least 95 %, "
    "over several seeds. If a method lacks some seeds or folds, the number that it has is on the "
    "right, and a short line shows the reference's score on the same seeds and folds. Grey "
    "squares are methods that train nothing in the encoder. Orange diamonds are external "
    "predictions. Each row shows at most sixteen methods; diverged methods are left out.",
    make=lambda results: draw_forest_plot(results.summary, results.task_titles),
)


def _wrap(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


def _list_lines(methods: pd.DataFrame) -> list[list[Panel]]:
    """Choose the panels of a forest plot, and group the panels of each model into lines.

    Methods without a model, and external predictions, are in all panels of their task.
    """
    panels, scored = [], sort_methods(methods).dropna(subset="score")
    for (_, task, _), rows in scored.groupby(QUESTION, sort=False):
        has_model = rows["encoder_size"].fillna(0) > 0
        rows = _add_kinds(rows)
        # If no method has a model, there is one panel for all methods.
        for model in (rows[has_model] if has_model.any() else rows[:1])["model"].unique():
            panels.append(Panel(task, model, rows[~has_model | (rows["model"] == model)]))
    lines = []
    for model in dict.fromkeys(panel.model for panel in panels):
        line = [panel for panel in panels if panel.model == model]
        lines += [line[n : n + MOST_PANELS] for n in range(0, len(line), MOST_PANELS)]
    return lines


def _add_kinds(rows: pd.DataFrame) -> pd.DataFrame:
    """Add columns that are needed to draw the methods of a task.

    The columns are ``name``; ``kind`` (a key of `LOOKS`); ``centre`` (the score of the reference);
    and ``is_partial`` (whether the method is compared with some of the reference's runs, on which
    the reference has another score).
    """
    is_reference = rows["title"] == rows["reference"]
    kind = pd.Series("method", rows.index).mask(rows["trained"] == 0, "floor")
    kind = kind.mask(rows["encoder_size"].isna(), "external").mask(is_reference, "reference")
    centre = rows.loc[is_reference, "score"]
    rows = rows.assign(kind=kind, centre=centre.iloc[0] if len(centre) else math.nan)
    rows["is_partial"] = rows["reference_score"].fillna(rows["centre"]) != rows["centre"]
    return rows.assign(name=[title_with_mask(row) for row in rows.to_dict("records")])


def _choose_methods(line: Sequence[Panel]) -> pd.DataFrame:
    """Choose at most `MOST_ROWS` methods of a line, and sort them from the smallest to the largest.

    References, external predictions, methods that train nothing in the encoder, and the best method
    of each panel are chosen first. Next are methods whose column ``sure`` is true on the most
    tasks, then methods on the most Pareto fronts, then methods with the highest mean ranks.

    Returns:
        One row per method, with the columns ``name``, ``kind`` and ``trained``; with several tasks,
        the values of the first task.
    """
    rows = pd.concat([panel.rows.assign(rank=panel.rows["score"].rank()) for panel in line])
    is_best = rows.index.isin([panel.rows["score"].idxmax() for panel in line])
    rows["first"] = is_best | (rows["kind"] != "method")
    values = dict.fromkeys(["kind", "trained", "encoder_size"], "first")
    ranks = dict.fromkeys(["first", "sure", "on_front", "rank"], "mean")
    methods = rows.groupby("name", sort=False).agg(values | ranks | {"score": "mean"}).reset_index()
    ranked = methods.sort_values([*ranks], ascending=False)
    return ranked[:MOST_ROWS].sort_values(FROM_SMALLEST, ascending=[True, True, False])


def _draw_panel(panel: "Axes", rows: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw the methods of one panel that are in ``names``, each at the height of its name."""
    margin, centre = rows[["margin", "centre"]].iloc[0]
    shown = rows[rows["name"].isin(names)]
    low, high = _x_limits(shown if len(shown) else rows)
    panel.set_xlim(low, high)
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.axvspan(centre - margin, centre, **BAND)
    panel.axvline(centre, color="black", linewidth=0.8)
    beside = panel.get_yaxis_transform()
    for row in shown.to_dict("records"):
        y = names.index(row["name"])
        is_filled = row["sure"] or row["kind"] == "reference"
        look = LOOKS[row["kind"]] | ({} if is_filled else {"markerfacecolor": "white"})
        if low <= row["score"] <= high:
            ends = [[row["difference"] - row["low"]], [row["high"] - row["difference"]]]
            bar = None if pd.isna(row["low"]) else ends
            panel.errorbar([row["score"]], [y], xerr=bar, linestyle="", elinewidth=1.2, **look)
        else:
            number = {"color": look["color"], "va": "center", "fontsize": SMALL_FONT_POINTS}
            panel.text(0, y, f"◂ {row['score']:.3f}", transform=beside, **number)
        if row["is_partial"]:
            panel.plot([row["reference_score"]], [y], **PARTIAL)
            runs = f" {row['compared']}/{row['planned']}"
            panel.text(1, y, runs, transform=beside, va="center", fontsize=SMALL_FONT_POINTS)
    panel.set_yticks([])
    panel.spines[["top", "left", "right"]].set_visible(False)
    panel.grid(axis="x", color="0.92")
    panel.set_axisbelow(True)


def _choose_ticks(limits: tuple[float, float], most: int) -> list[float]:
    """Choose ticks between the limits, but so few that their labels do not overlap."""
    from matplotlib.ticker import MaxNLocator

    low, high = limits
    values = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
    ticks = [value for value in values if low <= value <= high]
    return ticks[:: max(1, math.ceil((len(ticks) - 1) / (most - 1)))]


def _write_names(panel: "Axes", methods: pd.DataFrame) -> None:
    """Write the names and the numbers of parameters of methods to the left of a panel."""
    names = [_wrap(name, LONGEST_METHOD) for name in methods["name"]]
    panel.set_yticks(range(len(names)), names, fontsize=FONT_POINTS, linespacing=0.9)
    panel.tick_params(axis="y", length=0, pad=NAMES_AT)
    for label, kind in zip(panel.get_yticklabels(), methods["kind"], strict=True):
        label.set_color(LOOKS[kind]["color"] if kind in ("floor", "external") else "black")
    counts = [
        EMPTY if kind == "external" else format_with_unit(trained, COUNT_UNITS)
        for trained, kind in zip(methods["trained"], methods["kind"], strict=True)
    ]
    for y, text in enumerate(["parameters", *counts], start=-1):
        look: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": SMALL_FONT_POINTS}
        look["color"] = "0.35" if y < 0 else "black"
        panel.annotate(text, (0, y), (-4, 0), panel.get_yaxis_transform(), "offset points", **look)


def _explain_marks(rows: pd.DataFrame) -> str:
    """Explain bands, bars and filled points in one line."""
    margins = " or ".join(f"{margin:g}" for margin in rows["margin"].unique())
    references = " or ".join(rows["reference"].unique())
    marks = [f"band: within {margins} of {references}", "bars: 95 % interval", "filled: 95 % sure"]
    if rows["is_partial"].any():
        marks.append(f"line: {references} on the same {rows['unit'].iloc[0]}s")
    return "   ".join(marks)


def _x_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Choose the limits of the x axis.

    The limits include the scores of all trained methods, and the ends of their intervals unless
    these are far from the scores. They exclude baselines and external predictions with much lower
    scores, because the differences between trained methods would otherwise be invisible.
    """
    margin, centre = rows[["margin", "centre"]].iloc[0]
    methods = rows.loc[rows["kind"].isin(["method", "reference"]), "score"]
    low = min([*methods, centre - 1.5 * margin])
    high = max([*methods, centre + 0.5 * margin])
    span = high - low
    near = rows.loc[rows["score"] >= low - span, "score"]
    low, high = min([low, *near]), max([high, *near])
    highest = rows["reference_score"] + rows["high"]
    # In built-in metrics, no score is higher than 1, although an interval may end above.
    if not is_scorer(rows["metric"].iloc[0]):
        highest = highest.clip(upper=max(1, high))
    ends = (rows["reference_score"] + rows["low"]).dropna(), highest.dropna()
    low = min(low, max(low - 0.4 * span, ends[0].min())) if len(ends[0]) else low
    high = max(high, min(high + 0.4 * span, ends[1].max())) if len(ends[1]) else high
    space = 0.05 * (high - low)
    return low - space, high + space
