"""JSON lines: an object per line, which is a row."""

import io
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, cut, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import NO_CHARACTER


def rows(path: Path, columns: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows by column, each with its line. Numbers are text, as they are written.

    An object within a row is a tuple of its keys and values, and a list is a list.

    Args:
        path: a UTF-8 file.
        columns: those that are read, and so may not be in a row twice.

    Raises:
        SubtuneError: the file is not UTF-8, or a line is no JSON object or has a column twice.
    """
    return _objects(path, columns, parse_number=str)


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Sentences in the columns asked for, which hold lists of texts, each with its place.

    Args:
        path: a UTF-8 file.
        columns: those that are read, such as words and tags.

    Raises:
        SubtuneError: the file is not UTF-8 or has no rows, a line is no JSON object, or a column
            is not there, or holds anything else than a list of texts.
    """
    empty = True
    for number, row in _objects(path, columns, parse_number=_Number):
        empty = False
        place = f"line {number}"
        for column in columns:
            if column not in row:
                raise SubtuneError(f"{path}: {place}: no such column: {one_of(column, row)}")
            _require_texts(row[column], f"{path}: {place}: column {column!r}")
        yield place, {column: row[column] for column in columns}
    if empty:
        raise SubtuneError(f"{path}: found no sentences, expected at least one")


class _Number(str):
    """A number as it is written, in the place of which a text was expected."""


def _objects(
    path: Path, columns: Collection[str], parse_number: Callable[[str], Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    # A text may hold other characters that Unicode calls line ends.
    for line, content in enumerate(io.StringIO(text.read(path), newline=""), start=1):
        if content.strip():
            yield line, _object(path, line, content, columns, parse_number)


def _object(
    path: Path,
    line: int,
    content: str,
    columns: Collection[str],
    parse_number: Callable[[str], Any],
) -> dict[str, Any]:
    place = f"{path}: not a readable {path.suffix} file: line {line}"
    try:
        row = json.loads(
            content,
            object_pairs_hook=tuple,
            parse_int=parse_number,
            parse_float=parse_number,
            parse_constant=lambda name: None,
        )
    except json.JSONDecodeError as error:
        raise SubtuneError(
            f"{place}: {error.msg} in column {error.colno}, expected an object"
        ) from None
    except RecursionError as error:
        raise SubtuneError(f"{place}: {error}, expected an object") from None
    if not isinstance(row, tuple):
        raise SubtuneError(f"{place}: found {_in_words(row)}, expected an object")
    keys = [key for key, _ in row]
    for column in columns:
        if keys.count(column) > 1:
            raise SubtuneError(f"{place}: found {column!r} twice, expected it once")
    return dict(row)


def _require_texts(cell: Any, place: str) -> None:
    if not isinstance(cell, list):
        raise SubtuneError(f"{place}: found {_in_words(cell)}, expected a list of texts")
    if not cell:
        raise SubtuneError(f"{place}: found an empty list, expected a text for every word")
    for number, item in enumerate(cell, start=1):
        if type(item) is not str:
            raise SubtuneError(f"{place}: item {number}: found {_in_words(item)}, expected text")
        if not item.strip():
            raise SubtuneError(f"{place}: item {number}: found {item!r}, expected text")
        if no_character := NO_CHARACTER.search(item):
            raise SubtuneError(f"{place}: item {number}: found {no_character[0]!r}, expected text")


def _in_words(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case tuple():
            return "an object"
        case _Number():
            return f"the number {cut(value)}"
        case str():
            return "a text"
    return json.dumps(value)
