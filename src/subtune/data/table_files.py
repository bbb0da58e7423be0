"""Readers of tables in CSV, TSV, JSON, Excel and Parquet files.

Each row is a mapping from columns to text, with its place in the file for error messages. An empty
cell is None. Lists and objects in cells are not converted to text.
"""

import codecs
import contextlib
import csv
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, join_names, quote
from subtune.core.files import write_text
from subtune.data.binary_files import (
    cell_text,
    excel_rows,
    parquet_rows,
    require_multicolumn_header,
    require_unique_columns,
)
from subtune.tasks import TaskSpec
from subtune.tasks.sentences import parse_flag
from subtune.tasks.task_kind import Cells, PlacedRow, pair_with_places

# In JSON files written by subtune, this key holds the row's position in the user's file. No column
# of a user's file has this name, because files with NUL characters are rejected.
PLACE_KEY = "\0place"
# Delimiters to try if the header does not contain the usual delimiter.
OTHER_DELIMITERS = ";\t,|"
# A line such as `sep=;`, with which Excel declares the delimiter at the top of a file.
SEPARATOR = re.compile(rf'(?i)"?sep=([{OTHER_DELIMITERS}])"?\s*')
# A name in single quotes, backticks (MySQL) or typographic quotes (word processors), none of which
# quote cells in CSV.
OTHER_QUOTES = re.compile(r"\s*['`‘“„«].*['`’‘“”»]\s*", re.DOTALL)
# The csv module rejects cells above this limit. The limit is a C long, which has 32 bits on
# Windows.
csv.field_size_limit(2**31 - 1)
FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".xlsx", ".parquet")
# Rows without text or label are dropped if they are at most this share of the rows.
INCOMPLETE_SHARE = 0.01
# The beginning of a cell in the last of the three headers that Qualtrics writes, in lower case.
QUALTRICS = '{"importid"'
# In the JSON layouts of pandas that are not supported, the values of all columns are dicts, or all
# are lists.
PANDAS = ({dict}, {list})
# For invalid file names, functions of os.path return False, whereas pathlib may raise an error.
is_file = os.path.isfile
is_directory = os.path.isdir


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file, without its byte-order mark. Line ends are not converted.

    Without ``encoding``, a file that begins with UTF-16's byte-order mark is UTF-16; other files
    are UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = str(error.strerror).lower()
        raise SubtuneError(f"{path}: {reason}, expected a file in UTF-8") from None
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = encoding or ("UTF-16" if is_utf16 else "UTF-8")
    try:
        text = content.decode(name).lstrip("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SubtuneError(
            f"{path}: line {line}: cannot decode the byte 0x{content[error.start]:02x}, expected "
            f"a file in {name}; if the table has another encoding, such as latin-1, set `encoding`"
        ) from None
    except (LookupError, ValueError):
        raise SubtuneError(
            f"encoding: found {name!r}, expected a name such as latin-1 or utf-16"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SubtuneError(f"{path}: line {line}: found '\\x00', expected text")
    return text


def split_lines(text: str) -> list[str]:
    """Split a text at ``\\n`` and ``\\r\\n``; `str.splitlines` also splits at other characters."""
    return [line.removesuffix("\r") for line in text.split("\n")]


class DoubtfulRow(tuple[str, Cells]):
    """A row of several lines of a CSV file that may lack a closing quotation mark.

    Attributes:
        lines: the cells of each line if ``"`` is an ordinary character. They fit the header.
    """

    lines: Sequence[Cells]


def delimited_rows(
    path: Path, encoding: str | None = None, keep_empty: bool = False
) -> Iterator[PlacedRow]:
    """Read the rows of a CSV or TSV file with a header, with the place of each row's first line.

    A cell that begins with ``"`` is quoted up to the next ``"``. A quoted cell may contain line
    ends, and ``""`` in it stands for a quotation mark. In other cells, ``"`` is an ordinary
    character. The header and a row may differ in the number of empty cells at the end. For the
    arguments, see `read_rows`. `require_closed_quotes` checks the rows further.
    """
    # Python's csv reader can be strict about quotation marks, and counts lines. The readers of
    # pandas and pyarrow silently fill short rows or drop quotation marks.
    lines = list(io.StringIO(read_text(path, encoding), newline=""))
    delimiter = _detect_delimiter(lines, path)
    # Spaces before a quoted cell, after an even number of quotation marks.
    spaces = re.compile(rf'(?:(?:[^"]*"[^"]*")*[^"]*{re.escape(delimiter)})? +"(?!")')
    has_spaces = any(map(spaces.match, lines))
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=has_spaces)
    first = 1
    try:
        header = next(filter(None, reader), [])
        require_unique_columns(header, f"{path}: line {reader.line_num}")
        if header and all(map(OTHER_QUOTES.fullmatch, header)):
            raise SubtuneError(
                f"{path}: line {reader.line_num}: found {header[0].strip()[0]} as quotation mark, "
                "expected '\"'"
            )
        first = reader.line_num + 1
        for line in reader:
            if cells := line or [""] * (keep_empty and len(header) == 1):
                place = f"{path}: line {first}"
                _require_width(cells, header, delimiter, place)
                require_multicolumn_header(header, cells, place)
                by_column = zip(header, cells, strict=False)
                # Spreadsheets may write empty columns, and pandas an index without a name.
                row = f"line {first}", {name: cell for name, cell in by_column if name or cell}
                if reader.line_num > first:
                    row_lines = lines[first - 1 : reader.line_num]
                    unquoted = [*csv.reader(row_lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)]
                    if all(_is_as_wide(line, header) for line in unquoted):
                        row = DoubtfulRow(row)
                        row.lines = [dict(zip(header, line, strict=False)) for line in unquoted]
                yield row
            first = reader.line_num + 1
    except csv.Error as error:
        raise SubtuneError(
            f"{path}: not a readable {path.suffix} file: line {first}: {error}; a cell that begins "
            "with '\"' is quoted up to the next '\"'"
        ) from None


