"""Tables that people write: CSV and TSV with a header, and JSON lines."""

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, listed
from subtune.tasks.formats import text

# Delimiters of other programs, for a header that does not have the usual one.
OTHERS = ";\t,|"


def delimited_rows(
    path: Path,
    columns: Collection[str],
    is_row: Callable[[Mapping[str, str]], bool],
    encoding: str | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows below the header, by column, each with the line on which it begins.

    A cell that begins with ``"`` ends with the next one; in between ``""`` stands for a quotation
    mark, and line ends are text. In other cells a ``"`` is a letter.

    Args:
        path: the file. Its usual delimiter is a tab if it ends in ``.tsv``, else a comma.
        columns: those that are read, and so may not be there twice.
        is_row: whether the cells of a line can be a whole row. Lines that all can, and are in one
            row nevertheless, tell of a quotation mark that nothing closes.
        encoding: from `text.read`.

    Raises:
        SubtuneError: the file cannot be read, a row has more or fewer cells than the header, a
            column is there twice, or a quotation mark is not closed.
    """
    lines = list(io.StringIO(text.read(path, encoding), newline=""))
    delimiter = _delimiter(path, lines)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        header = next(filter(None, reader), [])
        for name in columns:
            if header.count(name) > 1:
                raise SubtuneError(
                    f"{path}: line {reader.line_num}: found column {name!r} twice, expected it once"
                )
        first = reader.line_num + 1
        for cells in reader:
            if len(cells) not in (0, len(header)):
                hint = f"; a cell with {delimiter!r} in it is written in quotes"
                raise SubtuneError(
                    f"{path}: line {first}: found {len(cells)} cells, expected {len(header)} "
                    f"({listed(header)}){hint if len(cells) > len(header) else ''}"
                )
            # The row's lines, if quotation marks are letters.
            of_lines = csv.reader(
                lines[first - 1 : reader.line_num], delimiter=delimiter, quoting=csv.QUOTE_NONE
            )
            if reader.line_num > first and all(
                len(of_line) == len(header) and is_row(dict(zip(header, of_line, strict=True)))
                for of_line in of_lines
            ):
                raise SubtuneError(
                    f"{path}: line {first}: found a '\"' that nothing closes before line "
                    f"{reader.line_num}, expected '\"\"\"' where a quote begins a cell's text"
                )
            if cells:
                yield first, dict(zip(header, cells, strict=True))
            first = reader.line_num + 1
    except csv.Error as error:
        raise SubtuneError(
            f"{path}: not a readable {path.suffix} file: line {first}: {error}; a cell that begins "
            "with '\"' is quoted up to the next one"
        ) from None


def _delimiter(path: Path, lines: list[str]) -> str:
    """Return what stands between two cells: Excel writes ``;`` in half of the world's CSV files."""
    header = next((line for line in lines if line.strip()), "")
    usual = "\t" if path.suffix == ".tsv" else ","
    return next((sign for sign in (usual, *OTHERS) if sign in header), usual)


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the object of each line, by column, with the line. Numbers are text, as written.

    Raises:
        SubtuneError: the file is not UTF-8, or a line is no JSON object.
    """
    # Only line ends separate rows: a text may hold other characters that Unicode calls line ends.
    for line, content in enumerate(io.StringIO(text.read(path), newline=""), start=1):
        if not content.strip():
            continue
        place = f"{path}: not a readable {path.suffix} file: line {line}"
        try:
            row = json.loads(
                content.rstrip(), parse_int=str, parse_float=str, parse_constant=lambda name: None
            )
        except json.JSONDecodeError as error:
            said = f"{error.msg} in column {error.colno}"
            raise SubtuneError(f"{place}: {said}, expected an object") from None
        except RecursionError:
            raise SubtuneError(f"{place}: too many brackets, expected an object") from None
        if not isinstance(row, dict):
            raise SubtuneError(f"{place}: found {text.in_words(row)}, expected an object")
        yield line, row
