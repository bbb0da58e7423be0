"""Facts about tables before training: classes, repeated texts, conflicting labels, lengths."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np

from subtune.comparison import DEFAULTS
from subtune.comparison.request import Kind
from subtune.comparison.user_table import Columns, Table, ids_or_dates, number_in
from subtune.core.errors import listed
from subtune.data.table_files import drop_unlabelled_rows
from subtune.tasks.labels import fold_label, parse_flag, parse_labels


def names_of(label: Columns) -> tuple[str, ...]:
    """Return the names of the label columns."""
    return (label,) if isinstance(label, str) else label


def labels_in(row: Mapping[str, Any], label: Columns, kind: Kind | None) -> tuple[str, ...] | None:
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
        return None if words is None else tuple(sorted(words))
    return (cell.strip(),) if isinstance(cell, str) and fold_label(cell) else None


def guessed_kind(table: Table, label: Columns) -> Kind:
    """Return the kind of task that the labels of a table look like."""
    if not isinstance(label, str) or _are_lists(table.cells(label)):
        return "multilabel"
    labels = {word for _, row in table.rows for word in labels_in(row, label, None) or ()}
    return "regression" if _are_measured(labels) else "classification"


def _are_lists(cells: Sequence[Any]) -> bool:
    """Return whether cells are lists: most are, or ``|`` or ``;`` joins few different words."""
    given = [cell for cell in cells if cell]
    lists = [c for c in given if not isinstance(c, str) or c.lstrip().startswith("[")]
    if 2 * len([cell for cell in lists if parse_labels(cell) is not None]) > len(given):
        return True
    different = {cell for cell in given if isinstance(cell, str)}
    words = {word for cell in different for word in parse_labels(cell) or ()}
    return any("|" in cell or ";" in cell for cell in different) and len(words) < len(different)


def _are_measured(labels: Collection[str]) -> bool:
    """Return whether labels look like numbers to predict: decimals, or many different integers."""
    numbers = [number for label in labels if (number := number_in(label)) is not None]
    others = len(labels) - len(numbers)
    if len(numbers) > DEFAULTS.classes_of_numbers:
        # A few words among many numbers are mistakes, which are refused later, with their lines.
        return 10 * others < len(labels)
    return not others and not all(number.is_integer() for number in numbers)


def order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = number_in(label)
    return (math.inf if number is None else number), label


def near_equal(labels: Iterable[str]) -> list[list[str]]:
    """Return groups of labels that are equal after `without_signs`."""
    groups = defaultdict[str, list[str]](list)
    for label in labels:
        groups[without_signs(label)].append(label)
    return [group for group in groups.values() if len(group) > 1]


def without_signs(label: str) -> str:
    """Return a label without capitals, and without signs between and around its words.

    Equal numbers, such as ``1`` and ``1.0``, become the same text.
    """
    plain = fold_label(unicodedata.normalize("NFKC", label))
    number = number_in(plain)
    between_words = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", plain)
    return between_words.strip(" .'\"") if number is None else str(number)


# The share of rows on which one of two methods is right and the other wrong. The median over pairs
# of methods was 0.08 to 0.15 in runs of MiniLM on SST-2, CoLA and MRPC.
DIFFERING = 1 / 8
# Half of a 95 % interval, in standard errors.
HALF = 1.96


class Row(NamedTuple):
    """A row.

    Attributes:
        place: the row's place in words, such as ``line 3``.
        texts: one or two texts, in which any white space is one space.
        labels: the labels, or None if the cells have none.
    """

    place: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None


@dataclass(frozen=True)
class Part:
    """The facts about one split.

    Attributes:
        path: the split's file.
        rows: the number of rows.
        labels: the number of rows of each class; empty if numbers are predicted.
        missing: the places of empty cells, by column.
        left_out: the places of rows that are left out because they have no label.
        repeated: the number of rows that repeat an earlier text.
        also_in: for each earlier split, the number of rows whose text is also in that split.
    """

    path: str
    rows: int
    labels: dict[str, int]
    missing: dict[str, list[str]]
    left_out: list[str]
    repeated: int
    also_in: dict[str, int]


@dataclass(frozen=True)
class Conflict:
    """A text with different labels, and the places of each label."""

    text: str
    labels: dict[str, list[str]]


@dataclass(frozen=True)
class Lengths:
    """Lengths of the training texts in tokens, with special tokens.

    Attributes:
        are_counted: whether the model's tokenizer counted the tokens; otherwise their number is
            guessed from words.
        median: the median length.
        longest: the length of the longest text.
        max_length: the most tokens of a text that are read.
        cut: the share of texts longer than ``max_length``.
        read: the share of all tokens that is read.
        unknown: the share of tokens that the model does not know.
    """

    are_counted: bool
    median: int
    longest: int
    max_length: int
    cut: float
    read: float
    unknown: float


@dataclass(frozen=True)
class Look:
    """The facts about some tables.

    Attributes:
        columns: the columns of the training file.
        text: the text columns.
        label: the label columns.
        kind: the kind of task.
        not_read: ``ids`` or ``dates``, by unused column.
        guessed: the options that the user did not give.
        judges: the split that gives the scores.
        parts: the facts about each split.
        numbers: the minimum and the maximum of a regression's labels.
        near_equal: classes with several spellings.
        most_frequent: the most frequent label, or set of labels, of the training rows.
        constant: the share of the judging rows that have this label.
        smallest_difference: the result of `smallest_difference` for the judging rows.
        conflicts: texts with different labels.
        lengths: lengths of the training texts.
    """

    columns: tuple[str, ...]
    text: tuple[str, ...]
    label: Columns
    kind: Kind
    not_read: dict[str, str]
    guessed: tuple[str, ...]
    judges: str
    parts: dict[str, Part]
    numbers: tuple[float, float] | None
    near_equal: list[list[str]]
    most_frequent: str | None
    constant: float | None
    smallest_difference: float | None
    conflicts: list[Conflict]
    lengths: Lengths


def look_at(
    tables: Mapping[str, Table],
    text: tuple[str, ...],
    label: Columns,
    lengths: Lengths,
    kind: Kind | None = None,
    guessed: tuple[str, ...] = (),
    merge: bool = False,
) -> Look:
    """Collect the facts about tables.

    Args:
        tables: the tables by split; the last one gives the scores.
        text: the text columns.
        label: the label columns.
        lengths: lengths of the training texts.
        kind: kind of task; default: a guess from the labels.
        guessed: the options that the user did not give.
        merge: whether to merge labels that differ only in capitals or invisible characters.
    """
    train, judges = tables["train"], [*tables][-1]
    if kind is None or not isinstance(label, str):
        kind = guessed_kind(train, label)
    rows, left_out = _rows(tables, text, label, kind)
    if merge:
        rows = _merged(rows)
    classes, answer, share, smallest = {}, None, None, None
    if kind != "regression":
        classes = {split: _class_counts(kept, label) for split, kept in rows.items()}
        answer, share = _constant_answer(rows["train"], rows[judges])
        smallest = smallest_difference(len(rows[judges]))
    return Look(
        columns=train.columns,
        text=text,
        label=label,
        kind=kind,
        not_read=_unread(train, {*text, *names_of(label)}) if "text" in guessed else {},
        guessed=guessed,
        judges=judges,
        parts=_parts(tables, rows, left_out, classes, (*text, listed(names_of(label)))),
        numbers=_range(rows["train"]) if kind == "regression" else None,
        near_equal=near_equal(sorted({*chain(*classes.values())}, key=order)),
        most_frequent=answer,
        constant=share,
        smallest_difference=smallest,
        conflicts=_conflicts(chain(*rows.values())),
        lengths=lengths,
    )


def _rows(
    tables: Mapping[str, Table], text: tuple[str, ...], label: Columns, kind: Kind
) -> tuple[dict[str, list[Row]], dict[str, list[str]]]:
    """Return the rows of each split, and the places of rows that are left out.

    A row without a label is left out if there are few of them. A multi-label row never is.
    """
    rows, left_out = {}, {}
    for split, table in tables.items():
        placed, left_out[split] = table.rows, list[str]()
        if kind != "multilabel":
            placed, left_out[split] = drop_unlabelled_rows(placed, *names_of(label))
        where = "" if split == "train" else f" of {table.path}"
        rows[split] = [
            Row(
                place + where,
                tuple(" ".join(str(cells.get(column) or "").split()) for column in text),
                labels_in(cells, label, kind),
            )
            for place, cells in placed
        ]
    return rows, left_out


def _merged(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return the rows; labels that `folded` makes equal become the most frequent one."""
    counts = Counter(word for row in chain(*rows.values()) for word in row.labels or ())
    names: dict[str, str] = {}
    for word, _ in counts.most_common():
        names.setdefault(fold_label(word), word)

    def merged(row: Row) -> Row:
        if row.labels is None:
            return row
        return row._replace(labels=tuple(sorted({names[fold_label(word)] for word in row.labels})))

    return {split: [*map(merged, kept)] for split, kept in rows.items()}


