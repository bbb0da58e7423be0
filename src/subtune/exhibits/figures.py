"""Draw curves of scores, heat maps of changes, and reproduced scores against printed scores."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from subtune.analysis.chosen_runs import best_of_seeds
from subtune.exhibits.output import (
    COLOURS,
    EMPTY,
    MARKERS,
    NARROW,
    WIDTH,
    ExperimentResults,
    Figure,
    Needs,
    empty_figure,
    new_figure,
    new_panels,
)
from subtune.exhibits.score_tables import AVERAGE
from subtune.methods import method_title
from subtune.tasks.metrics import metric_title

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

LINE_STYLES = ("-", "--", ":", "-.")
# The colours of BitFit's published code. The largest value is the darkest.
COLOUR_MAP = "Blues"
PRINTED_KEYS = ["split", "model", "method", "task"]
SPLITS = ("validation", "test")
SEVERAL_SEEDS = "± one standard deviation over seeds, if there are several"


def draw_learning_curves(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw the dev score against the epoch: a panel per task and model, and a line per method."""
    from matplotlib.ticker import MaxNLocator

    runs = best_of_seeds(results["chosen"])[["model", "task", "method", "run"]]
    curves = runs.merge(results["learning_curves"], on="run")
    figure, panels = _label_panels(curves, ["model", "task"], results.task_titles, narrow=False)
    for panel, lines in panels:
        for number, method in enumerate(curves["method"].unique()):
            line = lines[lines["method"] == method]
            look = {**_line_style(number), "marker": "."}
            panel.plot(line["epoch"], line["score"], label=method_title(method), **look)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.supxlabel("epoch")
    draw_legend_above(figure, panels[0][0], columns=4)
    return figure


LEARNING_CURVES = Figure(
    "learning_curves",
    "Learning curves",
    "The curves show the dev score after each epoch, for the best learning rate and seed of each "
    "method. If a run diverged in an epoch, its curve ends there.",
    make=draw_learning_curves,
)


def draw_scores_by_size(
    results: ExperimentResults, metric: str | None = None, methods: Sequence[str] | None = None
) -> "matplotlib.figure.Figure":
    """Draw the dev score against the training set size, with one line per method.

    There is one panel per model, task and score column. The x axis is logarithmic. A line shows the
    mean over seeds, with a band of one standard deviation on each side. It has a gap where a run
    diverged. The default metric is the one by which the task's runs are chosen.
    """
    sizes = results["sizes"]
    deciding_metric = sizes[sizes["decides"]].groupby("task")["metric"].first()
    shown = sizes[sizes["metric"] == (metric or sizes["task"].map(deciding_metric))]
    methods = [m for m in methods or shown["method"].unique() if m in set(shown["method"])]
    keys = ["model", "task", "column"]
    figure, panels = _label_panels(shown, keys, results.task_titles, narrow=True)
    for panel, scores in panels:
        for number, method in enumerate(methods):
            seeds = scores[scores["method"] == method].groupby("train_rows")["value"]
            mean = seeds.mean().where(seeds.apply(lambda values: values.notna().all()))
            marker = {"marker": MARKERS[number % len(MARKERS)], "label": method_title(method)}
            plot_with_band(panel, mean, seeds.std(), _line_style(number) | marker)
        panel.set_xscale("log")
        numbers = sorted(scores["train_rows"].unique())
        panel.set_xticks(numbers, [f"{number:,}" for number in numbers], rotation=45, ha="right")
        panel.minorticks_off()
    figure.supxlabel("training examples")
    draw_legend_above(figure, panels[0][0], columns=2 if len(panels) == 1 else 4)
    return figure


TRAINING_SIZES = Figure(
    "sizes",
    "Score against the number of training examples",
    "The lines show the dev score against the number of training examples. For each method and "
    "number, the best learning rate is used. Larger training sets contain the smaller ones. Bands "
    f"show {SEVERAL_SEEDS}. A gap in a line means that a run diverged.",
    make=draw_scores_by_size,
    needs=Needs(tables=("sizes",)),
)


def _label_panels(
    table: pd.DataFrame, keys: list[str], task_titles: Mapping[str, str], *, narrow: bool
) -> "tuple[matplotlib.figure.Figure, list[tuple[Axes, pd.DataFrame]]]":
    """Create a figure with a labelled panel for each combination of values of ``keys``.

    Panels are sorted by model, and then in the order of ``task_titles``. Each is returned with its
    rows. If ``narrow`` is true, a single panel is narrow.
    """
    models, tasks = [*table["model"].unique()], [*task_titles]
    groups = [*table.groupby(keys, sort=False)]
    groups.sort(key=lambda group: (models.index(group[0][0]), tasks.index(group[0][1])))
    width = NARROW if narrow and len(groups) == 1 else WIDTH
    figure, panels = new_panels(len(groups), width, height_of_panel=0.6)
    for panel, ((model, task, *columns), rows) in zip(panels, groups, strict=True):
        title = ", ".join([task_titles[task], *(c for c in columns if c != task)])
        label_panel(panel, title, rows["metric"].iloc[0], model if len(models) > 1 else None)
    return figure, [(panel, rows) for panel, (_, rows) in zip(panels, groups, strict=True)]


def _line_style(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
        "markersize": 3,
    }


