"""Readers of tables in Excel and Parquet files, and functions for cells and headers of any file."""

import contextlib
import io
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from subtune.core.errors import SubtuneError, convert_errors, format_allowed, join_names, quote
from subtune.tasks.task_kind import PlacedRow, pair_with_places

# The first bytes of Excel files that are not zip archives: .xls files and encrypted files.
NO_ZIP = b"\xd0\xcf\x11\xe0"
# The XML tags of an Excel sheet's formulas and merged cells.
FORMULA_OR_MERGED = re.compile(rb"<(\w+:)?(f|mergeCell)\b")


def cell_text(cell: Any) -> Any:
    """Convert a cell to a string. An empty cell becomes None; lists and objects are not converted.

    Bytes that are not UTF-8 become an object, which is neither a text nor a label.
    """
    # NaN is not equal to itself.
    if cell is None or cell != cell:
        return None
    # Excel stores integers as floats, and so does pandas in columns with missing values.
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return cell.decode()
        return {"bytes that are not UTF-8": str(cell)}
    if isinstance(cell, list):
        return [cell_text(part) if isinstance(part, bytes) else part for part in cell]
    return cell if isinstance(cell, str | dict) else str(cell)


def require_unique_columns(header: Sequence[Any], place: str) -> None:
    """Check that the names in a header are unique. A missing name is None or empty."""
    for name in filter(None, header):
        if header.count(name) > 1:
            raise SubtuneError(f"{place}: found column {name!r} twice; rename one of the columns")


def require_multicolumn_header(
    header: Sequence[str | None], cells: Sequence[Any], place: str
) -> None:
    """Check that a header names more than one column if a row below it has several cells.

    A header with a single name is probably a title above the actual header.
    """
    if header[0] and not any(header[1:]) and any(cells[1:]):
        raise SubtuneError(
            f"{place}: found only {quote(header[0])} in the first row, expected the names of all "
            "columns"
        )


def parquet_rows(path: Path) -> Iterator[PlacedRow]:
    """Read the rows of a Parquet file."""
    # Importing pyarrow is slow.
    from pyarrow.parquet import ParquetFile

    with convert_errors(f"{path}: cannot be read, expected a .parquet file"):
        table = ParquetFile(path).read()
        require_unique_columns(table.column_names, str(path))
        rows = table.to_pylist()
    return pair_with_places(
        {column: cell_text(cell) for column, cell in row.items()} for row in rows
    )


def sheet_names(path: Path) -> list[str]:
    """Return the names of the sheets in an Excel file. The first is the sheet read by default."""
    return [sheet.title for sheet in _open_sheets(path)]


def excel_rows(
    path: Path, sheet: str | None = None, keep_empty: bool = False
) -> Iterator[PlacedRow]:
    """Read the rows of a sheet, like `subtune.data.table_files.read_rows`.

    The first row that is not empty is the header. Merged cells, errors, and formulas without a
    value are rejected.
    """
    sheets = {one.title: one for one in _open_sheets(path)}
    names = [*sheets]
    if sheet is not None and sheet not in names:
        raise SubtuneError(f"{path}: sheet: {format_allowed(sheet, names)}")
    name = sheet or names[0]
    found, place = sheets[name], f"{path}: sheet {quote(name)}"
    with convert_errors(f"{path}: cannot be read, expected an .xlsx file"):
        _require_plain_cells(found, place)
        # The size of a sheet in its file also counts formatted cells without a value.
        found.reset_dimensions()
        header: list[str | None] = []
        for number, cells in enumerate(found.iter_rows(), start=1):
            # At least two cells are read, because a single name may be a title above the header.
            width = max(len(header), 2) if header else None
            texts = [_convert_excel_cell(cell, place) for cell in cells[:width]]
            if not any(texts) and not (keep_empty and header):
                continue
            if header:
                require_multicolumn_header(header, texts, f"{place}: row {number}")
                by_column = itertools.zip_longest(header, texts)
                yield f"row {number}", {column: cell for column, cell in by_column if column}
            else:
                # Formatted but empty cells may extend far beyond the last column name.
                header = texts[: 1 + max(n for n, text in enumerate(texts) if text)]
                require_unique_columns(header, f"{place}: row {number}")
        if not header and sheet is None and names[1:]:
            others = join_names(names[1:])
            raise SubtuneError(f"{place}: the sheet is empty; did you mean {others}?")


def _convert_excel_cell(cell: Any, place: str) -> str | None:
    """Convert a cell to a string, and decode escaped line ends. An empty cell becomes None."""
    if cell.data_type == "e":
        raise SubtuneError(
            f"{place}: {cell.coordinate}: found the error {cell.value}, expected a value"
        )
    text = cell_text(cell.value) or ""
    return text.replace("_x000D_", "\r").replace("_x000A_", "\n") or None


def _require_plain_cells(sheet: Any, place: str) -> None:
    """Check that a sheet has no merged cells and that the values of all formulas are stored."""
    # In read-only mode, openpyxl reports neither merged cells nor formulas without a stored value.
    with sheet._get_source() as source:
        # This search is faster than parsing the file.
        if not FORMULA_OR_MERGED.search(source.read()):
            return
    with sheet._get_source() as source:
        for _, element in ElementTree.iterparse(source):
            match element.tag.rpartition("}")[2]:
                case "c":
                    has_formula = element.find("{*}f") is not None
                    # The value of a formula may be an empty string.
                    has_value = element.findtext("{*}v") or element.get("t") == "str"
                    if has_formula and not has_value:
                        raise SubtuneError(
                            f"{place}: {element.get('r')}: the value of this formula was never "
                            "computed; open the file in a spreadsheet program and save it"
                        )
                case "row":
                    element.clear()
                case "mergeCell":
                    raise SubtuneError(
                        f"{place}: the cells {element.get('ref')} are merged, but each row needs "
                        "its own cells; unmerge them"
                    )


def _open_sheets(path: Path) -> list[Any]:
    """Open the sheets of an Excel file to be read row by row, hidden sheets last."""
    # Importing openpyxl is slow.
    import openpyxl

    with convert_errors(f"{path}: cannot be read, expected an .xlsx file"):
        content = path.read_bytes()
        if content.startswith(NO_ZIP):
            raise ValueError("password-protected or in .xls format; save it as plain .xlsx")
        # openpyxl warns about styles and other features that are not needed here.
        with warnings.catch_warnings(action="ignore"):
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        if not book.worksheets:
            raise ValueError("no readable sheet; save Strict Open XML files as Excel Workbook")
        # Hidden sheets often contain the entries of drop-down lists.
        return sorted(book.worksheets, key=lambda sheet: sheet.sheet_state != "visible")