def _class_counts(rows: Iterable[Row], label: Columns) -> dict[str, int]:
    """Return the number of rows of each class, in the order of `order`.

    Each of several label columns is a class, even if no row has it.
    """
    counts = Counter(word for row in rows for word in row.labels or ())
    columns = () if isinstance(label, str) else label
    return {word: counts[word] for word in sorted({*counts, *columns}, key=order)}


def _constant_answer(
    train: Iterable[Row], judging: Iterable[Row]
) -> tuple[str, float] | tuple[None, None]:
    """Return the most frequent answer of the training rows, and its share of the judging rows.

    A row's set of labels is one answer. If no training row has labels, there is no answer.
    """
    answers = Counter(row.labels for row in train if row.labels is not None)
    if not answers:
        return None, None
    [(answer, _)] = answers.most_common(1)
    judged = [row.labels for row in judging if row.labels is not None]
    return _in_words(answer), judged.count(answer) / max(1, len(judged))


def _range(rows: Iterable[Row]) -> tuple[float, float] | None:
    """Return the minimum and the maximum of the labels that are numbers; None if none is."""
    words = {word for row in rows for word in row.labels or ()}
    numbers = [number for word in words if (number := number_in(word)) is not None]
    return (min(numbers), max(numbers)) if numbers else None


