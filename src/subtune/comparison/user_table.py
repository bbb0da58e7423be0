"""Read a user's table, and guess its text columns, label columns and kind of task."""

import math
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

from subtune.comparison import DEFAULTS, Kind
from subtune.config.checks import HEADINGS
from subtune.core.errors import SubtuneError, format_allowed, join_names, shorten
from subtune.data.table_files import FORMATS, INCOMPLETE_SHARE, read_rows
from subtune.tasks import TASKS
from subtune.tasks.sentences import (
    FLAGS,
    SEPARATORS,
    is_list,
    parse_flag,
    parse_label,
    parse_labels,
    parse_number,
    plain_label,
)

# Advice for token-classification tables, and for labels that are objects.
HOW_WORDS = (
    "token classification (one label per word) needs a configuration with `kind: tokens` "
    "(docs/own-data.md)"
)
OBJECTS = "nested lists, objects or bytes"
HOW_OBJECTS = (
    "use labels that are text, numbers, or lists of these (in Label Studio, export as JSON-MIN or "
    "CSV); "
    f"{HOW_WORDS}"
)
# The suffix that is removed from a training file's name to get the task's name.
SPLIT = re.compile(r"(?i)(^|[^a-z0-9]+)(train|training|trn)$")


class UserTable(NamedTuple):
    """The rows of a file. Each row has a place, such as ``line 3``, and maps columns to cells."""

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[str, dict[str, Any]]]

    def cells(self, column: str) -> list[Any]:
        """Return the cells of a column from top to bottom. A missing cell is None."""
        return [row.get(column) for _, row in self.rows]

    def filled_cells(self, column: str) -> list[str]:
        """Return the nonempty cells of a column as strings without surrounding spaces."""
        cells = (str(cell).strip() for cell in self.cells(column) if cell is not None)
        return [cell for cell in cells if cell]


def read_user_table(path: Path, encoding: str | None = None, sheet: str | None = None) -> UserTable:
    """Read all rows of a file.

    By default, ``encoding`` is UTF-8 or UTF-16, and ``sheet`` is the first sheet that is not
    hidden. A `SubtuneError` is raised if the file is missing, has no rows, or is not in the format
    of its extension.
    """
    if (ending := path.suffix.lower()) not in FORMATS:
        hint = f"; {HOW_WORDS}" if ending.startswith(".conll") else ""
        raise SubtuneError(f"{path}: extension: {format_allowed(path.suffix, FORMATS)}{hint}")
    # Unclosed quotation marks are reported later, when the label column is known.
    rows = [*read_rows(path, encoding=encoding, sheet=sheet)]
    if not rows:
        raise SubtuneError(f"{path}: the file has no rows, expected at least one")
    return UserTable(path, tuple(dict.fromkeys(column for _, row in rows for column in row)), rows)


def is_number(text: str) -> bool:
    """Return whether a string is a number. A comma may separate decimals or thousands."""
    return parse_number(text.replace(",", ".")) is not None


def make_task_name(path: Path) -> str:
    """Derive a task's name: ``reviews`` from ``reviews-train.csv`` or ``reviews/train.csv``."""
    # Tables in memory are written to the directory `Layout.tables`.
    directory = path.resolve().parent.name.removeprefix("table-")
    subject = SPLIT.sub("", path.stem) or SPLIT.sub("", directory)
    return make_name(subject, [*TASKS, *HEADINGS], "task")


def make_name(text: str, taken: Collection[str], kind: str) -> str:
    """Derive a name from a string: at most 56 letters, digits and characters of ``_.+-``.

    ``kind`` is added to names in ``taken``, which are in lower case. If no character is left, the
    name is ``my-{kind}``.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    # Names may have 64 characters. The remaining ones are reserved for the suffix.
    words = re.sub(r"[^A-Za-z0-9_.+-]+", "-", plain).strip("-._+")[:56]
    if not words:
        return f"my-{kind}"
    return f"{words}-{kind}" if words.casefold() in taken else words


# A number in scientific notation without a sign or decimal point, such as ``1E5``.
POWER = re.compile(r"\d+[eE]\d+")


def require_texts(table: UserTable, named: Collection[str]) -> None:
    """Check that a table has texts, and not only lists of words with one label per word.

    Two columns contain words and their labels if all cells are lists, and the two lists of each row
    have the same length. A `SubtuneError` is raised if a text column that the user has ``named``
    contains such lists, or if there is no other column of sentences.
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
        texts = (c for c in table.columns if c not in lengths and _has_sentences(table.cells(c)))
        if column in named or not (named or any(texts)):
            raise SubtuneError(
                f"{table.path}: found lists of equal lengths in the columns {column!r} and "
                f"{tags[0]!r} (words with one label each?), expected one text per row; {HOW_WORDS}"
            )