def _detect_delimiter(lines: list[str], path: Path) -> str:
    """Detect the delimiter of a file, and empty a first line that declares the delimiter."""
    if lines and (separator := SEPARATOR.fullmatch(lines[0])):
        # The csv reader skips the empty line, but counts it.
        lines[0] = "\n"
        return separator[1]
    # In many countries, Excel uses semicolons.
    header = next((line for line in lines if line.strip()), "")
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    signs = [sign for sign in (usual, *OTHER_DELIMITERS) if sign in header]
    # Column names may contain another delimiter, as in `text;label (1=good, 2=bad)`.
    fitting = (sign for sign in signs if len(signs) > 1 and _delimiter_fits_rows(lines, sign))
    return next(itertools.chain(fitting, signs), usual)


def _delimiter_fits_rows(lines: Sequence[str], delimiter: str) -> bool:
    """Return whether all rows have as many cells as the header when split at a delimiter."""
    with contextlib.suppress(csv.Error):
        header, *rows = filter(None, csv.reader(lines, delimiter=delimiter, strict=True))
        return all(_is_as_wide(cells, header) for cells in rows)
    return False


def _is_as_wide(cells: Sequence[str], header: Sequence[str]) -> bool:
    """Return whether a row has as many cells as the header, not counting empty ones at the end."""
    return not any(cells[len(header) :]) and not any(header[len(cells) :])


def _require_width(cells: Sequence[str], header: Sequence[str], delimiter: str, place: str) -> None:
    if _is_as_wide(cells, header):
        return
    hint = ""
    if len(cells) > len(header):
        hint = f"; put quotation marks around cells that contain {delimiter!r}"
    if len(cells) == len(header) + 1 and cells[0].isdecimal():
        hint = "; if the first column contains row numbers, add a name for it to the header"
    raise SubtuneError(
        f"{place}: found {len(cells)} cells, expected {len(header)} ({join_names(header)}){hint}"
    )


def require_closed_quotes(
    rows: Iterable[PlacedRow], path: Path, is_row: Callable[[Cells], bool]
) -> Iterator[PlacedRow]:
    """Yield rows, and check that none has several lines because of an unclosed quotation mark.

    That is probable if ``is_row`` returns true for the cells of every line.
    """
    for row in rows:
        if isinstance(row, DoubtfulRow) and all(map(is_row, row.lines)):
            place, _ = row
            last = int(place.rpartition(" ")[2]) + len(row.lines) - 1
            raise SubtuneError(
                f'{path}: {place}: the quotation mark (") at the start of a cell is not closed by '
                f'line {last}; if the mark is part of the text, write """'
            )
        yield row


def read_texts(task: TaskSpec, path: Path, labelled: bool) -> list[PlacedRow]:
    """Read the rows of a table that a task uses; see `use_rows`."""
    return use_rows(task, read_rows(path, task.encoding, task.sheet), path, labelled)


def use_rows(
    task: TaskSpec, rows: Iterable[PlacedRow], path: Path, labelled: bool
) -> list[PlacedRow]:
    """Check and complete the rows of a table for a task.

    Rows without a text or label are dropped if there are only a few.
    """
    kind = task.of_kind

    def is_row(cells: Cells) -> bool:
        with contextlib.suppress(KeyError, SubtuneError):
            kind.parse_row(task, cells, labelled, "")
            return all(cells[column] == cells[column].strip() for column in task.label_columns)
        return False

    placed = [*(require_closed_quotes(rows, path, is_row) if labelled else rows)]
    # JSON objects may omit empty cells.
    columns = task.columns_read(labelled)
    named = {column for column in columns if any(column in row for _, row in placed)}
    placed = [(place, row | dict.fromkeys(named - row.keys())) for place, row in placed]
    if not labelled:
        return placed
    if not isinstance(task.label, str):
        placed = fill_empty_flags(placed, task.label)
    # In multi-label tasks, rows without a label are valid.
    label = () if kind.has_label_columns else task.label_columns
    left_out = {*find_incomplete_rows(placed, task.text, label)}
    return [row for row in placed if row[0] not in left_out]


