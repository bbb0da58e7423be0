"""Labels of a table: classes or numbers."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from subtune.core.errors import SubtuneError, cut, listed
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import Table


class Labels(NamedTuple):
    """A column of labels. ``words``: the classes in order; None for a regression.

    ``train`` and ``dev``: how often each label occurs, as it is written.
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
    def floor(self) -> float:
        """Return the share of the dev rows that have the most frequent label."""
        return self.dev[self.most_frequent] / self.dev.total()

    @property
    def are_numbers(self) -> bool:
        """Return whether every label could be a number."""
        return all(math.isfinite(_number(label)) for label in self.train)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return metrics that suit the labels. The first one decides."""
        if self.words is None:
            return DEFAULTS.metrics["regression"]
        share = self.train[self.most_frequent] / self.train.total()
        is_unbalanced = share * len(self.words) > DEFAULTS.imbalance
        return DEFAULTS.metrics["unbalanced" if is_unbalanced else "classification"]


def labels_of(train: Table, dev: Table, column: str, kind: str | None = None) -> Labels:
    """Return the labels of two tables, as classes or as numbers.

    Args:
        kind: ``classification`` or ``regression``; without it the labels themselves decide.

    Raises:
        SubtuneError: a row has no label, or there are too few or too many classes.
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
    """Return the kind of task that labels of training rows suggest."""
    numbers = [label for label in labels if math.isfinite(_number(label))]
    if len(numbers) < len(labels):
        # A few words among many numbers are mistakes. They are refused later, with their lines.
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
    """Return a sorting key: numbers by size, then words by their letters."""
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
    """Yield lines about labels that may be mistakes."""
    for label in labels.words or ():
        if not labels.train[label]:
            yield f"label {cut(label)!r} is in no training row: no run can learn it"
        elif not labels.dev[label]:
            yield f"label {cut(label)!r} is in no dev row: no score includes it"
        if label.casefold() in DEFAULTS.missing:
            yield f"label {cut(label)!r} looks like a missing value; here it is a class"
