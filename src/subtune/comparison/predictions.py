"""Reads and checks the external predictions that a user passes to `compare`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from subtune.comparison.user_table import make_name, read_user_table
from subtune.core.errors import SubtuneError, shorten
from subtune.data.cells import cell_text
from subtune.data.predictions import find_prediction_columns, parse_predictions
from subtune.data.table_files import is_file
from subtune.methods import is_built_in
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import Cells, PlacedRow, pair_with_places


class CheckedPredictions(NamedTuple):
    """The predictions of an external system.

    Attributes:
        system: the name of the system, derived from the name of its file, column or Series.
        rows: for each row of the table, a mapping with the single key ``prediction``, or from each
            label to its probability.
    """

    system: str
    rows: list[Cells]


def list_predictions(given: Any, columns: Collection[str]) -> list[Any]:
    """Split the option ``predictions`` into one argument of `check_predictions` for each system.

    A list of files, column names, tables or lists stands for several systems. A list of labels or
    numbers contains the predictions of a single system.

    Args:
        columns: the names of the columns of the table.
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


def check_predictions(
    predictions: Any,
    rows: Sequence[PlacedRow],
    task: TaskSpec,
    taken: Collection[str] = (),
) -> CheckedPredictions:
    """Read and check the predictions of one system for the rows of a table.

    Args:
        predictions: the name of a column of the table; or the names of columns with probabilities,
            separated by commas, in the order of the labels; or a file, DataFrame, Series or list
            with one prediction for each row of the table.
        taken: the names of other systems, which this system cannot have.

    Raises:
        SubtuneError: the numbers of predictions and rows differ, the predictions have no suitable
            column, or a prediction is missing or does not fit the task.
    """
    columns = predictions.split(",") if isinstance(predictions, str) else []
    if columns and {*columns} <= {*rows[0][1]}:
        name, source, table = predictions, "the table", rows
    else:
        name, source, table = _read_rows(predictions)
        columns = find_prediction_columns([*table[0][1]], task.labels, source)
        if len(table) != len(rows):
            expected = f"expected {len(rows):,}, one for each row of the table"
            raise SubtuneError(f"{source}: found {len(table):,} rows, {expected}")
    parse_predictions(task, table, columns, source)
    system = make_name(name, taken, "predictions")
    if is_built_in(system):
        system += "-predictions"
    # The columns of the written file have standard names, which may differ from the user's names.
    names = ["prediction"] if len(columns) == 1 else task.labels or ()
    named = [*zip(names, columns, strict=True)]
    return CheckedPredictions(system, [{n: row[c] for n, c in named} for _, row in table])


def _read_rows(predictions: Any) -> tuple[str, str, list[PlacedRow]]:
    """Return a system's name, the name of its source for error messages, and its predictions."""
    if isinstance(predictions, str | Path):
        if not is_file(predictions):
            raise SubtuneError(
                f"--predictions: found {shorten(str(predictions))!r}, expected a file or a column"
            )
        return Path(predictions).stem, str(predictions), read_user_table(Path(predictions)).rows
    name = getattr(predictions, "name", None) or "predictions"
    frame = pd.DataFrame(predictions) if hasattr(predictions, "columns") else None
    if frame is None:
        frame = pd.DataFrame({"prediction": [*predictions]})
    cells = ({str(c): cell_text(v) for c, v in row.items()} for row in frame.to_dict("records"))
    return str(name), "--predictions", [*pair_with_places(cells)]
