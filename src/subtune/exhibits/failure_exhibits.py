"""Tables and figures about the errors of methods, and about the gain from more labels."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from subtune.analysis.failures import LARGEST_HALF_WIDTH, RATIO
from subtune.core.errors import shorten
from subtune.exhibits.output import (
    COLOURS,
    EMPTY,
    NARROW,
    WIDTH,
    ExperimentResults,
    Figure,
    Needs,
    StyledTable,
    Table,
    escape_markdown,
    format_number,
    new_panels,
)

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

# The maximum number of rows of a table in the report. The CSV file contains all rows.
MOST_SHOWN = 20
# The maximum length, in characters, of a text in a table and of a label in a figure.
LONGEST_TEXT, LONGEST_LABEL = 160, 18
# A confusion matrix has at most `MOST_IN_MATRIX` labels. If there are more, bars show the
# `MOST_CONFUSIONS` most frequent confusions. Cells contain numbers if the matrix has at most
# `MOST_WITH_NUMBERS` labels.
MOST_IN_MATRIX, MOST_WITH_NUMBERS, MOST_CONFUSIONS = 30, 12, 20


def classes_table(results: ExperimentResults) -> StyledTable:
    """Tabulate precision, recall and F1 of each label, or only of the labels with the lowest F1."""
    table = results["classes"]
    shown = table
    if table["label"].nunique() > MOST_SHOWN:
        shown = table.sort_values("f1", kind="stable").head(MOST_SHOWN)
    cells = {
        "task": shown["task"].map(results.task_titles),
        "method": shown["method"],
        "label": shown["label"].map(shorten),
        "rows": shown["support"],
    }
    for name, title in {"precision": "precision", "recall": "recall", "f1": "F1"}.items():
        parts = shown[[name, f"{name}_low", f"{name}_high"]].itertuples(index=False)
        cells[title] = [
            EMPTY if pd.isna(value) else f"{value:.2f} ({low:.2f} to {high:.2f})"
            for value, low, high in parts
        ]
    note = _describe_cut(shown, table, "rows with the lowest F1")
    return StyledTable(table, _drop_constant_task_column(pd.DataFrame(cells)), note=note)


CLASSES = Table(
    "classes",
    "Errors: precision, recall and F1 of each label",
    "The table lists precision, recall and F1 of each label with 95 % Wilson intervals, for the "
    "method that the answer names and for full fine-tuning. The column 'rows' is the number of "
    "examples with the label. Only examples on which a run was not trained are counted. With "
    "several seeds, counts are averaged over seeds.",
    make=classes_table,
    needs=Needs(tables=("classes",)),
)


def suspect_labels_table(results: ExperimentResults) -> StyledTable:
    """Tabulate the examples whose labels may be wrong, the most suspicious first."""
    table = results["suspects"]
    shown = table.groupby("task", sort=False).head(MOST_SHOWN)
    cells = shown.assign(task=shown["task"].map(results.task_titles))
    for name in cells.columns:
        if cells[name].dtype == float:
            cells[name] = [format_number(value, ".3g") for value in cells[name]]
        elif cells[name].dtype == object or name in ("text", "second text"):
            cells[name] = [shorten(str(text), LONGEST_TEXT) for text in cells[name]]
    note = _describe_cut(shown, table, "most suspect rows")
    return StyledTable(table, _drop_constant_task_column(cells), note=note, wide={"text": 0.5})


SUSPECTS = Table(
    "suspects",
    "Errors: rows whose label may be wrong",
    "The labels of these rows may be wrong, so check them first. The column 'probability' is the "
    "predicted probability of the given label (mean over seeds), from the method that the answer "
    "names. The runs were not trained on these rows. Each label has a threshold: its mean "
    "predicted probability over the rows with that label. A row is listed if at least one label "
    "reaches its threshold, and its label is neither the most probable label nor the most probable "
    "of those that reach their thresholds (confident learning). The least probable labels come "
    "first. If labels are numbers, the largest residuals "
    "(prediction minus label) come first. The column 'row' is the row's line in a text file, or "
    "its number in another table.",
    make=suspect_labels_table,
    needs=Needs(tables=("suspects",)),
)


def more_labels_table(results: ExperimentResults) -> StyledTable:
    """Tabulate scores by training set size, and the gain from doubling the training set."""
    table = results["more_labels"]
    sentences, shown = [], []
    for (task, method), rows in table.groupby(["task", "method"], sort=False):
        gain, low, high = rows[["gain", "low", "high"]].iloc[-1]
        scores = zip(rows["train_rows"], rows["score"], strict=True)
        cells = {"task": results.task_titles[str(task)], "method": method}
        cells |= {f"{number:,} rows": f"{score:.3f}" for number, score in scores}
        # With the option z, -0.00 becomes 0.00.
        about, interval = f"{gain:z.2f}", f"({low:z.2f} to {high:z.2f})"
        if high - low <= 2 * LARGEST_HALF_WIDTH:
            name = str(method)
            of_task = f" on {results.task_titles[str(task)]}" if table["task"].nunique() > 1 else ""
            name = name if name.isupper() or name[1:].lower() != name[1:] else name.lower()
            sentences.append(
                f"* Twice as many examples would add about {about} to the score of "
                f"{escape_markdown(name)}{of_task} {interval}."
            )
        shown.append(cells | {"twice as many add": f"{about} {interval}"})
    numbers = sorted({*table["train_rows"]})
    columns = ["task", "method", *(f"{n:,} rows" for n in numbers), "twice as many add"]
    cells = pd.DataFrame(shown)[columns]
    return StyledTable(table, _drop_constant_task_column(cells), before="\n".join(sentences))


MORE_LABELS = Table(
    "more_labels",
    "Would more labels help?",
    "For methods that were trained on training sets of several sizes, the table lists the score "
    "for each number of training examples. The last column estimates the gain from doubling the "
    "largest training set, with a 95 % interval over examples and over seeds or folds. Each "
    f"doubling is assumed to gain {RATIO:g} times as much as the previous one. The estimate is "
    f"also given as a sentence, unless its interval is wider than ±{LARGEST_HALF_WIDTH:g}.",
    make=more_labels_table,
    needs=Needs(tables=("more_labels",)),
)


def _describe_cut(shown: pd.DataFrame, table: pd.DataFrame, rows: str) -> str:
    """Say which rows of a table are shown. If all rows are shown, return an empty string."""
    text = f"The table shows the {len(shown):,} {rows}, out of {len(table):,}."
    return text if len(shown) < len(table) else ""


def _drop_constant_task_column(cells: pd.DataFrame) -> pd.DataFrame:
    return cells if cells["task"].nunique() > 1 else cells.drop(columns="task")


def draw_confusion(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw a confusion matrix, or the most frequent confusions, for each task and method."""
    return _draw_panels(results, results["confusion"], _draw_confusions)


