"""JSON lines: an object per line, which is a row."""

import io
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.formats import text
from subtune.tasks.formats.text import Text

TEXTS = TypeAdapter(Annotated[list[Text], Field(min_length=1)])


def rows(path: Path, columns: Collection[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows by column, each with its line. Numbers are text, as they are written.

    An object within a row is a tuple of its keys and values, and a list is a list.

    Args:
        path: a UTF-8 file.
        columns: those that are read, and so may not be in a row twice.

    Raises:
        SubtuneError: the file is not UTF-8, or a line is no JSON object or has a column twice.
    """
    return _objects(path, columns, parse_number=str)


def sentences(path: Path, columns: Collection[str]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Read sentences in the columns asked for, which hold lists of texts, each with its place.

    Args:
        path: a UTF-8 file.
        columns: those that are read, such as words and tags.

    Raises:
        SubtuneError: the file is not UTF-8 or has no rows, a line is no JSON object, or a column
            is not there, or holds anything else than a list of texts.
    """
    empty = True
    for line, row in _objects(path, columns):
        empty = False
        place = f"{path}: line {line}"
        sentence = {}
        for column in columns:
            if column not in row:
                raise SubtuneError(f"{place}: no such column: {one_of(column, row)}")
            try:
                sentence[column] = TEXTS.validate_python(row[column], strict=True)
            except ValidationError as error:
                raise SubtuneError(f"{place}: {text.problem(error, column)}") from None
        yield f"line {line}", sentence
    if empty:
        raise SubtuneError(f"{path}: found no sentences, expected at least one")


def _objects(
    path: Path, columns: Collection[str], parse_number: Callable[[str], Any] | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    # Only line ends separate rows: a text may hold other characters that Unicode calls line ends.
    for line, content in enumerate(io.StringIO(text.read(path), newline=""), start=1):
        if not content.strip():
            continue
        place = f"{path}: not a readable {path.suffix} file: line {line}"
        try:
            row = json.loads(
                content,
                object_pairs_hook=tuple,
                parse_int=parse_number,
                parse_float=parse_number,
                parse_constant=lambda name: None,
            )
        except (ValueError, RecursionError) as error:
            said = str(error)
            if isinstance(error, json.JSONDecodeError):
                said = f"{error.msg} in column {error.colno}"
            raise SubtuneError(f"{place}: {said}, expected an object") from None
        if not isinstance(row, tuple):
            raise SubtuneError(f"{place}: found {text.in_words(row)}, expected an object")
        keys = [key for key, _ in row]
        for column in columns:
            if keys.count(column) > 1:
                raise SubtuneError(f"{place}: found {column!r} twice, expected it once")
        yield line, dict(row)
