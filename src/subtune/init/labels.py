"""Labels of a table: classes or numbers."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import Table, number_in
from subtune.tasks.formats.tables import with_labels

Kind = Literal["classification", "regression"]


class Labels(NamedTuple):
    """A column of labels. ``words``: the classes in order; None for a regression.

    ``train`` and ``dev``: how often each label occurs, as it is written. Without dev rows the
    training rows judge, and both are the same.
    """

    column: str
    words: tuple[str, ...] | None
    train: Counter[str]
    dev: Counter[str]

    @property
    def most_frequent(self) -> str:
        """Return the most frequent label of the training rows."""
        return self.train.most_common(1)[0][0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return metrics that suit the labels. The first one decides."""
        if self.words is None:
            return tuple(DEFAULTS.metrics["regression"])
        share = self.train[self.most_frequent] / self.train.total()
        is_unbalanced = share * len(self.words) > DEFAULTS.imbalance
        return tuple(DEFAULTS.metrics["unbalanced" if is_unbalanced else "classification"])


def labels_of(
    train: Table, dev: Table | None, column: str, kind: str | None = None, merge: bool = False
) -> Labels:
    """Return the labels of two tables, as classes or as numbers.

    Args:
        dev: None if the training rows judge.
        kind: ``classification`` or ``regression``; without it the labels themselves decide.
        merge: make labels that differ in capitals alone one, called as it is most often.

    Raises:
        SubtuneError: a row has no label, labels differ in capitals alone and are not merged, or
            there are too few or too many classes.
    """
    if kind not in (None, *get_args(Kind)):
        raise SubtuneError(f"kind: {one_of(kind, get_args(Kind))}")
    train, dev = (
        table._replace(rows=with_labels(table.rows, column)[0]) for table in (train, dev or train)
    )
    labels = Labels(column, None, Counter(_cells(train, column)), Counter(_cells(dev, column)))
    if kind == "regression" or (kind is None and _are_measured(labels.train)):
        return labels
    labels = _merged(labels) if merge else labels
    _require_apart(train, dev, labels)
    _require_classes(train, dev, labels)
    return labels._replace(words=tuple(sorted(labels.train | labels.dev, key=_order)))


def _cells(table: Table, column: str) -> Iterable[str]:
    for place, row in table.rows:
        cell: Any = row.get(column)
        if not isinstance(cell, str) or not cell.strip():
            raise SubtuneError(
                f"{table.path}: {place}: found no text or number in column {column!r}, "
                "expected a label in every row"
            )
        yield cell.strip()


def _are_measured(labels: Iterable[str]) -> bool:
    """Return whether labels look like numbers to predict: decimals, or many whole numbers."""
    numbers = list(map(number_in, labels))
    known = [number for number in numbers if number is not None]
    are_many = len(known) > DEFAULTS.classes_of_numbers
    if len(known) < len(numbers):
        # A few words among many numbers are mistakes. They are refused later, with their lines.
        return are_many and 10 * (len(numbers) - len(known)) < len(numbers)
    return are_many or not all(number.is_integer() for number in known)


def _order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = number_in(label)
    return (math.inf if number is None else number), label


def _merged(labels: Labels) -> Labels:
    """Return labels of which those that differ in capitals alone are the most frequent of them."""
    most = (labels.train | labels.dev).most_common()
    names = {word.casefold(): word for word, _ in reversed(most)}
    train, dev = (
        Counter(names[word.casefold()] for word in of.elements())
        for of in (labels.train, labels.dev)
    )
    return labels._replace(train=train, dev=dev)


def _require_apart(train: Table, dev: Table, labels: Labels) -> None:
    counts = labels.train | labels.dev
    spellings: dict[str, str] = {}
    for word, count in counts.most_common():
        other = spellings.setdefault(word.casefold(), word)
        if other != word:
            table = train if word in labels.train else dev
            place = next(place for place, row in table.rows if row[labels.column].strip() == word)
            raise SubtuneError(
                f"{table.path}: {place}: found the label {cut(word)!r} ({count:,} in all), and "
                f"elsewhere {cut(other)!r} ({counts[other]:,}); expected one spelling, or "
                "--merge-labels, which makes them one"
            )


def _require_classes(train: Table, dev: Table, labels: Labels) -> None:
    if len(labels.train) == 1:
        raise SubtuneError(
            f"{train.path}: found the label {cut(labels.most_frequent)!r} in every row, expected "
            "at least two labels"
        )
    limit = min(DEFAULTS.classes_of_words, max(DEFAULTS.fewest_refused, len(train.rows) // 2))
    if len(labels.train) > limit:
        raise SubtuneError(
            f"--label: found {len(labels.train):,} different labels in {len(train.rows):,} rows of "
            f"column {labels.column!r} of {train.path}, expected at most {limit} classes"
        )
    unknown = labels.dev.keys() - labels.train
    if 2 * sum(labels.dev[label] for label in unknown) > labels.dev.total():
        raise SubtuneError(
            f"{dev.path}: column {labels.column!r}: found {listed(sorted(unknown)[:5])} in most "
            f"rows, expected labels of {train.path} ({listed(sorted(labels.train)[:5])})"
        )


def remarks(labels: Labels) -> Iterable[str]:
    """Yield lines about labels that may be mistakes."""
    for label in labels.words or ():
        if not labels.train[label]:
            yield f"label {cut(label)!r} is in no training row: no run can learn it"
        elif not labels.dev[label]:
            yield f"label {cut(label)!r} is in no dev row: no score includes it"
        if label.casefold() in DEFAULTS.missing:
            yield f"label {cut(label)!r} looks like a missing value; here it is a class"
