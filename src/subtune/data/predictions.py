"""Predictions that a user brings for a task's rows: an LLM's, an old system's, an annotator's.

A system's predictions are one column with a label, several labels or a number in each row, or one
column for each label with its probability. They take the form of logits, so that metrics read them
as they read a run's.

Shapes: ``n`` rows, ``o`` outputs of the task.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from subtune.core.errors import SubtuneError, one_of, shown
from subtune.data.sources import task_reader
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import Regression, parse_labels, plain_label
from subtune.tasks.task_kind import Cells, PlacedRow

# A label of a multi-label task is predicted if its probability is higher.
THRESHOLD = 0.5


def read_predictions(
    task: TaskSpec, path: Path, systems: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
    """Return the predictions of several systems for the labelled rows of a file, each ``[n, o]``.

    Args:
        task: the task, whose reader leaves out the same rows as for training.
        path: the file.
        systems: each system's columns, as in `parse_predictions`.

    Raises:
        SubtuneError: the file lacks a column, or a row has no prediction of the task.
    """
    rows = [*task_reader(task).read(task, path, True)]
    return {
        system: parse_predictions(task, rows, columns, str(path))
        for system, columns in systems.items()
    }


def parse_predictions(
    task: TaskSpec, rows: Sequence[PlacedRow], columns: Sequence[str], source: str
) -> np.ndarray:
    """Return the predictions in some columns of rows, ``[n, o]``.

    Args:
        task: the task.
        rows: cells with their places.
        columns: the column with labels or numbers, or a column for each label with probabilities.
        source: the beginning of messages, such as a file.

    Raises:
        SubtuneError: a row lacks a column, or has no prediction of the task.
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
                raise SubtuneError(f"{source}: {where}: no such column: {one_of(name, row)}")
        if len(columns) > 1:
            place = f"{source}: {where}"
            found.append([_probability(row[name], f"{place}: {name}") for name in columns])
        else:
            found.append(_outputs(task, row, columns[0], f"{source}: {where}"))
    # Metrics count a label of a multi-label task as predicted if its logit is above 0.
    return np.array(found, float) - (THRESHOLD if task.labels else 0)


def _outputs(task: TaskSpec, row: Cells, column: str, place: str) -> list[float]:
    """Return the number in a cell, or 1 for each label in it and 0 for each other label."""
    cell = "" if row[column] is None else row[column]
    several = task.of_kind.has_label_columns
    if not several and not str(cell).strip():
        raise SubtuneError(f"{place}: {column}: found nothing, expected a prediction in each row")
    if task.labels is None:
        return [Regression().read_label(task.replaced(label=column), row, place)]
    words = parse_labels(cell) if several else [cell]
    if words is None:
        raise SubtuneError(f"{place}: {column}: found {shown(cell)}, expected a list of labels")
    # Numbers of labels, which tables may have, are not accepted: nobody sees the order they mean.
    predicted, known = {plain_label(str(word)) for word in words}, [*map(plain_label, task.labels)]
    if unknown := sorted(predicted.difference(known)):
        raise SubtuneError(f"{place}: {column}: {one_of(unknown[0], task.labels)}")
    return [float(label in predicted) for label in known]


def _probability(cell: object, place: str) -> float:
    try:
        number = float(str(cell))
    except ValueError:
        number = -1
    if not 0 <= number <= 1:
        raise SubtuneError(f"{place}: found {shown(cell)}, expected a probability from 0 to 1")
    return number