def _parts(
    tables: Mapping[str, Table],
    rows: Mapping[str, Sequence[Row]],
    left_out: Mapping[str, list[str]],
    classes: Mapping[str, dict[str, int]],
    columns: Sequence[str],
) -> dict[str, Part]:
    """Return the facts about each split.

    Args:
        tables: the tables by split.
        rows: the rows by split.
        left_out: the places of rows that are left out, by split.
        classes: the number of rows of each class, by split; empty for a regression.
        columns: the names of the text columns and, in one text, of the label columns.
    """
    parts, seen = dict[str, Part](), dict[str, set[tuple[str, ...]]]()
    for split, table in tables.items():
        texts = [row.texts for row in rows[split] if any(row.texts)]
        different = {*texts}
        parts[split] = Part(
            path=str(table.path),
            rows=len(table.rows),
            labels=classes.get(split, {}),
            missing=_missing(rows[split], columns),
            left_out=left_out[split],
            repeated=len(texts) - len(different),
            also_in={other: sum(text in seen[other] for text in texts) for other in seen},
        )
        seen[split] = different
    return parts


def _missing(rows: Iterable[Row], columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the places of rows with an empty text or without labels, by column."""
    places = defaultdict[str, list[str]](list)
    for row in rows:
        for column, cell in zip(columns, (*row.texts, row.labels), strict=True):
            if cell in ("", None):
                places[column].append(row.place)
    return dict(places)


def _unread(table: Table, read: Collection[str]) -> dict[str, str]:
    """Return ``ids`` or ``dates`` for each other column that has them."""
    others = {c: ids_or_dates(table, c) for c in table.columns if c not in read}
    return {column: what for column, what in others.items() if what}


def _conflicts(rows: Iterable[Row]) -> list[Conflict]:
    """Return the texts with labels that differ, even after `without_signs`."""
    by_text = defaultdict[tuple, dict[str, list[str]]](lambda: defaultdict(list))
    for row in rows:
        if row.labels is not None and any(row.texts):
            by_text[row.texts][_in_words(row.labels)].append(row.place)
    return [
        Conflict(" | ".join(texts), dict(places))
        for texts, places in by_text.items()
        if len({*map(without_signs, places)}) > 1
    ]


def _in_words(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def smallest_difference(rows: int) -> float:
    """Estimate the smallest difference between two accuracies that is significant.

    On a share ``q`` of the ``n`` rows, one of two methods is right and the other wrong. The
    difference of their accuracies is a mean of ``n`` numbers, each 1, 0 or -1. Its standard error
    is at most ``sqrt(q / n)`` (McNemar, 1947), and it is significant above 1.96 standard errors.
    ``q`` is assumed to be `DIFFERING`, but it cannot be smaller than the difference itself. The
    result is therefore ``max(1.96 sqrt(q / n), 1.96² / n)``, and at most 1. With 200 rows it is
    0.05. Differences between seeds are not included.
    """
    return min(1.0, max(HALF * math.sqrt(DIFFERING / rows), HALF**2 / rows))


def lengths_of(
    counts: np.ndarray, max_length: int, are_counted: bool, unknown: float = 0
) -> Lengths:
    """Describe the lengths of texts.

    Args:
        counts: the number of tokens of each text.
        max_length: the most tokens of a text that are read.
        are_counted: whether the model's tokenizer counted the tokens.
        unknown: the share of tokens that the model does not know.
    """
    return Lengths(
        are_counted,
        median=int(np.median(counts)),
        longest=int(counts.max()),
        max_length=max_length,
        cut=float(np.mean(counts > max_length)),
        read=float(counts.clip(max=max_length).sum() / counts.sum()),
        unknown=unknown,
    )