def _are_objects(cells: Sequence[Any]) -> bool:
    """Return whether most cells are objects, lists of objects, nested lists or bytes."""
    nested = [cell for cell in cells if is_list(cell) and parse_labels(cell) is None]
    return 2 * len(nested) > len(cells)


def require_labels_as_text(table: UserTable, columns: Collection[str]) -> None:
    """Check that no label column contains objects, nested lists or bytes."""
    for column in columns:
        if _are_objects(table.cells(column)):
            raise SubtuneError(f"{table.path}: column {column!r} contains {OBJECTS}; {HOW_OBJECTS}")


# The name of the label column, or of several 0/1 label columns.
LabelColumns = str | tuple[str, ...]
# Names of columns with ids. pandas writes the index of a DataFrame as a column without a name.
ID = re.compile(r"(?i:(^|[_ .-])(ids?|idx|index|uuid|guid))$|[a-z]I[dD]$|^(Unnamed: 0)?$")
# A word with a digit, such as ``tt0111161``.
CODE = re.compile(r"\S*\d\S*")


def guess_label_columns(table: UserTable) -> LabelColumns:
    """Guess the label column: a column with a usual name, or the only column that can be the label.

    If several columns can be the label, and all of them contain only 0 and 1, all of them are label
    columns.

    Raises:
        SubtuneError: no column can be the label, or several can, or there is no header.
    """
    by_folded = {column.strip().casefold(): column for column in reversed(table.columns)}
    for name in DEFAULTS.label_columns:
        # A column with a single value cannot be the label, even if it has a usual name.
        if name in by_folded and len({*table.filled_cells(by_folded[name])}) > 1:
            return by_folded[name]
    reasons = {column: reason_against_label(table, column) for column in table.columns}
    possible = [column for column, reason in reasons.items() if reason is None]
    words = {c: {str(cell).strip().casefold() for cell in table.cells(c)} for c in table.columns}
    flags = tuple(column for column in table.columns if words[column] <= FLAGS.keys())
    if len(flags) > 1 and {*possible} <= {*flags}:
        return flags
    if len(possible) == 1:
        _require_header(table, possible[0])
        return possible[0]
    why = join_names(f"{name}: {reason}" for name, reason in reasons.items())
    found = f"no column can be the label ({why})"
    if possible:
        found = f"several columns may be the label ({join_names(possible)})"
    hint = f"; {HOW_OBJECTS}" if OBJECTS in reasons.values() else ""
    raise SubtuneError(
        f"--label: cannot be guessed, because in {table.path} {found}; choose one of "
        f"{join_names(table.columns)}{hint}"
    )


def _require_header(table: UserTable, label: str) -> None:
    """Check that the first line of a table is a header and not a row.

    The first line is a row if a column name is a sentence and the name of the label column is one
    of the labels. If all labels are numbers, the name can be any number.
    """
    has_sentence = any(len(name.split()) >= DEFAULTS.text_words for name in table.columns)
    labels = table.filled_cells(label)
    are_numbers = None not in map(parse_number, [label, *labels])
    if has_sentence and (are_numbers or label.strip() in labels):
        raise SubtuneError(
            f"{table.path}: the first line looks like a row ({shorten(label)!r} looks like a "
            "label), expected a header such as text,label; add it above the first row or, if the "
            "file has a header, set --label"
        )


