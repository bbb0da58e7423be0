"""A user's table, and guesses of its text columns, label columns and kind of task."""

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from subtune.comparison import DEFAULTS, Kind
from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.data.table_files import FEW, FORMATS, read_rows
from subtune.tasks import TASKS
from subtune.tasks.sentences import (
    SEPARATORS,
    is_list,
    parse_flag,
    parse_label,
    parse_labels,
    parse_number,
    plain_label,
)

# What to do with words and their labels.
HOW_WORDS = "labels of words need a configuration with `kind: tokens` (docs/own-data.md)"
OBJECTS = "nested lists or objects"
HOW_OBJECTS = (
    "labels are text, numbers, or lists of these (Label Studio exports them as JSON-MIN or CSV); "
    f"{HOW_WORDS}"
)
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
    if (ending := path.suffix.lower()) not in FORMATS:
        hint = f"; {HOW_WORDS}" if ending.startswith(".conll") else ""
        raise SubtuneError(f"{path}: {one_of(path.suffix, FORMATS)} as the ending{hint}")
    # Unclosed quotation marks are found later, once the label column is known.
    rows = [*read_rows(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: found no rows, expected at least one")
    return UserTable(path, tuple(dict.fromkeys(column for _, row in rows for column in row)), rows)


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


# A power of ten without a sign or a point.
POWER = re.compile(r"\d+[eE]\d+")


def require_texts(table: UserTable, named: Collection[str]) -> None:
    """Refuse a table of words: lists of words, and lists of labels that are as long.

    Args:
        table: the table, which may have a column of texts too.
        named: the text columns, if the user names some.

    Raises:
        SubtuneError: a column of words is named, or there are no texts.
    """
    lengths = {}
    for column in table.columns:
        cells = [cell for cell in table.cells(column) if cell not in (None, "")]
        lists = [parse_labels(cell) for cell in cells] if all(map(is_list, cells)) else [None]
        if None not in lists:
            lengths[column] = [len(words or ()) for words in lists]
    for column, counts in lengths.items():
        tags = [other for other in lengths if other != column and lengths[other] == counts]
        if not tags or sum(counts) < DEFAULTS.text_words * len(counts):
            continue
        texts = (c for c in table.columns if c not in lengths and _holds_sentences(table.cells(c)))
        if column in named or not (named or any(texts)):
            raise SubtuneError(
                f"{table.path}: columns {column!r} and {tags[0]!r} have lists of the same lengths, "
                f"as of words and their labels; expected a text in each row; {HOW_WORDS}"
            )


def _are_objects(cells: Sequence[Any]) -> bool:
    """Return whether most cells are objects, or lists of lists or objects."""
    nested = [c for c in cells if isinstance(c, list | dict) and parse_labels(c) is None]
    return 2 * len(nested) > len(cells)


def require_labels_as_text(table: UserTable, columns: Collection[str]) -> None:
    """Refuse label columns of objects."""
    for column in columns:
        if _are_objects(table.cells(column)):
            raise SubtuneError(f"{table.path}: column {column!r} has {OBJECTS}; {HOW_OBJECTS}")


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
        # In a table of decisions about a single label, another column has the decisions.
        if name in by_folded and len({*table.words(by_folded[name])}) > 1:
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
    hint = f"; {HOW_OBJECTS}" if OBJECTS in reasons.values() else ""
    raise SubtuneError(
        f"--label: missing, and of the columns of {table.path} {found}; expected one of "
        f"{listed(table.columns)}{hint}"
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
    if _are_objects(table.cells(column)):
        return OBJECTS
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
    if not _holds_words(cells) or _share_of_different(cells) < DEFAULTS.text_distinct:
        return False
    some = _sample(cells)
    return sum(len(str(cell).split()) for cell in some) >= DEFAULTS.text_words * len(some)


def _share_of_different(cells: list[Any]) -> float:
    return len({*map(str, cells)}) / len(cells)


def _holds_words(cells: list[Any]) -> bool:
    """Return whether most cells are text and not numbers.

    Empty cells, which may be text, are refused later, with their lines.
    """
    some = _sample(cells)
    are_text = [cell is None or (isinstance(cell, str) and not is_number(cell)) for cell in some]
    is_text = any(isinstance(cell, str) and not is_number(cell) for cell in cells if cell)
    return 2 * sum(are_text) > len(some) and is_text


def _sample(cells: list[Any]) -> list[Any]:
    """Return every cell of a small table, or some from all over a large one."""
    return cells[:: -(-len(cells) // DEFAULTS.rows_measured)]


def label_names(label: LabelColumns) -> tuple[str, ...]:
    """Return the names of the label columns."""
    return (label,) if isinstance(label, str) else label


def row_labels(
    row: Mapping[str, Any], label: LabelColumns, kind: Kind | None, separators: str | None = None
) -> tuple[str, ...] | None:
    """Return the labels of a row, or None if its cells have none.

    Args:
        row: cells by column.
        label: the label columns.
        kind: kind of task; only multi-label rows have several labels, or an empty set of labels.
        separators: the characters that separate labels in a cell.
    """
    if not isinstance(label, str):
        flags = [parse_flag(row.get(name)) for name in label]
        return None if None in flags else tuple(sorted(compress(label, flags)))
    cell = row.get(label)
    # The same few texts come again and again.
    read = _plain_labels if isinstance(cell, str | None) else _plain_labels.__wrapped__
    return read(cell, kind, separators)


@lru_cache(maxsize=10_000)
def _plain_labels(cell: Any, kind: Kind | None, separators: str | None) -> tuple[str, ...] | None:
    words = cell_labels(cell, kind, separators)
    if words is None or kind == "multilabel":
        return None if words is None else tuple(sorted({*map(plain_label, words)}))
    return tuple(filter(None, map(plain_label, words))) or None


def cell_labels(cell: Any, kind: Kind | None, separators: str | None) -> list[str] | None:
    """Return the labels in a cell as they are written, or None if it cannot be read.

    The arguments are explained at `row_labels`.
    """
    if kind == "multilabel":
        return parse_labels(cell, separators or SEPARATORS[0])
    word = parse_label(cell)
    return [word] if isinstance(word, str) else None


def guess_kind(table: UserTable, label: LabelColumns) -> Kind:
    """Return the kind of task that the labels of a table look like."""
    if not isinstance(label, str):
        return "multilabel"
    cells = table.cells(label)
    if _are_sets(cells) or find_separators(cells):
        return "multilabel"
    labels = {word for _, row in table.rows for word in row_labels(row, label, None) or ()}
    # Programs write a sign or a point into powers of ten; 1E5 is the name of something.
    words = [word for word in labels if not POWER.fullmatch(word)]
    numbers = {word: n for word in words if (n := parse_number(word)) is not None}
    others = len(labels) - len(numbers)
    if _are_codes(numbers):
        are_measured = False
    elif len(numbers) > DEFAULTS.classes_of_numbers:
        # A few words among many numbers are mistakes, which are refused later, with their lines.
        are_measured = 10 * others < len(labels)
    else:
        are_measured = not others and not all(n.is_integer() for n in numbers.values())
    return "regression" if are_measured else "classification"


def _are_codes(numbers: Collection[str]) -> bool:
    """Return whether numbers are equally long integers, some with a zero in front, as in 0101."""
    lengths = {len(number) if number.isdecimal() else 0 for number in numbers}
    return len(lengths) == 1 and min(lengths) > 1 and any(n.startswith("0") for n in numbers)


def _are_sets(cells: Sequence[Any]) -> bool:
    """Return whether a list has several labels, or most cells are lists and some have no label."""
    given = [cell for cell in cells if cell not in (None, "")]
    lists = [parse_labels(cell) for cell in given if is_list(cell)]
    lengths = [len(labels) for labels in lists if labels is not None]
    lack_some = 2 * len(lengths) > len(given) and lengths.count(0) > FEW * len(lengths)
    return max(lengths, default=0) > 1 or lack_some


def find_separators(cells: Sequence[Any]) -> str | None:
    """Return the characters at which few different labels are separated in many different cells.

    The comma of a number, and in a name such as Paris, France, separates no labels.
    """
    texts = {cell.strip() for cell in cells if isinstance(cell, str) and not is_list(cell)}
    different = {text for text in texts if text and not is_number(text)}
    for separators in SEPARATORS:
        words = {word for text in different for word in parse_labels(text, separators) or ()}
        if len(words) < len(different):
            return separators
    return None


def label_order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = parse_number(label)
    return (math.inf if number is None else number), label
