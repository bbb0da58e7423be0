"""What is to be predicted: classes, and which, or a number."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, cut, listed
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import Table


class Labels(NamedTuple):
    """A column of labels. ``words``: those of classes in order; none of a regression.

    ``train`` and ``dev``: how often each label is there, as it is written.
    """

    column: str
    words: tuple[str, ...] | None
    train: Counter[str]
    dev: Counter[str]

    @property
    def most_frequent(self) -> str:
        """The label that most training rows have."""
        return self.train.most_common(1)[0][0]

    @property
    def floor(self) -> float:
        """The share of the dev rows that have the most frequent label."""
        return self.dev[self.most_frequent] / self.dev.total()

    @property
    def are_numbers(self) -> bool:
        """Whether every label could be a number."""
        return all(math.isfinite(_number(label)) for label in self.train)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that say whether something was learnt, the first of which decides."""
        if self.words is None:
            return DEFAULTS.metrics["regression"]
        share = self.train[self.most_frequent] / self.train.total()
        is_unbalanced = share * len(self.words) > DEFAULTS.imbalance
        return DEFAULTS.metrics["unbalanced" if is_unbalanced else "classification"]


def labels_of(train: Table, dev: Table, column: str, kind: str | None = None) -> Labels:
    """The labels of two tables, as classes or as numbers.

    Args:
        kind: ``classification`` or ``regression``; without it the labels themselves decide.

    Raises:
        SubtuneError: a row has no label, or the labels are no classes.
    """
    in_train, in_dev = Counter(_cells(train, column)), Counter(_cells(dev, column))
    words = None
    if (kind or _kind(in_train)) == "classification":
        words = tuple(sorted(in_train | in_dev, key=_order))
        _require_classes(train, dev, column, in_train, in_dev)
    return Labels(column, words, in_train, in_dev)


def _cells(table: Table, column: str) -> Iterable[str]:
    for line, row in table.rows:
        cell: Any = row.get(column)
        if not isinstance(cell, str) or not cell.strip():
            raise SubtuneError(
                f"{table.path}: line {line}: found no text or number in column {column!r}, "
                "expected a label in every row"
            )
        yield cell.strip()


def _kind(labels: Counter[str]) -> str:
    """What labels of training rows look like."""
    numbers = [label for label in labels if math.isfinite(_number(label))]
    if len(numbers) < len(labels):
        # A few words among very many numbers are mistakes, which are refused with their line.
        mistakes_are_few = 10 * (len(labels) - len(numbers)) < len(labels)
        is_regression = mistakes_are_few and len(numbers) > DEFAULTS.classes_of_numbers
    else:
        are_whole = all(_number(label).is_integer() for label in labels)
        is_regression = not are_whole or len(labels) > DEFAULTS.classes_of_numbers
    return "regression" if is_regression else "classification"


def _number(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return math.nan


def _order(label: str) -> tuple[float, str]:
    """Numbers by size, before words by their letters."""
    number = _number(label)
    return (number if math.isfinite(number) else math.inf), label


def _require_classes(
    train: Table, dev: Table, column: str, in_train: Counter[str], in_dev: Counter[str]
) -> None:
    if len(in_train) == 1:
        raise SubtuneError(
            f"{train.path}: found the label {cut(next(iter(in_train)))!r} in every row, expected "
            "at least two labels"
        )
    limit = min(DEFAULTS.classes_of_words, max(DEFAULTS.fewest_refused, len(train.rows) // 2))
    if len(in_train) > limit:
        raise SubtuneError(
            f"--label: found {len(in_train):,} different labels in {len(train.rows):,} rows of "
            f"column {column!r} of {train.path}, expected at most {limit} classes"
        )
    unknown = {label: count for label, count in in_dev.items() if label not in in_train}
    if 2 * sum(unknown.values()) > in_dev.total():
        raise SubtuneError(
            f"{dev.path}: column {column!r}: found labels that {train.path} has not "
            f"({listed(sorted(unknown)[:5])}) in most rows, expected those that it has "
            f"({listed(sorted(in_train)[:5])})"
        )


def remarks(labels: Labels) -> Iterable[str]:
    """One line for everything about labels that is allowed and may be a mistake."""
    for label in labels.words or ():
        if not labels.train[label]:
            yield f"label {cut(label)!r} is in no training row, so that nothing learns it"
        elif not labels.dev[label]:
            yield f"label {cut(label)!r} is in no dev row, so that no score is of it"
        if label.casefold() in DEFAULTS.missing:
            yield f"label {cut(label)!r} looks like a missing value; here it is a class"
