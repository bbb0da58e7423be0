"""Cells and headers of tables, in all file formats."""

import contextlib
from collections.abc import Sequence
from typing import Any

from subtune.core.errors import SubtuneError, quote


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
