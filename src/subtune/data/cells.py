"""Cells and headers of tables, in any format."""

from collections.abc import Collection, Sequence
from typing import Any

from subtune.core.errors import SubtuneError, shown


def cell_text(cell: Any) -> Any:
    """Return a cell as text, or None if it is empty. Lists and objects are not converted."""
    # NaN is not equal to itself.
    if cell is None or cell != cell:
        return None
    # Excel stores integers as decimals; so does pandas if a column has missing values.
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell if isinstance(cell, str | list | dict) else str(cell)


def require_unique_columns(columns: Collection[str], header: Sequence[Any], place: str) -> None:
    """Refuse a header with a column twice: one of ``columns`` or, if there are none, any column."""
    for name in columns or filter(None, header):
        if header.count(name) > 1:
            raise SubtuneError(f"{place}: found column {name!r} twice, expected it once")


def require_names(header: Sequence[str | None], cells: Sequence[Any], place: str) -> None:
    """Refuse a row at ``place`` with several cells, below a header of which only one is filled."""
    if header[0] and not any(header[1:]) and any(cells[1:]):
        raise SubtuneError(
            f"{place}: found cells in columns without a name, expected the names of columns where "
            f"{shown(header[0])} is, in the first row"
        )
