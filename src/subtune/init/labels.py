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
    if kind == "regression" or (kind is None and are_measured(labels.train)):
        return labels
    labels = _merged(labels) if merge else labels
    _require_apart(train, dev, labels)
    _require_classes(train, dev, labels)
    return labels._replace(words=tuple(sorted(labels.train | labels.dev, key=order)))


def _cells(table: Table, column: str) -> Iterable[str]:
    for place, row in table.rows:
        cell: Any = row.get(column)
        if not isinstance(cell, str) or not cell.strip():
            raise SubtuneError(
                f"{table.path}: {place}: found no text or number in column {column!r}, "
                "expected a label in every row"
            )
        yield cell.strip()


def are_measured(labels: Iterable[str]) -> bool:
    """Return whether labels look like numbers to predict: decimals, or many whole numbers."""
    numbers = list(map(number_in, labels))
    known = [number for number in numbers if number is not None]
    are_many = len(known) > DEFAULTS.classes_of_numbers
    if len(known) < len(numbers):
        # A few words among many numbers are mistakes. They are refused later, with their lines.
        return are_many and 10 * (len(numbers) - len(known)) < len(numbers)
    return are_many or not all(number.is_integer() for number in known)


def order(label: str) -> tuple[float, str]:
    """Return a sorting key: numbers by size, then words by their letters."""
    number = number_in(label)
    return (math.inf if number is None else number), label


def one_spelling(words: Iterable[str]) -> dict[str, str]:
    """Return what each label is called if those that differ in capitals alone are one."""
    names: dict[str, str] = {}
    counts = Counter(words)
    for word, _ in counts.most_common():
        names.setdefault(word.casefold(), word)
    return {word: names[word.casefold()] for word in counts}


def _merged(labels: Labels) -> Labels:
    """Return labels of which those that differ in capitals alone are the most frequent of them."""
    names = one_spelling([*labels.train.elements(), *labels.dev.elements()])
    train, dev = Counter[str](), Counter[str]()
    for merged, of in ((train, labels.train), (dev, labels.dev)):
        for word, count in of.items():
            merged[names[word]] += count
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
