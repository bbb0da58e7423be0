"""External predictions, such as those of an LLM, an older system or an annotator.

A file of predictions has one row for each labelled row of the task. Each file has either one column
with labels or numbers, or one column of probabilities for each label. Predictions are converted to
the form of logits, so that they are scored like the predictions of a run.

Shapes: ``n`` rows, ``o`` outputs of the task.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from subtune.core.errors import (
    SubtuneError,
    format_allowed,
    format_missing_column,
    join_names,
    quote,
)
from subtune.data.sources import task_reader
from subtune.data.table_files import read_rows
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import Regression, parse_labels, plain_label
from subtune.tasks.task_kind import Cells, PlacedRow

# A label of a multi-label task is predicted if its probability is above this threshold.
THRESHOLD = 0.5
# Usual names of the column with predictions, and usual prefixes of columns with probabilities.
USUAL = ("prediction", "predictions", "predicted", "pred", "answer", "output", "label", "score")
BEFORE_LABEL = ("", "probability_", "prob_", "p_")


def read_external_predictions(
    task: TaskSpec, path: Path, systems: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Read the predictions of several systems for the labelled rows of a file.

    Args:
        task: the task. Rows that the task's reader skips need no predictions.
        path: the file with labelled rows.
        systems: maps the name of each system to the file with its predictions.

    Returns:
        A mapping from the name of each system to its predictions ``[n, o]``.

    Raises:
        SubtuneError: a file of predictions has too few rows, too many rows or no column of
            predictions, or a row has no valid prediction.
    """
    number = sum(1 for _ in task_reader(task).read(task, path, True))
    found = {}
    for system, file in systems.items():
        rows = [*read_rows(Path(file))]
        if len(rows) != number:
            raise SubtuneError(
                f"{file}: found {len(rows):,} rows, expected {number:,}, one for each labelled row "
                f"of {path}"
            )
        columns = find_prediction_columns([*rows[0][1]], task.labels, file)
        found[system] = parse_predictions(task, rows, columns, file)
    return found


def find_prediction_columns(
    columns: Sequence[str], labels: Sequence[str] | None, source: str
) -> list[str]:
    """Find the columns with predictions.

    If each label has a column of probabilities, these columns are returned. Without columns of
    probabilities, the column whose name comes first in `USUAL`, or the only column, is returned.

    Args:
        columns: the columns of a file of predictions.
        labels: the label words in order; None for regression.
        source: the beginning of error messages, such as the path of a file.

    Raises:
        SubtuneError: no column has predictions.
    """
    for before in BEFORE_LABEL if labels else ():
        named = [f"{before}{label}" for label in labels or ()]
        if {*named} <= {*columns}:
            return named
    for name in USUAL:
        for column in columns:
            if column.strip().casefold() == name:
                return [column]
    if len(columns) == 1:
        return [*columns]
    raise SubtuneError(
        f"{source}: found columns {join_names(columns)}, expected one named {USUAL[0]!r}"
        + (", or one for each label" if labels else "")
    )


def parse_predictions(
    task: TaskSpec, rows: Sequence[PlacedRow], columns: Sequence[str], source: str
) -> np.ndarray:
    """Convert the predictions in a table to the form of logits, ``[n, o]``.

    Args:
        columns: one column with labels or numbers, or a column of probabilities for each label.
        source: the beginning of error messages, such as the path of a file.

    Raises:
        SubtuneError: a row lacks a column, or has no valid prediction.
    """
    if len(columns) not in (1, task.outputs):
        expected = f"one, or one for each of {task.outputs} labels" if task.labels else "one"
        raise SubtuneError(
            f"{source}: found {len(columns)} columns of predictions, expected {expected}"
        )
    found = []
    for where, row in rows:
        for name in columns:
            if name not in row:
                raise SubtuneError(f"{source}: {where}: {format_missing_column(name, row)}")
        if len(columns) > 1:
            place = f"{source}: {where}"
            found.append([_parse_probability(row[name], f"{place}: {name}") for name in columns])
        else:
            found.append(_parse_prediction(task, row, columns[0], f"{source}: {where}"))
    # In multi-label tasks, metrics count a label as predicted if its logit is above 0.
    return np.array(found, float) - (THRESHOLD if task.labels else 0)


def _parse_prediction(task: TaskSpec, row: Cells, column: str, place: str) -> list[float]:
    """Return a list with the predicted number, or with 0 or 1 for each label word."""
    cell = "" if row[column] is None else row[column]
    several = task.of_kind.has_label_columns
    if not several and not str(cell).strip():
        raise SubtuneError(f"{place}: {column}: found an empty cell, expected a prediction")
    if task.labels is None:
        return [Regression().read_label(task.replace(label=column), row, place)]
    words = parse_labels(cell) if several else [cell]
    if words is None:
        raise SubtuneError(f"{place}: {column}: found {quote(cell)}, expected a list of labels")
    # Label numbers are not accepted, because a file does not say which label each number means.
    predicted, known = {plain_label(str(word)) for word in words}, [*map(plain_label, task.labels)]
    if unknown := sorted(predicted.difference(known)):
        raise SubtuneError(f"{place}: {column}: {format_allowed(unknown[0], task.labels)}")
    return [float(label in predicted) for label in known]


def _parse_probability(cell: object, place: str) -> float:
    try:
        number = float(str(cell))
    except ValueError:
        number = -1
    if not 0 <= number <= 1:
        raise SubtuneError(f"{place}: found {quote(cell)}, expected a probability from 0 to 1")
    return number