def reason_against_label(table: UserTable, column: str) -> str | None:
    """Return why a column cannot be the label, or None. Labels are numbers or a few words."""
    if _are_objects(table.cells(column)):
        return OBJECTS
    words = table.filled_cells(column)
    different = len({*words})
    if different < 2:
        return "always the same" if words else "empty"
    if other := detect_ids_or_dates(table, column):
        return other
    if _has_sentences(table.cells(column)):
        return "sentences"
    are_classes = different <= DEFAULTS.classes_of_words and 2 * different <= len(words)
    if not are_classes and None in map(parse_number, words):
        return f"{different:,} different words in {len(words):,} cells"
    return None


def detect_ids_or_dates(table: UserTable, column: str) -> str | None:
    """Return ``ids`` or ``dates`` if a column contains these, and is neither text nor label."""
    words = table.filled_cells(column)
    are_codes = all(
        word.isdecimal() or (CODE.fullmatch(word) and parse_number(word) is None) for word in words
    )
    if ID.search(column) or (len({*words}) == len(words) and are_codes):
        return "ids"
    others = [word for word in words[: DEFAULTS.dates_looked_at] if not is_number(word)]
    # A date has a digit, so names such as May or June are not dates.
    if not others or not all(re.search(r"\d", word) for word in others):
        return None
    # Importing pandas is slow, and `subtune --help` does not need it.
    import pandas as pd

    dates = pd.to_datetime(pd.Series(others), format="mixed", utc=True, errors="coerce")
    return "dates" if dates.notna().all() else None


def guess_text_columns(table: UserTable, labels: Collection[str]) -> tuple[str, ...]:
    """Guess the text columns: the one or two columns of sentences that are not label columns.

    If no column has sentences, the text columns are columns of words, such as titles or names.
    Columns in which more than half of the cells are distinct are preferred.

    Raises:
        SubtuneError: no column can be the text, or more than two can.
    """
    others = [column for column in table.columns if column not in labels]
    likely = [column for column in others if detect_ids_or_dates(table, column) is None]
    texts = [column for column in likely if _has_sentences(table.cells(column))]
    words = [column for column in likely if _is_text_column(table.cells(column))]
    names = [column for column in words if _share_of_different(table.cells(column)) > 0.5]
    columns = texts or names or words
    if len(columns) in (1, 2):
        return tuple(columns)
    if not others:
        raise SubtuneError(
            f"--text: {table.path} has only the label column ({join_names(labels)}), expected a "
            "column of texts"
        )
    found = f"several columns may be the text ({join_names(columns)})"
    if not columns:
        found = "no column contains text"
    raise SubtuneError(
        f"--text: cannot be guessed, because in {table.path} {found}; choose one of "
        f"{join_names(others)} (for pairs of texts, also set --text2)"
    )


def _has_sentences(cells: list[Any]) -> bool:
    """Return whether most cells are texts of several words, and enough of them are distinct."""
    if not _is_text_column(cells) or _share_of_different(cells) < DEFAULTS.text_distinct:
        return False
    some = _sample(cells)
    return sum(len(str(cell).split()) for cell in some) >= DEFAULTS.text_words * len(some)


def _share_of_different(cells: list[Any]) -> float:
    return len({*map(str, cells)}) / len(cells)


def _is_text_column(cells: list[Any]) -> bool:
    """Return whether most cells are text. Empty cells count, because a later check reports them."""
    some = _sample(cells)
    are_text = [cell is None or (isinstance(cell, str) and not is_number(cell)) for cell in some]
    is_text = any(isinstance(cell, str) and not is_number(cell) for cell in cells if cell)
    return 2 * sum(are_text) > len(some) and is_text


