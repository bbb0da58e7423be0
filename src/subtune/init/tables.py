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
from subtune.tasks.formats import FORMATS, rows_of

# Most characters of a name, with room for an ending if the name is taken.
LONGEST = 56
# The end of a file's name that says that it has training rows.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")
# A column of numbers of rows or of people, by its name; pandas writes its index without one.
ID = re.compile(r"(?i:(^|[_ .-])(ids?|idx|index|uuid|guid))$|[a-z]I[dD]$|^(Unnamed: 0)?$")
# A word with a digit: ``tt0111161``.
CODE = re.compile(r"\S*\d\S*")


class Table(NamedTuple):
    """A file's columns in order, and its rows, each with its place, such as ``line 3``."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[str, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """Return a column from top to bottom; None where a row has no such cell."""
        return [row.get(column) for _, row in self.rows]


def read(path: Path, encoding: str | None = None, sheet: str | None = None) -> Table:
    """Read a whole file.

    Args:
        encoding: that of a file that does not tell it.
        sheet: that of an Excel file; by default the first.

    Raises:
        SubtuneError: the file is missing, is not in the format of its ending, or has no rows.
    """
    if path.suffix not in FORMATS:
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = [*rows_of(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    columns = dict.fromkeys(column for _, row in rows for column in row)
    return Table(path, tuple(columns), rows)


def label_column(table: Table) -> str:
    """Return the column with a usual name of a label column, or the only one that can be it.

    Raises:
        SubtuneError: no column has such a name, and none or several can be the label.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for name in DEFAULTS.label_columns:
        if name in by_folded:
            return by_folded[name]
    columns = [column for column in table.columns if can_be_label(table, column)]
    if len(columns) == 1:
        return columns[0]
    none = "none has labels (numbers, or a few words, each in several rows)"
    several = f"several may be the label ({listed(columns)})" if columns else none
    raise SubtuneError(
        f"--label: missing, and of the columns of {table.path} {several}; expected one of "
        f"{listed(table.columns)}"
    )


def has_usual_name(label: str) -> bool:
    """Return whether a column of labels is called as usual."""
    return label.strip().casefold() in DEFAULTS.label_columns


def can_be_label(table: Table, column: str) -> bool:
    """Return whether cells are a few words, each of them several times, or numbers."""
    cells = _given(table.cells(column))
    distinct = len(set(cells))
    are_numbers = None not in map(number_in, cells)
    are_classes = distinct <= DEFAULTS.classes_of_words and 2 * distinct <= len(cells)
    is_text = _holds_sentences(table.cells(column))
    is_other = is_text or not_read(table, column) is not None
    return distinct > 1 and (are_numbers or are_classes) and not is_other


def not_read(table: Table, column: str) -> str | None:
    """Return ``ids`` or ``dates`` if a column has some, which are neither text nor label."""
    cells = _given(table.cells(column))
    are_codes = all(
        cell.isdecimal() or (CODE.fullmatch(cell) and number_in(cell) is None) for cell in cells
    )
    if ID.search(column) or (are_codes and len({*cells}) == len(cells)):
        return "ids"
    # Importing it takes a while.
    import pandas as pd

    some = [cell for cell in cells[: DEFAULTS.dates_looked_at] if number_in(cell) is None]
    are_dates = pd.to_datetime(pd.Series(some), format="mixed", utc=True, errors="coerce").notna()
    return "dates" if some and are_dates.all() else None


def _given(cells: list[Any]) -> list[str]:
    return [text for cell in cells if cell is not None and (text := str(cell).strip())]


def text_columns(table: Table, label: str) -> tuple[str, ...]:
    """Return the one or two columns that hold sentences, without the label's column.

    Raises:
        SubtuneError: no column does, or more than two do.
    """
    others = [column for column in table.columns if column != label]
    likely = [column for column in others if not_read(table, column) is None]
    texts = [column for column in likely if _holds_sentences(table.cells(column))]
    # Titles and names count as texts if no column has sentences, and most are said once.
    words = [column for column in likely if _holds_words(table.cells(column))]
    once = [column for column in words if 2 * len({*table.cells(column)}) > len(table.rows)]
    columns = texts or once or words
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
