"""Labels of a table: classes, any number of labels, or numbers."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any, Literal, NamedTuple, get_args

from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.init import tables
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import Table, number_in
from subtune.tasks.multilabel import flag_in, words_in

Kind = Literal["classification", "multilabel", "regression"]
# A column, or several of 0 and 1.
Columns = str | tuple[str, ...]


class Labels(NamedTuple):
    """A column of labels. ``words``: the classes in order; None for a regression.

    ``train`` and ``dev``: how often each label occurs, as it is written, or of any number of labels
    each set of them. Without dev rows the training rows judge, and both are the same.
    """

    column: Columns
    words: tuple[str, ...] | None
    train: Counter[Any]
    dev: Counter[Any]
    kind: Kind = "classification"

    @property
    def most_frequent(self) -> Any:
        """Return the most frequent label, or set of labels, of the training rows."""
        return self.train.most_common(1)[0][0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return metrics that suit the labels. The first one decides."""
        if self.kind != "classification":
            return tuple(DEFAULTS.metrics[self.kind])
        assert self.words
        share = self.train[self.most_frequent] / self.train.total()
        is_unbalanced = share * len(self.words) > DEFAULTS.imbalance
        return tuple(DEFAULTS.metrics["unbalanced" if is_unbalanced else "classification"])


def columns_of(train: Table, asked: str | Sequence[str] | None) -> Columns:
    """Return the column of the label, or several of 0 and 1, as they are named or guessed.

    Raises:
        SubtuneError: none is named, and no column can be guessed.
    """
    if isinstance(asked, str):
        is_one = asked in train.columns or "," not in asked
        return asked if is_one else tuple(map(str.strip, asked.split(",")))
    if asked:
        return tuple(asked)
    try:
        return tables.label_column(train)
    except SubtuneError:
        flags = [c for c in train.columns if None not in map(flag_in, train.cells(c))]
        if len(flags) < 2:
            raise
        return tuple(flags)


def labels_of(train: Table, dev: Table | None, column: Columns, kind: str | None = None) -> Labels:
    """Return the labels of two tables, as classes, any number of labels, or numbers.

    Args:
        dev: None if the training rows judge.
        kind: one of `Kind`; without it the labels themselves decide.

    Raises:
        SubtuneError: a row has no label, or there are too few or too many classes.
    """
    if kind not in (None, *get_args(Kind)):
        raise SubtuneError(f"kind: {one_of(kind, get_args(Kind))}")
    dev = dev or train
    is_set = kind == "multilabel" or not isinstance(column, str)
    if isinstance(column, str) and kind is None:
        is_set = _are_lists(train.cells(column))
    read: Callable[[Table, Any], Iterable[Any]] = _sets if is_set else _cells
    counted = Counter(read(train, column)), Counter(read(dev, column))
    if not is_set and (kind == "regression" or (kind is None and _are_measured(counted[0]))):
        return Labels(column, None, *counted, "regression")
    labels = Labels(column, None, *counted, "multilabel" if is_set else "classification")
    _require_classes(train, dev, labels)
    words = sorted(rows_of_words(labels.train | labels.dev), key=_order)
    return labels._replace(words=tuple(words if isinstance(column, str) else column))


def rows_of_words(counted: Counter[Any]) -> Counter[str]:
    """Return how many rows have each label, of counted labels or sets of labels."""
    counts: Counter[str] = Counter()
    for answer, rows in counted.items():
        counts.update(dict.fromkeys((answer,) if isinstance(answer, str) else answer, rows))
    return counts


def _are_lists(cells: Sequence[Any]) -> bool:
    """Return whether most cells hold lists, or some do whose words are fewer than the cells."""
    given = [cell for cell in cells if cell]
    lists = [c for c in given if not isinstance(c, str) or c.lstrip().startswith("[")]
    if 2 * len([cell for cell in lists if words_in(cell) is not None]) > len(given):
        return True
    different = {cell for cell in given if isinstance(cell, str)}
    words = {word for cell in different for word in words_in(cell) or ()}
    return bool({*"|;"} & {*"".join(different)}) and len(words) < len(different)


def _sets(table: Table, column: Columns) -> Iterable[tuple[str, ...]]:
    """Yield the labels of each row."""
    names = (column,) if isinstance(column, str) else column
    for line, row in table.rows:
        cells = [row.get(name) for name in names]
        words = words_in(cells[0])
        if not isinstance(column, str):
            flags = [*map(flag_in, cells)]
            words = None if None in flags else [*compress(names, flags)]
        if words is None:
            found = f"column {listed(names)}: found {listed(map(str, cells))}"
            raise SubtuneError(
                f"{table.path}: line {line}: {found}, expected a list, labels between '|' or ';', "
                "or columns of 0 and 1"
            )
        yield tuple(sorted(words))


def _cells(table: Table, column: str) -> Iterable[str]:
    for line, row in table.rows:
        cell: Any = row.get(column)
        if not isinstance(cell, str) or not cell.strip():
            raise SubtuneError(
                f"{table.path}: line {line}: found no text or number in column {column!r}, "
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


def _require_classes(train: Table, dev: Table, labels: Labels) -> None:
    words, of_dev = rows_of_words(labels.train), rows_of_words(labels.dev)
    if len(words) < 2:
        raise SubtuneError(
            f"{train.path}: found no label but {listed(words) or 'none'}, expected at least two"
        )
    limit = min(DEFAULTS.classes_of_words, max(DEFAULTS.fewest_refused, len(train.rows) // 2))
    if len(words) > limit:
        raise SubtuneError(
            f"--label: found {len(words):,} different labels in {len(train.rows):,} rows of "
            f"column {labels.column!r} of {train.path}, expected at most {limit} classes"
        )
    unknown = of_dev.keys() - words
    if 2 * sum(of_dev[label] for label in unknown) > of_dev.total():
        raise SubtuneError(
            f"{dev.path}: column {labels.column!r}: found {listed(sorted(unknown)[:5])} in most "
            f"rows, expected labels of {train.path} ({listed(sorted(words)[:5])})"
        )


def remarks(labels: Labels) -> Iterable[str]:
    """Yield lines about labels that may be mistakes."""
    train, dev = rows_of_words(labels.train), rows_of_words(labels.dev)
    for label in labels.words or ():
        if not train[label]:
            yield f"label {cut(label)!r} is in no training row: no run can learn it"
        elif not dev[label]:
            yield f"label {cut(label)!r} is in no dev row: no score includes it"
        if label.casefold() in DEFAULTS.missing:
            yield f"label {cut(label)!r} looks like a missing value; here it is a class"