CONFUSION = Figure(
    "confusion",
    "Errors: confusion matrix",
    "The cells show the number of examples for each pair of label and prediction. The run was not "
    "trained on these examples. The shade shows the share of the examples with the same label. "
    f"With more than {MOST_IN_MATRIX} labels, bars show the most frequent confusions.",
    make=draw_confusion,
    needs=Needs(tables=("confusion",)),
)


def _draw_panels(
    results: ExperimentResults, table: pd.DataFrame, draw: Callable[["Axes", pd.DataFrame], None]
) -> "matplotlib.figure.Figure":
    groups = [*table.groupby(["task", "method"], sort=False)]
    figure, panels = new_panels(len(groups), NARROW if len(groups) == 1 else WIDTH, 0.7, 2)
    for panel, ((task, method), rows) in zip(panels, groups, strict=True):
        draw(panel, rows)
        several = table["task"].nunique() > 1
        panel.set_title(f"{results.task_titles[task]}, {method}" if several else method)
    return figure


def _draw_confusions(panel: "Axes", counts: pd.DataFrame) -> None:
    if counts["label"].nunique() > MOST_IN_MATRIX:
        _draw_most_frequent(panel, counts)
        return
    labels = [*counts["label"].unique()]
    matrix = counts["rows"].to_numpy().reshape(len(labels), -1)
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1e-9)
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    names = [shorten(str(label), LONGEST_LABEL) for label in labels]
    small = len(labels) > MOST_WITH_NUMBERS
    panel.set_xticks(range(len(labels)), names, rotation=90, fontsize=4 if small else 6)
    panel.set_yticks(range(len(labels)), names, fontsize=4 if small else 6)
    panel.set(xlabel="prediction", ylabel="label")
    for (row, column), share in np.ndenumerate(shares):
        if not small:
            colour = "white" if share > 0.5 else "black"
            number = f"{matrix[row, column]:,.0f}"
            panel.text(column, row, number, ha="center", va="center", color=colour, fontsize=6)


def _draw_most_frequent(panel: "Axes", counts: pd.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    wrong = counts[(counts["label"] != counts["prediction"]) & (counts["rows"] > 0)]
    most = wrong.nlargest(MOST_CONFUSIONS, "rows")
    names = [
        f"{shorten(str(label), LONGEST_LABEL)} → {shorten(str(prediction), LONGEST_LABEL)}"
        for label, prediction in zip(most["label"], most["prediction"], strict=True)
    ]
    panel.barh(range(len(most)), most["rows"], color=COLOURS[0])
    panel.set_yticks(range(len(most)), names, fontsize=5)
    panel.invert_yaxis()
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("examples: label → prediction")


def draw_predictions_against_labels(results: ExperimentResults) -> "matplotlib.figure.Figure":
    """Draw the predictions of a regression against its labels, one panel per task and method."""
    return _draw_panels(results, results["predicted"], _draw_points)


PREDICTED = Figure(
    "predicted",
    "Errors: predictions and labels",
    "The plots show predictions against labels, for the method that the answer names and for full "
    "fine-tuning. The runs were not trained on these examples. On the line, predictions equal "
    "labels.",
    make=draw_predictions_against_labels,
    needs=Needs(tables=("predicted",)),
)


def _draw_points(panel: "Axes", rows: pd.DataFrame) -> None:
    # Correct predictions lie on this line.
    panel.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=1)
    panel.scatter(rows["label"], rows["prediction"], s=4, alpha=0.5, linewidths=0, zorder=2)
    panel.set(xlabel="label", ylabel="prediction")
