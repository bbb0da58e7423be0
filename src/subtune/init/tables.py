"""Tables with any columns, guesses of their label and text columns, and names after them."""

import math
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, listed, one_of
from subtune.init.defaults import DEFAULTS
from subtune.tasks import TASKS
from subtune.tasks.sentences import FORMATS, rows_of

# Most characters of a name, with room for an ending if the name is taken.
LONGEST = 56
# The end of a file's name that says that it has training rows.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


class Table(NamedTuple):
    """A file's columns in order, and its rows, each with its line number."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[int, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """Return a column from top to bottom; None where a row has no such cell."""
        return [row.get(column) for _, row in self.rows]


def read(path: Path, encoding: str | None = None) -> Table:
    """Read a whole file.

    Args:
        encoding: that of a file that does not tell it.

    Raises:
        SubtuneError: the file is missing, is not in the format of its ending, or has no rows.
    """
    if path.suffix not in FORMATS:
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = list(rows_of(path, (), is_row=lambda cells: False, encoding=encoding))
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    columns = dict.fromkeys(column for _, row in rows for column in row)
    return Table(path, tuple(columns), rows)


def label_column(table: Table) -> str:
    """Return the column with a usual name of a label column.

    Raises:
        SubtuneError: no column has such a name.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for name in DEFAULTS.label_columns:
        if name in by_folded:
            return by_folded[name]
    names = ", ".join(DEFAULTS.label_columns)
    raise SubtuneError(
        f"--label: missing, and no column of {table.path} is called {names}; expected one of "
        f"{listed(table.columns)}"
    )


def text_columns(table: Table, label: str) -> tuple[str, ...]:
    """Return the one or two columns that hold sentences, without the label's column.

    Raises:
        SubtuneError: no column does, or more than two do.
    """
    others = [column for column in table.columns if column != label]
    texts = [column for column in others if _holds_sentences(table.cells(column))]
    words = [column for column in others if _holds_words(table.cells(column))]
    # Titles and names count as texts if no column has sentences.
    columns = texts or words
    if len(columns) in (1, 2):
        return tuple(columns)
    if not others:
        raise SubtuneError(f"--text: {table.path} has no column but the label, {label!r}")
    several = f"several may be the text ({listed(columns)})" if columns else "none holds text"
    raise SubtuneError(
        f"--text: missing, and of the columns of {table.path} {several}; expected one of "
        f"{listed(others)}, and a second one as --text2 where texts are pairs"
    )


def _holds_sentences(cells: list[Any]) -> bool:
    """Return whether cells have several words, and most cells differ."""
    words = sum(len(str(cell).split()) for cell in cells)
    is_varied = len(set(map(str, cells))) >= DEFAULTS.text_distinct * len(cells)
    return _holds_words(cells) and is_varied and words >= DEFAULTS.text_words * len(cells)


def _holds_words(cells: list[Any]) -> bool:
    """Return whether most cells are no numbers. Empty ones are refused later, with their lines."""
    texts = [cell for cell in cells if isinstance(cell, str) and number_in(cell) is None]
    return 2 * len(texts) > len(cells) and any(map(str.strip, texts))


def number_in(text: str) -> float | None:
    """Return the finite number that a text writes, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def task_named_after(path: Path) -> str:
    """Return a task's name for its training file: ``reviews`` for ``reviews-train.csv``.

    A file called ``train.csv`` gives the name of its folder.
    """
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", path.resolve().parent.name)
    return named_like(subject, [*TASKS, *HEADINGS], "task")


def named_like(text: str, taken: Collection[str], kind: str) -> str:
    """Return a text as a name; if it is taken or empty, with ``kind`` at its end."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:LONGEST]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words