def read_rows(
    path: Path,
    encoding: str | None = None,
    sheet: str | None = None,
    keep_empty: bool = False,
) -> Iterator[PlacedRow]:
    """Read the rows of a file in one of `FORMATS`. Files with other extensions are read as CSV.

    Args:
        encoding: the encoding of a CSV or TSV file; see `read_text`.
        sheet: the sheet of an Excel file; None means the first sheet that is not hidden.
        keep_empty: whether rows that have only empty cells are returned. In a CSV file with a
            single column, such a row is an empty line.
    """
    match path.suffix.lower():
        case ".json" | ".jsonl":
            rows = json_rows(path)
        case ".xlsx":
            rows = excel_rows(path, sheet, keep_empty)
        case ".parquet":
            rows = parquet_rows(path)
        case _:
            rows = delimited_rows(path, encoding, keep_empty)
    for placed in rows:
        place, row = placed
        row |= {column: None for column, cell in row.items() if cell == ""}
        if keep_empty or any(cell is not None for cell in row.values()):
            _require_no_header(row, f"{path}: {place}")
            yield placed


def _require_no_header(row: Cells, place: str) -> None:
    """Check that the row at ``place`` is not a second header, as in files that were joined."""
    names, cells = (
        [str(cell).strip("\ufeff \t").casefold() for cell in line if cell]
        for line in (row, row.values())
    )
    if len(names) > 1 and sorted(cells) == sorted(names):
        hint = "" if cells == names else ", and reorder the cells below it like the first header"
        raise SubtuneError(f"{place}: this row is a second header; delete it{hint}")
    if any(cell.startswith(QUALTRICS) for cell in cells):
        raise SubtuneError(
            f"{place}: this row is a header from Qualtrics; keep only the first of the three "
            "headers"
        )


def find_incomplete_rows(
    rows: Sequence[PlacedRow], text: Collection[str], label: Collection[str]
) -> list[str]:
    """Return the places of the rows without text or label, which are left out of a task.

    If more than the share `INCOMPLETE_SHARE` of all rows is incomplete, no row is left out: this is
    probably a mistake, which a later check reports. One text of a pair may be empty. If ``label``
    is empty, rows need no label.
    """
    incomplete = []
    for place, cells in rows:
        filled = {column for column in (*text, *label) if str(cells.get(column) or "").strip()}
        if filled.isdisjoint(text) or not filled.issuperset(label):
            incomplete.append(place)
    return incomplete if len(incomplete) <= INCOMPLETE_SHARE * len(rows) else []


def fill_empty_flags(rows: Sequence[PlacedRow], columns: Collection[str]) -> list[PlacedRow]:
    """Fill the empty cells of 0/1 columns with 0, unless one of the columns contains a 0.

    Survey tools write a 1, or a mark, for each answer that was chosen, and nothing for the others.
    """
    if any(parse_flag(row.get(column)) == 0 for _, row in rows for column in columns):
        return [*rows]
    return [(place, row | {c: row.get(c) or "0" for c in columns}) for place, row in rows]


def json_rows(path: Path) -> Iterator[PlacedRow]:
    """Read rows from JSON: one object per line, or a list, which may be the value of ``data``.

    Numbers are kept as strings, exactly as written. In files written by subtune, a row's place is
    its place in the user's file.
    """
    content, broken = read_text(path), f"{path}: not a readable {path.suffix} file"
    rows: Iterable[tuple[str, Any]]
    if (single := _parse_single_json(content, broken, path.suffix.lower())) is not None:
        rows = pair_with_places(single)
    else:
        lines = ((n, line) for n, line in enumerate(split_lines(content), start=1) if line.strip())
        rows = ((f"line {number}", _parse_json(line, number, broken)) for number, line in lines)
    for place, row in rows:
        if not isinstance(row, dict):
            raise SubtuneError(f"{broken}: {place}: found {quote(row)}, expected an object")
        place = row.pop(PLACE_KEY, place)
        yield place, {column: cell_text(cell) for column, cell in row.items()}


def _parse_single_json(content: str, broken: str, ending: str) -> list | None:
    """Return the rows of a file with a single JSON value, or None if each line is a JSON value."""
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
        # In JSON lines, a single object with lists of words is a row.
        case {**columns} if ending == ".json" and {*map(type, columns.values())} in PANDAS:
            raise SubtuneError(
                f"{broken}: this JSON layout of pandas is not supported; write the file with "
                'df.to_json(path, orient="records")'
            )
    return None


def _parse_json(content: str, line: int, broken: str) -> Any:
    """Parse a JSON value, which begins on line ``line`` of its file."""
    try:
        return json.loads(content, parse_int=str, parse_float=str, parse_constant=lambda name: None)
    except json.JSONDecodeError as error:
        mistake = f"line {line + error.lineno - 1}: {error.msg} in column {error.colno}"
    except RecursionError:
        mistake = f"line {line}: too deeply nested"
    raise SubtuneError(f"{broken}: {mistake}, expected an object")


def write_rows(path: Path, rows: Iterable[PlacedRow]) -> None:
    """Write rows to a JSON-lines file, with their places in the user's file."""
    named = ({PLACE_KEY: place} | dict(cells) for place, cells in rows)
    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in named)
    write_text(path, "".join(f"{line}\n" for line in lines))