def plot_with_band(
    panel: "Axes", mean: pd.Series, spread: pd.Series, look: Mapping[str, Any]
) -> None:
    """Draw a line and, for several seeds, a band of one standard deviation on each side."""
    panel.plot(mean.index, mean, **look)
    spread = spread.fillna(0)
    if spread.any():
        low, high = mean - spread, mean + spread
        panel.fill_between(mean.index, low, high, color=look["color"], alpha=0.2, linewidth=0)


def label_panel(panel: "Axes", title: str, metric: str, model: str | None = None) -> None:
    """Set the title and the y label of a panel, and draw its grid."""
    panel.set_title(f"{title} ({model})" if model else title)
    panel.set_ylabel(metric_title(metric), fontsize=7)
    panel.grid(color="0.9")
    panel.tick_params(labelsize=6)


def draw_legend_above(figure: "matplotlib.figure.Figure", panel: "Axes", columns: int) -> None:
    """Draw the legend of a panel above all panels."""
    handles, labels = panel.get_legend_handles_labels()
    columns = min(columns, len(labels))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)


def draw_reproduction(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw reproduced scores against printed scores, with one point per score."""
    figure = new_figure(NARROW, NARROW * 1.05)
    axes = figure.subplots()
    table = results["reproduction"]
    table = table[table["metric"] != AVERAGE]
    compared = table.dropna(subset=["ours"]).drop_duplicates([*PRINTED_KEYS, "our_model"])
    tasks = [task for task in results.column_titles if task in set(compared["task"])]
    for (number, task), split in itertools.product(enumerate(tasks), SPLITS):
        points = compared[(compared["task"] == task) & (compared["split"] == split)]
        # Colours repeat if there are many tasks. The later tasks have open markers.
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
    low = min([0.0, *compared["ours"], *compared["reported"]])
    axes.plot([low, 1], [low, 1], color="0.6", linewidth=1, zorder=0)
    axes.set_xlabel("reported score")
    models = ", ".join(compared["our_model"].dropna().unique()) or EMPTY
    axes.set_ylabel(f"reproduced score ({models})")
    drawn, cells = compared["split"].value_counts(), table.drop_duplicates(PRINTED_KEYS)["split"]
    dev, test = (f"{drawn.get(split, 0)} of the {(cells == split).sum()}" for split in SPLITS)
    with_test = f"\nand {test} test scores (half filled)" if "test" in drawn else ""
    axes.set_title(f"{dev} dev scores that the paper prints{with_test}")
    axes.set_aspect("equal")
    axes.grid(color="0.9")
    if tasks:
        axes.legend(fontsize=6, loc="upper left")
    return figure


REPRODUCTION = Figure(
    "reproduction",
    "Printed and reproduced scores",
    "The plot compares each printed score with the reproduced score, for all methods that were "
    "run. Test scores are included if the setting test_scores names a file that contains them. "
    f"Bars show {SEVERAL_SEEDS}.",
    make=draw_reproduction,
    needs=Needs(tables=("reproduction",)),
)


def draw_parameter_changes(
    results: ExperimentResults, method: str, task: str
) -> "matplotlib.figure.Figure":
    """Draw the mean |change| of each parameter (rows) in each layer (columns), and its average.

    There is one panel per model. The parameter with the largest change comes first.
    """
    changes = results["parameter_changes"]
    changes = changes[(changes["method"] == method) & (changes["task"] == task)]
    if changes.empty:
        return empty_figure()
    number_of_models = changes["model"].nunique()
    width = NARROW if number_of_models == 1 else WIDTH
    figure = new_figure(width, 0.9 + 0.2 * changes["parameter"].nunique())
    panels = figure.subplots(1, number_of_models, squeeze=False).ravel()
    by_model = changes.groupby("model", sort=False)
    for axes, (model, of_model) in zip(panels, by_model, strict=True):
        grid = of_model.pivot(index="parameter", columns="layer", values="change")
        grid = grid.rename(columns=lambda layer: layer + 1)
        grid["avg."] = grid.mean(axis=1)
        image = draw_heat_map(axes, grid.sort_values("avg.", ascending=False))
        axes.set_title(f"{method_title(method)}, {results.task_titles[task]}\n({model})")
        axes.set_xlabel("layer")
        axes.tick_params("x", rotation=0 if number_of_models == 1 else 90)
        figure.colorbar(image, ax=axes).set_label("mean |change|\n(parameter units)")
    return figure


def declare_change_heat_map(name: str, title: str, method: str, task: str) -> Figure:
    """Declare a heat map that shows how much a method changes each parameter on one task."""
    return Figure(
        name,
        title,
        "The heat map shows the mean absolute change of each bias and LayerNorm weight in each "
        "layer after fine-tuning, and its average over layers, as in the BitFit paper. Layers are "
        "numbered from 1. Colours range from the smallest to the largest change in the panel. "
        "Parameters that the method does not train are not shown.",
        make=lambda results: draw_parameter_changes(results, method, task),
        needs=Needs(methods=(method,), tables=("parameter_changes",)),
        tasks=(task,),
    )


def draw_heat_map(panel: "Axes", grid: pd.DataFrame, **colours: Any) -> "AxesImage":
    """Draw a table as a heat map, with the options ``colours`` of matplotlib's ``imshow``."""
    image = panel.imshow(grid, aspect="auto", cmap=COLOUR_MAP, **colours)
    # Only about six columns have labels, because all labels would overlap.
    number = len(grid.columns)
    positions = range(number - 1, -1, -max(1, number // 6))
    panel.set_xticks(positions, [str(grid.columns[position]) for position in positions])
    panel.set_yticks(range(len(grid)), grid.index)
    return image
