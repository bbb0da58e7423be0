"""Objects of JSON files, as rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, shown
from subtune.data.readers.text import cell_text, ending_of, lines_of, read_text
from subtune.tasks.task_kind import PlacedRow

# The types of all columns in other layouts that pandas writes.
PANDAS = ({dict}, {list})


def json_rows(path: Path) -> Iterator[PlacedRow]:
    """Read objects: one on each line, or all in a list, which may be the ``data`` of an object.

    Numbers are kept as written.

    Raises:
        SubtuneError: the file is not UTF-8, has a value that is not an object, or has another
            layout of pandas.
    """
    content, broken = read_text(path), f"{path}: not a readable {path.suffix} file"
    for place, row in _values(content, broken, ending_of(path)):
        if not isinstance(row, dict):
            raise SubtuneError(f"{broken}: {place}: found {shown(row)}, expected an object")
        yield place, {column: cell_text(cell) for column, cell in row.items()}


def _values(content: str, broken: str, ending: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of a list, or those of all lines, each with its place."""
    rows = _rows_in_one(content, broken, ending)
    if rows is not None:
        for number, row in enumerate(rows, start=1):
            yield f"row {number}", row
        return
    for number, line in enumerate(lines_of(content), start=1):
        if line.strip():
            yield f"line {number}", _parsed(line, number, broken)


def _rows_in_one(content: str, broken: str, ending: str) -> list | None:
    """Return the rows of a file with a single JSON value, or None if lines have values."""
    try:
        whole = _parsed(content, 1, broken)
    except SubtuneError:
        if content.lstrip().startswith("["):
            raise
        return None
    match whole:
        case list(rows):
            return rows
        case {"data": list(rows), **others} if others.keys() <= {"schema", "version", "meta"}:
            return rows
        # JSON lines may have lists of words.
        case {**columns} if ending == ".json" and {*map(type, columns.values())} in PANDAS:
            expected = 'a list of objects, which df.to_json(path, orient="records") writes'
            raise SubtuneError(f"{broken}: found another layout of pandas, expected {expected}")
    return None


def _parsed(content: str, line: int, broken: str) -> Any:
    """Parse a JSON value that begins on ``line``."""
    try:
        return json.loads(content, parse_int=str, parse_float=str, parse_constant=lambda name: None)
    except json.JSONDecodeError as error:
        mistake = f"line {line + error.lineno - 1}: {error.msg} in column {error.colno}"
    except RecursionError:
        mistake = f"line {line}: too many brackets"
    raise SubtuneError(f"{broken}: {mistake}, expected an object")
