"""Tables in CSV, TSV, JSON, Excel and Parquet files.

A row maps columns to text. It comes with its place in the file, which error messages state. An
empty cell is None; lists and objects are not converted.
"""

import codecs
import contextlib
import csv
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, listed, one_line, shown
from subtune.data.cells import cell_text, require_names, require_unique_columns
from subtune.data.excel_files import excel_rows
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow

# Delimiters to try if a header lacks the usual one.
OTHER_DELIMITERS = ";\t,|"
# Excel's own first line, which names the delimiter.
SEPARATOR = re.compile(rf'(?i)"?sep=([{OTHER_DELIMITERS}])"?\s*')
# The csv module refuses longer cells. It allows at most a C long, which has 32 bits on Windows.
csv.field_size_limit(2**31 - 1)
FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".xlsx", ".parquet")
# The largest share of rows without a label that are left out.
FEW = 0.01
# The types of all columns in other layouts that pandas writes.
PANDAS = ({dict}, {list})
# os.path returns False for names that the system refuses; methods of pathlib may raise.
is_file = os.path.isfile
is_directory = os.path.isdir


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
                require_names(header, cells, place)
                if reader.line_num > first:
                    row_lines = lines[first - 1 : reader.line_num]
                    _require_closed(row_lines, header, delimiter, is_row, place)
                by_column = zip(header, cells, strict=True)
                # A spreadsheet also writes empty columns; pandas writes an index without a name.
                yield f"line {first}", {name: cell for name, cell in by_column if name or cell}
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
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    return next((sign for sign in (usual, *OTHER_DELIMITERS) if sign in header), usual), lines


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
    for cells in csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE):
        if len(cells) != len(header) or not is_row(dict(zip(header, cells, strict=True))):
            return
    last = int(place.rpartition(" ")[2]) + len(lines) - 1
    raise SubtuneError(
        f"{place}: found a '\"' that nothing closes before line {last}, expected '\"\"\"' where a "
        "quote begins a cell's text"
    )


def read_texts(task: TaskSpec, path: Path, labelled: bool) -> Iterable[PlacedRow]:
    """Read a task's rows from a table. Rows without a label are left out if they are few."""
    kind = task.of_kind

    def is_labelled_row(cells: dict[str, str]) -> bool:
        with contextlib.suppress(KeyError, SubtuneError):
            kind.read_cells(task, cells, labelled, "")
            return labelled and all(
                cells[column] == cells[column].strip() for column in task.label_columns
            )
        return False

    columns = task.columns_read(labelled)
    rows = [*read_rows(path, columns, is_labelled_row, task.encoding, task.sheet)]
    # In JSON, empty cells may be left out.
    named = {column for column in columns if any(column in row for _, row in rows)}
    rows = [(place, row | dict.fromkeys(named - row.keys())) for place, row in rows]
    # A row of a multi-label task may have no label.
    if kind.has_label_columns or not labelled:
        return rows
    return drop_unlabelled_rows(rows, *task.label_columns)[0]


def read_rows(
    path: Path,
    columns: Collection[str] = (),
    is_row: Callable[[dict[str, str]], bool] = lambda cells: False,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Iterator[PlacedRow]:
    """Read the rows of a file in one of `FORMATS`; any other extension counts as CSV.

    An empty cell is None in every format. Rows of empty cells are skipped.

    Args:
        path: the file.
        columns: the columns that are read, which may not be repeated.
        is_row: as in `delimited_rows`.
        encoding: the encoding of a CSV or TSV file, as in `read_text`.
        sheet: the sheet of an Excel file; default: the first.

    Raises:
        SubtuneError: the file cannot be read in the format of its extension.
    """
    match path.suffix.lower():
        case ".json" | ".jsonl":
            rows = json_rows(path)
        case ".xlsx":
            rows = excel_rows(path, columns, sheet)
        case ".parquet":
            rows = parquet_rows(path)
        case _:
            rows = delimited_rows(path, columns, is_row, encoding)
    for place, row in rows:
        row = {column: None if cell == "" else cell for column, cell in row.items()}
        if any(cell is not None for cell in row.values()):
            yield place, row


def parquet_rows(path: Path) -> Iterator[PlacedRow]:
    """Read the rows of a Parquet file."""
    from pyarrow.parquet import ParquetFile

    with one_line(f"{path}: expected a readable .parquet file"):
        rows = ParquetFile(path).read().to_pylist()
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", {column: cell_text(cell) for column, cell in row.items()}


def drop_unlabelled_rows(
    rows: Sequence[PlacedRow], column: str
) -> tuple[list[PlacedRow], list[str]]:
    """Return the rows with a label, and the places of rows without one, if these are few.

    Many rows without a label are a mistake: they are returned too, and refused later with their
    place.
    """
    labelled_rows = [placed for placed in rows if str(placed[1].get(column) or "").strip()]
    if len(rows) - len(labelled_rows) > FEW * len(rows):
        return [*rows], []
    places = {place for place, _ in labelled_rows}
    return labelled_rows, [place for place, _ in rows if place not in places]


def json_rows(path: Path) -> Iterator[PlacedRow]:
    """Read objects: one on each line, or all in a list, which may be the ``data`` of an object.

    Numbers are kept as written.

    Raises:
        SubtuneError: the file is not UTF-8, has a value that is not an object, or has another
            layout of pandas.
    """
    content, broken = read_text(path), f"{path}: not a readable {path.suffix} file"
    rows: Iterable[tuple[str, Any]]
    if (single := _parse_single_json(content, broken, path.suffix.lower())) is not None:
        rows = ((f"row {number}", row) for number, row in enumerate(single, start=1))
    else:
        lines = ((n, line) for n, line in enumerate(split_lines(content), start=1) if line.strip())
        rows = ((f"line {number}", _parse_json(line, number, broken)) for number, line in lines)
    for place, row in rows:
        if not isinstance(row, dict):
            raise SubtuneError(f"{broken}: {place}: found {shown(row)}, expected an object")
        yield place, {column: cell_text(cell) for column, cell in row.items()}


def _parse_single_json(content: str, broken: str, ending: str) -> list | None:
    """Return the rows of a file with a single JSON value, or None if lines have values."""
    try:
        whole = _parse_json(content, 1, broken)
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


def _parse_json(content: str, line: int, broken: str) -> Any:
    """Parse a JSON value that begins on ``line``."""
    try:
        return json.loads(content, parse_int=str, parse_float=str, parse_constant=lambda name: None)
    except json.JSONDecodeError as error:
        mistake = f"line {line + error.lineno - 1}: {error.msg} in column {error.colno}"
    except RecursionError:
        mistake = f"line {line}: too many brackets"
    raise SubtuneError(f"{broken}: {mistake}, expected an object")
