"""Predictions that a user passes to `compare`, checked and as columns of the table."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from subtune.comparison.user_table import make_name, read_user_table
from subtune.core.errors import SubtuneError, cut, listed
from subtune.data.cells import cell_text
from subtune.data.predictions import parse_predictions
from subtune.data.table_files import is_file
from subtune.methods import is_built_in
from subtune.tasks import TaskSpec
from subtune.tasks.task import KINDS
from subtune.tasks.task_kind import PlacedRow, number_rows

# Usual names of a column with predictions, and beginnings of a column's name before its label.
USUAL = ("prediction", "predictions", "predicted", "pred", "answer", "output", "label", "score")
BEFORE_LABEL = ("", "probability_", "prob_", "p_")


class JoinedPredictions(NamedTuple):
    """A system's predictions.

    Attributes:
        system: the system's name, which is that of its file, column or Series.
        columns: the columns with its predictions, for the setting `predictions` of a task.
        cells: those of these columns that the table lacks, each with a cell for each row.
    """

    system: str
    columns: tuple[str, ...]
    cells: dict[str, list[Any]]


def list_predictions(given: Any, columns: Collection[str]) -> list[Any]:
    """Return the systems whose predictions a user brings, each as `join_predictions` takes it.

    A list of files and names of ``columns`` is several systems; any other list is predictions.
    """
    if given is None:
        return []
    is_list = isinstance(given, list | tuple)
    if is_list and not all(isinstance(one, str) for one in given):
        are_values = all(isinstance(one, int | float | str) for one in given)
        return [given] if are_values else [*given]

    def is_system(one: str) -> bool:
        return {*one.split(",")} <= {*columns} or is_file(one) or bool(Path(one).suffix)

    if is_list and all(map(is_system, given)):
        return [*given]
    return [given]


def join_predictions(
    predictions: Any,
    rows: Sequence[PlacedRow],
    kind: str,
    labels: Sequence[str] | None,
    taken: Collection[str] = (),
) -> JoinedPredictions:
    """Return a system's predictions as columns for a table.

    Args:
        predictions: the name of a column of the table, or of several between commas; a file, or a
            DataFrame, with a row for each row of the table; a Series or a list.
        rows: the rows of the table.
        kind: the kind of task.
        labels: the label words in order; None for numbers.
        taken: the names of other systems.

    Raises:
        SubtuneError: the number of rows differs, no column is known to have predictions, or a row
            has no prediction of the task.
    """
    known = [*rows[0][1]]
    columns = predictions.split(",") if isinstance(predictions, str) else ()
    is_own = bool(columns) and {*columns} <= {*known}
    name, source, table = predictions, "the table", rows
    if not is_own:
        name, source, table = _read_rows(predictions)
        columns = _find_columns([*table[0][1]], labels, source)
        if len(table) != len(rows):
            expected = f"expected {len(rows):,}, one for each row of the table"
            raise SubtuneError(f"{source}: found {len(table):,} rows, {expected}")
    metric, words = KINDS[kind].metrics[0], tuple(labels) if labels else None
    task = TaskSpec(name=name, text=("text",), labels=words, kind=kind, metrics=(metric,))
    parse_predictions(task, table, columns, source)
    system = make_name(name, taken, "predictions")
    if is_built_in(system):
        system += "-predictions"
    if is_own:
        return JoinedPredictions(system, tuple(columns), {})
    # Files of several systems have columns of the same name.
    cells = {f"{system} {column}": [row[column] for _, row in table] for column in columns}
    return JoinedPredictions(system, tuple(cells), cells)


def _read_rows(predictions: Any) -> tuple[str, str, list[PlacedRow]]:
    """Return the name of a system, the beginning of messages, and its rows."""
    if isinstance(predictions, str | Path):
        if not is_file(predictions):
            raise SubtuneError(
                f"--predictions: found no file or column {cut(str(predictions))!r}, expected one"
            )
        return Path(predictions).stem, str(predictions), read_user_table(Path(predictions)).rows
    name = getattr(predictions, "name", None) or "predictions"
    frame = pd.DataFrame(predictions) if hasattr(predictions, "columns") else None
    if frame is None:
        frame = pd.DataFrame({"prediction": [*predictions]})
    cells = ({str(c): cell_text(v) for c, v in row.items()} for row in frame.to_dict("records"))
    return str(name), "--predictions", [*number_rows(cells)]


def _find_columns(columns: Sequence[str], labels: Sequence[str] | None, source: str) -> list[str]:
    """Return the usual column of predictions, or one for each label, or the only column."""
    for name in USUAL:
        for column in columns:
            if column.strip().casefold() == name:
                return [column]
    for before in BEFORE_LABEL if labels else ():
        named = [f"{before}{label}" for label in labels or ()]
        if {*named} <= {*columns}:
            return named
    if len(columns) == 1:
        return [*columns]
    raise SubtuneError(
        f"{source}: found columns {listed(columns)}, expected one named {USUAL[0]!r}"
        + (", or one for each label" if labels else "")
    )
