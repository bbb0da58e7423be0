"""Sheets of Excel files."""

import io
import itertools
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, one_line, one_of, shown
from subtune.data.readers.text import cell_text, require_once
from subtune.tasks.task_kind import PlacedRow

# The first bytes of Excel files from before 2007, and of Excel files with a password.
NO_ZIP = b"\xd0\xcf\x11\xe0"


def sheets(path: Path) -> list[str]:
    """Return the names of an Excel file's sheets."""
    return [sheet.title for sheet in _workbook(path, read_only=True).worksheets]


def excel_rows(
    path: Path, columns: Collection[str], sheet: str | None = None
) -> Iterator[PlacedRow]:
    """Read the rows of a sheet below the header, which is the first row that is not empty.

    Args:
        path: the file.
        columns: the columns that are read, which may not be repeated.
        sheet: the name of the sheet; default: the first.

    Raises:
        SubtuneError: the file cannot be read or has no such sheet, or the sheet has merged cells,
            errors, or a repeated column.
    """
    book = _workbook(path, data_only=True)
    names = [of_book.title for of_book in book.worksheets]
    if sheet is not None and sheet not in names:
        raise SubtuneError(f"{path}: sheet: {one_of(sheet, names)}")
    name = sheet or names[0]
    found, place = book[name], f"{path}: sheet {shown(name)}"
    for merged in found.merged_cells.ranges:
        raise SubtuneError(
            f"{place}: found the merged cells {merged}, expected a cell for each row; unmerge them"
        )
    cells = [*found.iter_rows()]
    for cell in itertools.chain(*cells):
        if cell.data_type == "e":
            raise SubtuneError(
                f"{place}: {cell.coordinate}: found the error {cell.value}, expected a value"
            )
    texts = ((number, [*map(_excel_text, row)]) for number, row in enumerate(cells, 1))
    (first, header), *rows = [row for row in texts if any(row[1])] or [(1, [])]
    require_once(columns, header, f"{place}: row {first}")
    for number, row in rows:
        by_column = zip(header, row, strict=True)
        yield f"row {number}", {column: cell for column, cell in by_column if column}


def _excel_text(cell: Any) -> Any:
    # Excel may write a line end as its code.
    return (cell_text(cell.value) or "").replace("_x000D_", "\r").replace("_x000A_", "\n") or None


def _workbook(path: Path, **how: bool) -> Any:
    # Importing openpyxl takes a while.
    import openpyxl

    with one_line(f"{path}: expected a readable .xlsx file"):
        content = path.read_bytes()
        if content.startswith(NO_ZIP):
            raise ValueError("this one has a password, or is of Excel before 2007")
        # openpyxl warns of styles and other parts that nobody reads here.
        with warnings.catch_warnings(action="ignore"):
            book = openpyxl.load_workbook(io.BytesIO(content), **how)
        if not book.worksheets:
            raise ValueError("found no sheet; save a Strict Open XML file as Excel Workbook")
        return book
