"""Tables in CSV, TSV, JSON, Excel and Parquet files.

A row maps columns to text. It comes with its place in the file, which error messages state. An
empty cell is None; lists and objects are not converted.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from subtune.core.errors import SubtuneError, one_line
from subtune.data.readers.delimited import delimited_rows
from subtune.data.readers.excel import excel_rows
from subtune.data.readers.json_rows import json_rows
from subtune.data.readers.text import cell_text, ending_of
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow

FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".xlsx", ".parquet")
# The largest share of rows without a label that are left out.
FEW = 0.01


def read(task: TaskSpec, path: Path, labelled: bool) -> Iterable[PlacedRow]:
    """Read a task's rows from a table. Rows without a label are left out if they are few."""
    kind = task.of_kind

    def is_labelled_row(cells: dict[str, str]) -> bool:
        with contextlib.suppress(KeyError, SubtuneError):
            kind.cells(task, cells, labelled, "")
            return labelled and all(
                cells[column] == cells[column].strip() for column in task.label_columns
            )
        return False

    columns = task.columns_read(labelled)
    rows = [*rows_of(path, columns, is_labelled_row, task.encoding, task.sheet)]
    # A row of a multi-label task may have no label.
    if kind.has_label_columns or not labelled:
        return rows
    return with_labels(rows, *task.label_columns)[0]


def rows_of(
    path: Path,
    columns: Collection[str] = (),
    is_row: Callable[[dict[str, str]], bool] = lambda cells: False,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Iterator[PlacedRow]:
    """Read the rows of a file in one of `FORMATS`; any other extension counts as CSV.

    Args:
        path: the file.
        columns: the columns that are read, which may not be repeated.
        is_row: as in `delimited_rows`.
        encoding: the encoding of a CSV or TSV file, as in `read_text`.
        sheet: the sheet of an Excel file; default: the first.

    Raises:
        SubtuneError: the file cannot be read in the format of its extension.
    """
    match ending_of(path):
        case ".json" | ".jsonl":
            return json_rows(path)
        case ".xlsx":
            return excel_rows(path, columns, sheet)
        case ".parquet":
            return parquet_rows(path)
    return delimited_rows(path, columns, is_row, encoding)


def with_labels(rows: Sequence[PlacedRow], column: str) -> tuple[list[PlacedRow], list[str]]:
    """Return the rows with a label, and the places of rows without one, if these are few.

    Many rows without a label are a mistake: they are returned too, and refused later with their
    place.
    """
    labelled_rows = [placed for placed in rows if str(placed[1].get(column) or "").strip()]
    if len(rows) - len(labelled_rows) > FEW * len(rows):
        return [*rows], []
    places = {place for place, _ in labelled_rows}
    return labelled_rows, [place for place, _ in rows if place not in places]


def parquet_rows(path: Path) -> Iterator[PlacedRow]:
    """Read the rows of a Parquet file."""
    from pyarrow.parquet import ParquetFile

    with one_line(f"{path}: expected a readable .parquet file"):
        rows = ParquetFile(path).read().to_pylist()
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", {column: cell_text(cell) for column, cell in row.items()}
