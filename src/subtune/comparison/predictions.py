"""Read and check the external predictions that a user passes to `compare`."""

import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_scalar

from subtune.comparison.splits import dataframe_to_cells, is_table, to_frame
from subtune.comparison.user_table import UserTable, make_name
from subtune.core.errors import SubtuneError, format_allowed, join_names, shorten
from subtune.core.files import Layout
from subtune.data.predictions import (
    find_prediction_columns,
    format_columns_read,
    parse_predictions,
    read_prediction_rows,
)
from subtune.data.table_files import FORMATS, is_file, write_rows
from subtune.methods import is_method
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import Cells, PlacedRow, pair_with_places

# The types of a row's predictions if it has several labels or probabilities.
LISTS = (list, tuple, set, np.ndarray)


def read_predictions(given: Any, table: UserTable, task: TaskSpec) -> dict[str, dict[str, Cells]]:
    """Read the option ``predictions``: the predictions of external systems for all rows of a table.

    The result maps the name of each system to a dict, which maps the place of each row to its
    predictions: a dict with the single key ``prediction``, or from each label to its probability.
    """
    found = dict[str, dict[str, Cells]]()
    for name, one in split_predictions(given, table, task):
        system, predicted = check_predictions(one, table.rows, task, [*found], name)
        found[system] = dict(zip((place for place, _ in table.rows), predicted, strict=True))
    return found


def write_predictions(
    predictions: Mapping[str, Mapping[str, Cells]], places: Collection[str], results: str
) -> dict[str, str]:
    """Write predictions to files: those for the rows in ``places``, and separately all of them."""
    layout, files = Layout(results), dict[str, str]()
    shutil.rmtree(layout.given_predictions(), ignore_errors=True)
    for system, cells in predictions.items():
        by_folder = {layout.given_predictions(): cells, layout.predictions(): places}
        for folder, chosen in by_folder.items():
            files[system] = str(Path(folder, f"{system}.jsonl"))
            write_rows(Path(files[system]), ((place, cells[place]) for place in chosen))
    return files


def split_predictions(given: Any, table: UserTable, task: TaskSpec) -> list[tuple[str | None, Any]]:
    """Split the option ``predictions`` by system, into names (if any) and predictions.

    A dict maps the names of systems to their predictions. A list of files, column names, tables or
    lists stands for several systems. A list of labels or numbers, or of one list for each row of
    the table, contains the predictions of a single system.
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        has_probabilities = {*map(str, given)} == {*(task.labels or ())}
        return [(None, pd.DataFrame(given))] if has_probabilities else [*given.items()]

    def is_system(one: Any) -> bool:
        if not isinstance(one, str):
            return not is_scalar(one)
        return {*one.split(",")} <= {*table.columns} or is_file(one) or bool(Path(one).suffix)

    if isinstance(given, list | tuple) and all(map(is_system, given)):
        are_rows = len(given) == len(table.rows) and all(isinstance(one, LISTS) for one in given)
        return [(None, given)] if are_rows else [(None, one) for one in given]
    return [(None, given)]


def check_predictions(
    predictions: Any,
    rows: Sequence[PlacedRow],
    task: TaskSpec,
    taken: Collection[str] = (),
    name: str | None = None,
) -> tuple[str, list[Cells]]:
    """Read and check the predictions of one system for the rows of a table.

    A line on stderr says which columns were read.

    Args:
        predictions: the name of a column of the table; or the names of columns with probabilities,
            separated by commas, in the order of the labels; or a file, table, Series, list or array
            with one prediction for each row of the table. The columns of a two-dimensional array
            are the probabilities of the labels.
        taken: the names of other systems, which cannot be used again.
        name: the name of the system; default: derived from the predictions.

    Returns:
        The name of the system, and the predictions of each row, as in `read_predictions`.

    Raises:
        SubtuneError: the numbers of predictions and rows differ, the predictions have no suitable
            column, or a prediction is missing or does not fit the task.
    """
    columns = predictions.split(",") if isinstance(predictions, str) else []
    if columns and {*columns} <= {*rows[0][1]}:
        own_name, source, table = predictions, "the table", rows
        if used := {*columns}.intersection([*task.text, *task.label_columns]):
            raise SubtuneError(
                f"--predictions: found {join_names(sorted(used))}, a text or label column "
                "of the table, expected a column of predictions"
            )
    else:
        own_name, source, table = _read_system(predictions, task, len(rows))
        columns = find_prediction_columns(task, table, rows, source, "row of the table")
    parse_predictions(task, table, columns, source)
    system = make_name(own_name if name is None else str(name), taken, "predictions")
    if is_method(system, {}):
        system += "-predictions"
    print(format_columns_read(system, columns, source), file=sys.stderr)
    # The columns of the written file have standard names, which may differ from the user's names.
    names = ["prediction"] if len(columns) == 1 else task.labels or ()
    named = [*zip(names, columns, strict=True)]
    return system, [{n: row[c] for n, c in named} for _, row in table]


def _read_system(predictions: Any, task: TaskSpec, number: int) -> tuple[str, str, list[PlacedRow]]:
    """Return a system's name, the name of its source for error messages, and its predictions."""
    if isinstance(predictions, str | Path):
        path = Path(predictions)
        if not is_file(path):
            raise SubtuneError(
                f"--predictions: found {shorten(str(path))!r}, expected a file or a column"
            )
        if path.suffix.lower() not in FORMATS:
            raise SubtuneError(f"{path}: extension: {format_allowed(path.suffix, FORMATS)}")
        return path.stem, str(path), read_prediction_rows(task, path, number)
    name, source = "predictions", "--predictions"
    if is_table(predictions):
        frame = to_frame(predictions, source)
    else:
        name = str(getattr(predictions, "name", None) or name)
        is_matrix = getattr(predictions, "ndim", 1) == 2
        if hasattr(predictions, "__array__"):
            predictions = np.asarray(predictions).tolist()
        cells = [[*cell] if isinstance(cell, LISTS) else cell for cell in predictions]
        values = [value for cell in cells if isinstance(cell, list) for value in cell]
        is_matrix |= any(isinstance(value, Real) and value % 1 for value in values)
        if not is_matrix and (task.of_kind.has_label_columns or not values):
            cells = [[cell] for cell in cells]
        frame = pd.DataFrame(cells, dtype=object)
        names = {task.outputs: task.labels, 1: ["prediction"]}
        frame.columns = pd.Index(names.get(frame.shape[1]) or frame.columns)
    return name, source, [*pair_with_places(dataframe_to_cells(frame))]