def _sample(cells: list[Any]) -> list[Any]:
    """Return all cells of a small table, or evenly spaced cells of a large one."""
    return cells[:: -(-len(cells) // DEFAULTS.rows_measured)]


def label_columns(label: LabelColumns) -> tuple[str, ...]:
    """Return the names of the label columns as a tuple."""
    return (label,) if isinstance(label, str) else label


class LabelRule(NamedTuple):
    """How the labels of a table are read, before its task is known.

    Training reads them by `subtune.tasks.task_kind.TaskKind`, which knows the task's labels. Both
    parse a cell by the functions of `subtune.tasks.sentences`.

    Attributes:
        label: the label column, or several 0/1 columns.
        separators: the characters that separate several labels in a cell; None if cells have no
            separators.
    """

    label: LabelColumns
    kind: Kind
    separators: str | None = None

    def read_words(self, row: Mapping[str, Any]) -> list[str] | None:
        """Read the labels of a row as they are written, or return None if the row has no label.

        Only a row of a multi-label task may have several labels, or an empty list of labels.
        """
        if not isinstance(self.label, str):
            flags = [parse_flag(row.get(name)) for name in self.label]
            return None if None in flags else sorted(compress(self.label, flags))
        cell = row.get(self.label)
        if self.kind == "multilabel":
            return parse_labels(cell, self.separators or SEPARATORS[0])
        word = parse_label(cell)
        return [word] if isinstance(word, str) else None

    def normalise(self, words: list[str] | None) -> tuple[str, ...] | None:
        """Convert the labels that `read_words` has read to the labels of the task."""
        if words is None or not isinstance(self.label, str):
            return None if words is None else tuple(words)
        plain = map(plain_label, words)
        if self.kind == "multilabel":
            return tuple(sorted({*plain}))
        return tuple(filter(None, plain)) or None


def find_label_rule(
    tables: Mapping[str, UserTable], label: LabelColumns, kind: Kind | None
) -> LabelRule:
    """Find how the labels of the splits are read. A ``kind`` that is not given is guessed."""
    if not isinstance(label, str):
        return LabelRule(label, "multilabel")
    cells = [*chain(*(table.cells(label) for table in tables.values()))]
    kind = kind or _guess_kind(cells)
    if kind != "multilabel":
        return LabelRule(label, kind)
    separators = find_separators(tables["train"].cells(label)) or find_separators(cells)
    return LabelRule(label, kind, separators)


def _guess_kind(cells: Sequence[Any]) -> Kind:
    """Guess the kind of task from the cells of the label column."""
    if _are_label_sets(cells) or find_separators(cells):
        return "multilabel"
    labels = {plain_label(word) for word in map(parse_label, cells) if isinstance(word, str)}
    labels.discard("")
    # Programs write scientific notation with a sign or a decimal point, so 1E5 is a class.
    words = [word for word in labels if not POWER.fullmatch(word)]
    numbers = {word: n for word in words if (n := parse_number(word)) is not None}
    others = len(labels) - len(numbers)
    # Integers of equal length, some of them with a leading zero (0101), are codes.
    lengths = {len(number) if number.isdecimal() else 0 for number in numbers}
    has_zero = any(number.startswith("0") for number in numbers)
    are_codes = len(lengths) == 1 and min(lengths) > 1 and has_zero
    are_measured = not others and not all(n.is_integer() for n in numbers.values())
    if len(numbers) > DEFAULTS.classes_of_numbers:
        # A few words among many numbers are mistakes; a later check reports them with their lines.
        are_measured = 10 * others < len(labels)
    return "regression" if are_measured and not are_codes else "classification"


def _are_label_sets(cells: Sequence[Any]) -> bool:
    """Return whether the cells of a column are sets of labels.

    This is the case if a cell is a list of several labels, or if most cells are lists and more than
    the share `INCOMPLETE_SHARE` of these lists are empty.
    """
    given = [cell for cell in cells if cell not in (None, "")]
    lists = (parse_labels(cell) for cell in given if is_list(cell))
    lengths = [len(labels) for labels in lists if labels is not None]
    lack_some = 2 * len(lengths) > len(given) and lengths.count(0) > INCOMPLETE_SHARE * len(lengths)
    return max(lengths, default=0) > 1 or lack_some


def find_separators(cells: Sequence[Any]) -> str | None:
    """Find the characters that separate several labels in the cells of a column, or return None.

    After splitting at the separators, there must be fewer distinct labels than distinct cells.
    Therefore the comma in names such as ``Paris, France`` is not a separator. Numbers are never
    split.
    """
    texts = {cell.strip() for cell in cells if isinstance(cell, str) and not is_list(cell)}
    different = {text for text in texts if text and not is_number(text)}
    for separators in SEPARATORS:
        words = {word for text in different for word in parse_labels(text, separators) or ()}
        if len(words) < len(different):
            return separators
    return None


def label_sort_key(label: str) -> tuple[float, str]:
    """Return the sorting key of a label: numbers by size, then words in alphabetical order."""
    number = parse_number(label)
    return (math.inf if number is None else number), label
