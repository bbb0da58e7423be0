"""Tables with any columns, guesses of their label and text columns, and names of tasks."""

import math
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.init import DEFAULTS
from subtune.tasks import TASKS
from subtune.tasks.formats import FORMATS, ending_of, rows_of
from subtune.tasks.sentences import flag_in, with_point

# One label column, or several of 0 and 1.
Columns = str | tuple[str, ...]
# The most characters of a name, without the ending that is added if the name is taken.
LONGEST = 56
# Endings of training files' names.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")
# Names of columns with ids of rows or people. A DataFrame's index is written without a name.
ID = re.compile(r"(?i:(^|[_ .-])(ids?|idx|index|uuid|guid))$|[a-z]I[dD]$|^(Unnamed: 0)?$")
# A word with a digit: ``tt0111161``.
CODE = re.compile(r"\S*\d\S*")


class Table(NamedTuple):
    """A file's columns in order, and its rows, each with its place, such as ``line 3``."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[str, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """Return a column's cells from top to bottom; a missing cell is None."""
        return [row.get(column) for _, row in self.rows]


def read(path: Path, encoding: str | None = None, sheet: str | None = None) -> Table:
    """Read a whole file.

    Args:
        encoding: the encoding of a text file; default: UTF-8 or UTF-16.
        sheet: the sheet of an Excel file; default: the first.

    Raises:
        SubtuneError: the file is missing, is not in the format of its extension, or has no rows.
    """
    if ending_of(path) not in FORMATS:
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = [*rows_of(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    return Table(path, tuple(dict.fromkeys(column for _, row in rows for column in row)), rows)


def label_columns(table: Table) -> Columns:
    """Return the column with a usual label name, or the only column that can be the label.

    If only columns of 0 and 1 can be the label, return all of them.

    Raises:
        SubtuneError: no column can be the label, or several can, or there is no header.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for column in filter(None, map(by_folded.get, DEFAULTS.label_columns)):
        # pandas also reads T1 and 1/5 as dates.
        years = [re.search(r"\b\d{4}\b", cell) for cell in _words(table, column)]
        if None in years or ids_or_dates(table, column) != "dates":
            return column
    reasons = {column: reason_against(table, column) for column in table.columns}
    possible = [column for column, reason in reasons.items() if reason is None]
    flags = tuple(c for c in table.columns if None not in map(flag_in, table.cells(c)))
    if len(flags) > 1 and {*possible} <= {*flags}:
        return flags
    if len(possible) == 1:
        _require_header(table, possible[0])
        return possible[0]
    none = f"none can be the label ({listed(f'{name}: {why}' for name, why in reasons.items())})"
    found = f"several may be the label ({listed(possible)})" if possible else none
    raise SubtuneError(
        f"--label: missing, and of the columns of {table.path} {found}; expected one of "
        f"{listed(table.columns)}"
    )


def _require_header(table: Table, label: str) -> None:
    """Refuse a table without a header: a column is named by a sentence, and the label column by
    one of the labels or by a number like them."""
    sentences = [name for name in table.columns if len(name.split()) >= DEFAULTS.text_words]
    may_lack = ending_of(table.path) in (".csv", ".tsv", ".xlsx") and sentences
    cells = _words(table, label)
    are_numbers = None not in map(number_in, [label, *cells])
    if may_lack and (are_numbers or label.strip() in cells):
        raise SubtuneError(
            f"{table.path}: found {cut(label)!r} as the name of the label column, which looks like "
            "a label; expected a header such as text,label above the first row (if this is the "
            "header, --label names the column)"
        )


def reason_against(table: Table, column: str) -> str | None:
    """Return why a column cannot be the label; None if it has numbers, or a few repeated words."""
    cells = _words(table, column)
    different = len({*cells})
    if different < 2:
        return "always the same" if cells else "empty"
    if other := ids_or_dates(table, column):
        return other
    if _holds_sentences(table.cells(column)):
        return "sentences"
    are_classes = different <= DEFAULTS.classes_of_words and 2 * different <= len(cells)
    if not are_classes and None in map(number_in, cells):
        return f"{different:,} different words in {len(cells):,} cells"
    return None


def ids_or_dates(table: Table, column: str) -> str | None:
    """Return ``ids`` or ``dates`` if a column has them; such a column is neither text nor label."""
    cells = _words(table, column)
    are_codes = all(
        cell.isdecimal() or (CODE.fullmatch(cell) and number_in(cell) is None) for cell in cells
    )
    if ID.search(column) or (are_codes and len({*cells}) == len(cells)):
        return "ids"
    # Importing pandas takes a while.
    import pandas as pd

    # 1,990 is a number, whatever its comma separates.
    some = [c for c in cells[: DEFAULTS.dates_looked_at] if number_in(c.replace(",", ".")) is None]
    are_dates = pd.to_datetime(pd.Series(some), format="mixed", utc=True, errors="coerce").notna()
    # The name of a month is no date.
    have_digits = all(re.search(r"\d", cell) for cell in some)
    return "dates" if some and have_digits and are_dates.all() else None


def _words(table: Table, column: str) -> list[str]:
    """Return the cells of a column that are not empty."""
    cells = (str(cell).strip() for cell in table.cells(column) if cell is not None)
    return [*filter(None, cells)]


def text_columns(table: Table, labels: Collection[str]) -> tuple[str, ...]:
    """Return the one or two columns of sentences that are not label columns.

    Raises:
        SubtuneError: there are none, or more than two.
    """
    others = [column for column in table.columns if column not in labels]
    likely = [column for column in others if ids_or_dates(table, column) is None]
    texts = [column for column in likely if _holds_sentences(table.cells(column))]
    # If no column has sentences, a column of titles or names is text if most of its cells differ.
    words = [column for column in likely if _holds_words(table.cells(column))]
    once = [c for c in words if 2 * len(set(map(str, table.cells(c)))) > len(table.rows)]
    columns = texts or once or words
    if len(columns) in (1, 2):
        return tuple(columns)
    if not others:
        raise SubtuneError(f"--text: {table.path} has no column but the label, {listed(labels)}")
    found = f"several may be the text ({listed(columns)})" if columns else "none holds text"
    raise SubtuneError(
        f"--text: missing, and of the columns of {table.path} {found}; expected one of "
        f"{listed(others)}, and a second one as --text2 where texts are pairs"
    )


def _holds_sentences(cells: list[Any]) -> bool:
    """Return whether cells have several words and are mostly different."""
    words = sum(len(str(cell).split()) for cell in cells)
    is_varied = len(set(map(str, cells))) >= DEFAULTS.text_distinct * len(cells)
    return _holds_words(cells) and is_varied and words >= DEFAULTS.text_words * len(cells)


def _holds_words(cells: list[Any]) -> bool:
    """Return whether most cells are not numbers.

    Empty cells are refused later, with their lines.
    """
    texts = [c for c in cells if isinstance(c, str) and number_in(c.replace(",", ".")) is None]
    return 2 * len(texts) > len(cells) and any(map(str.strip, texts))


def number_in(text: str) -> float | None:
    """Return the finite number in a text, or None."""
    try:
        number = float(with_point(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


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
