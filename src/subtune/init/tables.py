"""A user's tables with any columns, numbers in their cells, and names made from their files."""

import math
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, one_of
from subtune.data.table_files import FORMATS, read_table
from subtune.data.text_files import file_ending
from subtune.tasks import TASKS
from subtune.tasks.labels import with_decimal_point

# The most characters of a name, without the ending that is added if the name is taken.
LONGEST = 56
# Endings of training files' names.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


class Table(NamedTuple):
    """A file's columns in order, and its rows, each with its place, such as ``line 3``."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[str, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """Return a column's cells from top to bottom; a missing cell is None."""
        return [row.get(column) for _, row in self.rows]

    def words(self, column: str) -> list[str]:
        """Return a column's cells that are not empty, as text."""
        cells = (str(cell).strip() for cell in self.cells(column) if cell is not None)
        return [cell for cell in cells if cell]


def read(path: Path, encoding: str | None = None, sheet: str | None = None) -> Table:
    """Read a whole file.

    Args:
        path: the file.
        encoding: the encoding of a text file; default: UTF-8 or UTF-16.
        sheet: the sheet of an Excel file; default: the first.

    Raises:
        SubtuneError: the file is missing, is not in the format of its extension, or has no rows.
    """
    if file_ending(path) not in FORMATS:
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = [*read_table(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    return Table(path, tuple(dict.fromkeys(column for _, row in rows for column in row)), rows)


def number_in(text: str) -> float | None:
    """Return the finite number in a text, or None."""
    try:
        number = float(with_decimal_point(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_number(text: str) -> bool:
    """Return whether a text is a number, even if its comma may separate thousands."""
    return number_in(text.replace(",", ".")) is not None


def task_named_after(path: Path) -> str:
    """Return a task's name from its training file: ``reviews`` for ``reviews-train.csv``.

    For ``train.csv``, the name is the folder's.
    """
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", path.resolve().parent.name)
    return named_like(subject, [*TASKS, *HEADINGS], "task")


def named_like(text: str, taken: Collection[str], kind: str) -> str:
    """Return a name made from a text; ``kind`` is appended if the name is taken or empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:LONGEST]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words
