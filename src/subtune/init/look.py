"""Facts about tables before training: classes, repeated texts, conflicting labels, lengths."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from subtune.core.errors import listed
from subtune.data.table_files import drop_unlabelled_rows
from subtune.init.columns import Columns, ids_or_dates
from subtune.init.labels import (
    Kind,
    guessed_kind,
    labels_in,
    names_of,
    near_equal,
    order,
    without_signs,
)
from subtune.init.tables import Table, number_in
from subtune.tasks.labels import fold_label

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
