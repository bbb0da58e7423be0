"""External predictions, such as those of an LLM, an older system or an annotator.

Predictions are converted to logits, so that they are scored like the predictions of a run. Shapes:
``n`` rows, ``o`` outputs of the task.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
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
from subtune.methods.baselines import SMALLEST_PROBABILITY
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import Regression, parse_labels, parse_number, plain_label
from subtune.tasks.task_kind import Cells, PlacedRow

# A label of a multi-label task is predicted if its probability is above this threshold.
THRESHOLD = 0.5
# Names of the column with predictions, and other usual names, which may also be names of labels.
PREDICTION_NAMES = ("prediction", "predictions", "predicted", "pred")
OTHER_NAMES = ("answer", "output", "label", "score")
# Names of columns that number the rows.
ROW_NUMBERS = ("", "id", "idx", "index", "row")
# Usual prefixes of columns with probabilities.
BEFORE_LABEL = ("probability_", "prob_", "p_")


def read_external_predictions(
    task: TaskSpec,
    path: Path,
    systems: Mapping[str, str],
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, np.ndarray]:
    """Read the predictions ``[n, o]`` of each system for the labelled rows of a file, by system.

    Args:
        path: the file with labelled rows. Rows that the task's reader skips need no predictions.
        systems: maps the name of each system to the file with its predictions.
        say: is called with a line about the columns of each system.
    """
    labelled = [*task_reader(task).read(task, path, True)]
    found = {}
    for system, file in systems.items():
        rows = read_prediction_rows(task, Path(file), len(labelled))
        columns = find_prediction_columns(task, rows, labelled, file, f"labelled row of {path}")
        say(format_columns_read(system, columns, file))
        found[system] = parse_predictions(task, rows, columns, file)
    return found


def format_columns_read(system: str, columns: Sequence[str], source: str) -> str:
    """Format a line that names the columns that were read as predictions."""
    noun = "column" if len(columns) == 1 else "columns"
    place = "the given values" if source.startswith("--") else source
    return f"predictions {system}: {noun} {join_names(columns)} of {place}"


def read_prediction_rows(task: TaskSpec, path: Path, number: int) -> list[PlacedRow]:
    """Read the rows of a file with predictions, without empty rows after the first ``number`` rows.

    In multi-label tasks, other empty rows mean that no label is predicted. In other tasks, they are
    left out if there are too many rows.
    """
    rows = [*read_rows(path, keep_empty=True)]
    filled = [any(cell is not None for cell in row.values()) for _, row in rows]
    while len(rows) > number and not filled[len(rows) - 1]:
        del rows[-1]
    if len(rows) > number and not task.of_kind.has_label_columns:
        return [*compress(rows, filled)]
    return rows


def find_prediction_columns(
    task: TaskSpec,
    rows: Sequence[PlacedRow],
    labelled: Sequence[PlacedRow],
    source: str,
    one_row: str,
) -> list[str]:
    """Check that each row of the task has a prediction, and find the columns with predictions.

    The first match is returned: columns of probabilities with a prefix in `BEFORE_LABEL`, a column
    with a name in `PREDICTION_NAMES`, columns named like the labels, a column with a name in
    `OTHER_NAMES`, or the only column. Columns of the task, and other columns with the labels of all
    rows, are not predictions, unless there is no other column.

    Args:
        rows: the rows with predictions.
        labelled: the rows of the task, in the same order.
        source: the beginning of error messages, such as the path of a file.
        one_row: the description of a row of ``labelled`` in an error message.
    """
    if len(rows) != len(labelled):
        expected = f"expected {len(labelled):,}, one for each {one_row}"
        raise SubtuneError(f"{source}: found {len(rows):,} rows, {expected}")
    columns, labels = [*dict.fromkeys(name for _, row in rows for name in row)], task.labels or ()
    for name in sorted({*columns}.difference(task.label_columns)):
        given, wanted = ([str(row.get(name)) for _, row in part] for part in (rows, labelled))
        # A column with few distinct cells, such as a class, does not identify rows.
        tells_apart = 2 * len({*wanted}) > len(wanted)
        if tells_apart and given != wanted and sorted(given) == sorted(wanted):
            raise SubtuneError(
                f"{source}: column {name!r} has the same cells as the table, but in a different "
                "order; sort the predictions in the order of the table's rows"
            )
    own = {*task.text, *task.label_columns}.difference(PREDICTION_NAMES)
    by_folded = {column.strip().casefold(): column for column in reversed(columns)}
    named = [[f"{before}{label}" for label in labels] for before in BEFORE_LABEL if labels]
    named = [names for names in named if own.isdisjoint(names)]
    named += [[by_folded[name]] for name in PREDICTION_NAMES if name in by_folded]
    for names in named:
        if {*names} <= {*columns}:
            return names
    if labels and {*labels} <= {*columns}:
        if not _are_labels(task, rows, labelled, labels):
            return [*labels]
        own |= {*labels}
    if columns == [task.label]:
        own.clear()
    others = [name for name in columns if name not in own and name.casefold() not in ROW_NUMBERS]
    if len(others) > 1 or columns == [task.label]:
        others = [name for name in others if not _are_labels(task, rows, labelled, [name])]
    usual = [by_folded[name] for name in OTHER_NAMES if by_folded.get(name) in others]
    if usual or len(others) == 1:
        return (usual or others)[:1]
    hint = ""
    if used := [name for name in columns if name not in others and name not in ROW_NUMBERS]:
        hint = f"; texts and labels of the task, such as {join_names(used)}, are not predictions"
    expected = (
        f"one named {PREDICTION_NAMES[0]!r}{', or one for each label' if labels else ''}{hint}"
    )
    raise SubtuneError(f"{source}: found columns {join_names(columns)}, expected {expected}")


def _are_labels(
    task: TaskSpec, rows: Sequence[PlacedRow], labelled: Sequence[PlacedRow], columns: Sequence[str]
) -> bool:
    """Return whether columns of a prediction file contain the labels of all labelled rows."""
    has_label = [any(row.get(name) for name in task.label_columns) for _, row in labelled]
    with contextlib.suppress(SubtuneError):
        predicted, expected = (
            parse_predictions(task, [*compress(table, has_label)], names, "")
            for table, names in ((rows, columns), (labelled, task.label_columns))
        )
        return np.array_equal(predicted, expected)
    return False


def parse_predictions(
    task: TaskSpec, rows: Sequence[PlacedRow], columns: Sequence[str], source: str
) -> np.ndarray:
    """Convert a column of labels or numbers, or columns of probabilities, to logits ``[n, o]``."""
    if len(columns) not in (1, task.outputs):
        expected = f"one, or one for each of {task.outputs} labels" if task.labels else "one"
        raise SubtuneError(
            f"{source}: found {len(columns)} columns of predictions, expected {expected}"
        )
    found = []
    for where, row in rows:
        place = f"{source}: {where}"
        if lacking := [name for name in columns if name not in row]:
            raise SubtuneError(f"{place}: {format_missing_column(lacking[0], row)}")
        if len(columns) > 1:
            found.append([_parse_probability(row[name], f"{place}: {name}") for name in columns])
        else:
            found.append(_parse_prediction(task, row, columns[0], place))
    predicted = np.array(found, float)
    if task.labels is None:
        return predicted
    # In multi-label tasks, metrics count a label as predicted if its logit is above 0.
    several = task.of_kind.has_label_columns
    return predicted - THRESHOLD if several else np.log(np.maximum(predicted, SMALLEST_PROBABILITY))


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
    number = parse_number(str(cell))
    if number is None or not 0 <= number <= 1:
        raise SubtuneError(f"{place}: found {quote(cell)}, expected a probability from 0 to 1")
    return number
