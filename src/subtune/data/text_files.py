"""Text files: their encoding and lines, and the rows of CSV and TSV files."""

import codecs
import csv
import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, listed
from subtune.tasks.task_kind import PlacedRow

# os.path returns False for names that the system refuses; methods of pathlib may raise.
is_file = os.path.isfile
is_directory = os.path.isdir


def file_ending(path: Path) -> str:
    """Return a file's extension in small letters, such as ``.csv``."""
    return path.suffix.lower()


def read_text(path: Path, encoding: str | None = None) -> str:
    """Return the text of a file without a byte-order mark. Line ends are not changed.

    Args:
        path: the file.
        encoding: Python's name of the encoding; default: UTF-16 if the file begins with its
            byte-order mark, else UTF-8.

    Raises:
        SubtuneError: the file cannot be read or decoded, has a NUL, or Python does not know the
            encoding.
    """
    try:
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{path}: {reason}, expected a file in UTF-8") from None
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = encoding or ("UTF-16" if is_utf16 else "UTF-8")
    try:
        text = content.decode(name)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SubtuneError(
            f"{path}: line {line}: found the byte 0x{content[error.start]:02x}, which is not "
            f"{name}, expected a file in {name}, or a table with its `encoding`"
        ) from None
    except (LookupError, ValueError):
        raise SubtuneError(
            f"encoding: found {name!r}, expected one such as latin-1 or utf-16"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SubtuneError(f"{path}: line {line}: found '\\x00', expected text")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without line ends, which are ``\\n`` or ``\\r\\n``.

    `str.splitlines` would also split at Unicode's other line ends.
    """
    return [line.removesuffix("\r") for line in text.split("\n")]


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


# Delimiters to try if a header lacks the usual one.
OTHERS = ";\t,|"
# Excel's own first line, which names the delimiter.
SEPARATOR = re.compile(rf'(?i)"?sep=([{OTHERS}])"?\s*')
# The csv module refuses longer cells. It allows at most a C long, which has 32 bits on Windows.
csv.field_size_limit(2**31 - 1)


def delimited_rows(
    path: Path,
    columns: Collection[str],
    is_row: Callable[[dict[str, str]], bool],
    encoding: str | None = None,
) -> Iterator[PlacedRow]:
    """Read the rows below the header of a CSV or TSV file, each with the place of its first line.

    A cell that begins with ``"`` ends with the next one; in between ``""`` stands for a quotation
    mark, and line ends are text. In other cells, ``"`` is an ordinary character.

    Args:
        path: the file.
        columns: the columns that are read, which may not be repeated.
        is_row: a function that returns whether the cells of a line can be a whole row. If every
            line of a multi-line row can be a row, a quotation mark is not closed.
        encoding: as in `read_text`.

    Raises:
        SubtuneError: the file cannot be read, a row has more or fewer cells than the header, a
            column is repeated, or a quotation mark is not closed.
    """
    # Python's reader is strict about quotation marks and has line numbers. The readers of
    # pandas and pyarrow silently fill short rows or drop quotation marks.
    delimiter, lines = _detect_delimiter(path, encoding)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        header = next(filter(None, reader), [])
        require_unique_columns(columns, header, f"{path}: line {reader.line_num}")
        first = reader.line_num + 1
        for cells in reader:
            if cells:
                place = f"{path}: line {first}"
                _require_width(cells, header, delimiter, place)
                _require_closed(
                    lines[first - 1 : reader.line_num], header, delimiter, is_row, place
                )
                yield f"line {first}", dict(zip(header, cells, strict=True))
            first = reader.line_num + 1
    except csv.Error as error:
        raise SubtuneError(
            f"{path}: not a readable {path.suffix} file: line {first}: {error}; a cell that begins "
            "with '\"' is quoted up to the next '\"'"
        ) from None


def _detect_delimiter(path: Path, encoding: str | None) -> tuple[str, list[str]]:
    """Return the delimiter and the lines. A first line that names the delimiter is left empty."""
    lines = list(io.StringIO(read_text(path, encoding), newline=""))
    if lines and (separator := SEPARATOR.fullmatch(lines[0])):
        # The reader skips empty lines, but counts them.
        return separator[1], ["\n", *lines[1:]]
    # Excel writes ; in many countries.
    header = next((line for line in lines if line.strip()), "")
    usual = "\t" if file_ending(path) == ".tsv" else ","
    return next((sign for sign in (usual, *OTHERS) if sign in header), usual), lines


def _require_width(cells: Sequence[str], header: Sequence[str], delimiter: str, place: str) -> None:
    """Refuse a row at ``place`` with more or fewer cells than the header."""
    if len(cells) == len(header):
        return
    hint = ""
    if len(cells) > len(header):
        hint = f"; a cell with {delimiter!r} in it is written in quotes"
    raise SubtuneError(
        f"{place}: found {len(cells)} cells, expected {len(header)} ({listed(header)}){hint}"
    )


def _require_closed(
    lines: Sequence[str],
    header: Sequence[str],
    delimiter: str,
    is_row: Callable[[dict[str, str]], bool],
    place: str,
) -> None:
    """Refuse a row of several lines, each of which can be a row if quotation marks are text."""
    if len(lines) == 1:
        return
    for cells in csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE):
        if len(cells) != len(header) or not is_row(dict(zip(header, cells, strict=True))):
            return
    last = int(place.rpartition(" ")[2]) + len(lines) - 1
    raise SubtuneError(
        f"{place}: found a '\"' that nothing closes before line {last}, expected '\"\"\"' where a "
        "quote begins a cell's text"
    )
