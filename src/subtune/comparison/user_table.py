"""A user's table, and guesses of its text columns, label columns and kind of task."""

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from subtune.comparison import DEFAULTS, Kind
from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.data.table_files import FORMATS, read_rows
from subtune.tasks import TASKS
from subtune.tasks.sentences import parse_flag, parse_labels, plain_label, with_decimal_point

# Endings of training files' names.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


class UserTable(NamedTuple):
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


def read_user_table(path: Path, encoding: str | None = None, sheet: str | None = None) -> UserTable:
    """Read a whole file.

    Args:
        path: the file.
        encoding: the encoding of a text file; default: UTF-8 or UTF-16.
        sheet: the sheet of an Excel file; default: the first.

    Raises:
        SubtuneError: the file is missing, is not in the format of its extension, or has no rows.
    """
    if path.suffix.lower() not in FORMATS:
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = [*read_rows(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    return UserTable(path, tuple(dict.fromkeys(column for _, row in rows for column in row)), rows)


def parse_number(text: str) -> float | None:
    """Return the finite number in a text, or None."""
    try:
        number = float(with_decimal_point(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_number(text: str) -> bool:
    """Return whether a text is a number, even if its comma may separate thousands."""
    return parse_number(text.replace(",", ".")) is not None


def make_task_name(path: Path) -> str:
    """Return a task's name from its training file: ``reviews`` for ``reviews-train.csv``.

    For ``train.csv``, the name is the folder's.
    """
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", path.resolve().parent.name)
    return make_name(subject, [*TASKS, *HEADINGS], "task")


def make_name(text: str, taken: Collection[str], kind: str) -> str:
    """Return a name made from a text; ``kind`` is appended if the name is taken or empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    # A name has at most 64 characters, with the ending that is added if it is taken.
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:56]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words


# One label column, or several of 0 and 1.
LabelColumns = str | tuple[str, ...]
# Names of columns with ids of rows or people. A DataFrame's index is written without a name.
ID = re.compile(r"(?i:(^|[_ .-])(ids?|idx|index|uuid|guid))$|[a-z]I[dD]$|^(Unnamed: 0)?$")
# A word with a digit: ``tt0111161``.
CODE = re.compile(r"\S*\d\S*")


def guess_label_columns(table: UserTable) -> LabelColumns:
    """Return the column with a usual label name, or the only column that can be the label.

    If only columns of 0 and 1 can be the label, return all of them.

    Raises:
        SubtuneError: no column can be the label, or several can, or there is no header.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for name in DEFAULTS.label_columns:
        if name in by_folded:
            return by_folded[name]
    reasons = {column: reason_against_label(table, column) for column in table.columns}
    possible = [column for column, reason in reasons.items() if reason is None]
    flags = tuple(c for c in table.columns if None not in map(parse_flag, table.cells(c)))
    if len(flags) > 1 and {*possible} <= {*flags}:
        return flags
    if len(possible) == 1:
        _require_header(table, possible[0])
        return possible[0]
    found = f"several may be the label ({listed(possible)})"
    if not possible:
        found = (
            f"none can be the label ({listed(f'{name}: {why}' for name, why in reasons.items())})"
        )
    raise SubtuneError(
        f"--label: missing, and of the columns of {table.path} {found}; expected one of "
        f"{listed(table.columns)}"
    )


def _require_header(table: UserTable, label: str) -> None:
    """Refuse a table whose first line is a row.

    The name of one column is then a sentence, and the name of the label column is one of the
    labels, or a number like the labels.
    """
    has_sentence = any(len(name.split()) >= DEFAULTS.text_words for name in table.columns)
    labels = table.words(label)
    are_numbers = None not in map(parse_number, [label, *labels])
    if has_sentence and (are_numbers or label.strip() in labels):
        raise SubtuneError(
            f"{table.path}: found {cut(label)!r} as the name of the label column, which looks like "
            "a label; expected a header such as text,label above the first row (if this is the "
            "header, --label names the column)"
        )


def reason_against_label(table: UserTable, column: str) -> str | None:
    """Return why a column cannot be the label; None if it has numbers, or a few repeated words."""
    words = table.words(column)
    different = len({*words})
    if different < 2:
        return "always the same" if words else "empty"
    if other := ids_or_dates(table, column):
        return other
    if _holds_sentences(table.cells(column)):
        return "sentences"
    are_classes = different <= DEFAULTS.classes_of_words and 2 * different <= len(words)
    if not are_classes and None in map(parse_number, words):
        return f"{different:,} different words in {len(words):,} cells"
    return None


def ids_or_dates(table: UserTable, column: str) -> str | None:
    """Return ``ids`` or ``dates`` if a column has them; such a column is neither text nor label."""
    words = table.words(column)
    are_codes = all(
        word.isdecimal() or (CODE.fullmatch(word) and parse_number(word) is None) for word in words
    )
    if ID.search(column) or (len({*words}) == len(words) and are_codes):
        return "ids"
    others = [word for word in words[: DEFAULTS.dates_looked_at] if not is_number(word)]
    # The name of a month is no date.
    if not others or not all(re.search(r"\d", word) for word in others):
        return None
    # Importing pandas takes a while.
    import pandas as pd

    dates = pd.to_datetime(pd.Series(others), format="mixed", utc=True, errors="coerce")
    return "dates" if dates.notna().all() else None


def guess_text_columns(table: UserTable, labels: Collection[str]) -> tuple[str, ...]:
    """Return the one or two columns of sentences that are not label columns.

    If no column has sentences, columns of titles or names are returned: those with mostly distinct
    cells, or else all of them.

    Raises:
        SubtuneError: there are none, or more than two.
    """
    others = [column for column in table.columns if column not in labels]
    likely = [column for column in others if ids_or_dates(table, column) is None]
    texts = [column for column in likely if _holds_sentences(table.cells(column))]
    words = [column for column in likely if _holds_words(table.cells(column))]
    names = [column for column in words if _share_of_different(table.cells(column)) > 0.5]
    columns = texts or names or words
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
    is_varied = _share_of_different(cells) >= DEFAULTS.text_distinct
    return _holds_words(cells) and is_varied and words >= DEFAULTS.text_words * len(cells)


def _share_of_different(cells: list[Any]) -> float:
    return len({*map(str, cells)}) / len(cells)


def _holds_words(cells: list[Any]) -> bool:
    """Return whether most cells are text and not numbers.

    Empty cells are refused later, with their lines.
    """
    texts = [cell for cell in cells if isinstance(cell, str) and not is_number(cell)]
    return 2 * len(texts) > len(cells) and any(map(str.strip, texts))


def label_names(label: LabelColumns) -> tuple[str, ...]:
    """Return the names of the label columns."""
    return (label,) if isinstance(label, str) else label


def row_labels(
    row: Mapping[str, Any], label: LabelColumns, kind: Kind | None
) -> tuple[str, ...] | None:
    """Return the labels of a row, or None if its cells have none.

    Args:
        row: cells by column.
        label: the label columns.
        kind: kind of task; only multi-label rows have several labels, or an empty set of labels.
    """
    if not isinstance(label, str):
        flags = [parse_flag(row.get(name)) for name in label]
        return None if None in flags else tuple(sorted(compress(label, flags)))
    cell = row.get(label)
    if kind == "multilabel":
        words = parse_labels(cell)
        return None if words is None else tuple(sorted({*map(plain_label, words)}))
    return (plain_label(cell),) if isinstance(cell, str) and plain_label(cell) else None


def guess_kind(table: UserTable, label: LabelColumns) -> Kind:
    """Return the kind of task that the labels of a table look like."""
    if not isinstance(label, str) or _are_lists(table.cells(label)):
        return "multilabel"
    labels = {word for _, row in table.rows for word in row_labels(row, label, None) or ()}
    numbers = [number for word in labels if (number := parse_number(word)) is not None]
    others = len(labels) - len(numbers)
    if len(numbers) > DEFAULTS.classes_of_numbers:
        # A few words among many numbers are mistakes, which are refused later, with their lines.
        are_measured = 10 * others < len(labels)
    else:
        are_measured = not others and not all(number.is_integer() for number in numbers)
    return "regression" if are_measured else "classification"


def _are_lists(cells: Sequence[Any]) -> bool:
    """Return whether cells are lists: most are, or ``|`` or ``;`` joins few different words."""
    given = [cell for cell in cells if cell]
    lists = [c for c in given if not isinstance(c, str) or c.lstrip().startswith("[")]
    if 2 * len([cell for cell in lists if parse_labels(cell) is not None]) > len(given):
        return True
    different = {cell for cell in given if isinstance(cell, str)}
    words = {word for cell in different for word in parse_labels(cell) or ()}
    return any("|" in cell or ";" in cell for cell in different) and len(words) < len(different)


def label_order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = parse_number(label)
    return (math.inf if number is None else number), label
