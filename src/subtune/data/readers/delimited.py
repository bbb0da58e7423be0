"""Tables of cells between commas, semicolons or tabs: CSV and TSV files."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from subtune.core.errors import SubtuneError, listed
from subtune.data.readers.text import ending_of, read_text, require_once
from subtune.tasks.task_kind import PlacedRow

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
    delimiter, lines = _delimited_lines(path, encoding)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    first = 1
    try:
        header = next(filter(None, reader), [])
        require_once(columns, header, f"{path}: line {reader.line_num}")
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


def _delimited_lines(path: Path, encoding: str | None) -> tuple[str, list[str]]:
    """Return the delimiter and the lines. A first line that names the delimiter is left empty."""
    lines = list(io.StringIO(read_text(path, encoding), newline=""))
    if lines and (separator := SEPARATOR.fullmatch(lines[0])):
        # The reader skips empty lines, but counts them.
        return separator[1], ["\n", *lines[1:]]
    # Excel writes ; in many countries.
    header = next((line for line in lines if line.strip()), "")
    usual = "\t" if ending_of(path) == ".tsv" else ","
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
