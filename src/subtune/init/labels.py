"""Labels of a table: classes, any number of labels, or numbers."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Literal, NamedTuple, get_args

from subtune.core.errors import SubtuneError, cut, listed, one_of
from subtune.init import tables
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import Table, number_in
from subtune.tasks.formats import FEW, with_labels
from subtune.tasks.sentences import flag_in, words_in

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


def f1_of_the_same_labels(labels: Labels) -> float:
    """Return the highest ``f1_micro`` that the same set of labels for every dev row can have.

    A set with the ``k`` most frequent labels, in ``c`` rows each, has 2Σc / (n·k + all labels).
    """
    counts = sorted(rows_of_words(labels.dev).values(), reverse=True)
    rows, total = labels.dev.total(), sum(counts)
    return max(2 * sum(counts[:k]) / (rows * k + total) for k in range(1, len(counts) + 1))


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
    flags = tuple(c for c in train.columns if None not in map(flag_in, train.cells(c)))
    try:
        label = tables.label_column(train)
    except SubtuneError:
        others = [c for c in train.columns if c not in flags and tables.can_be_label(train, c)]
        if len(flags) < 2 or others:
            raise
        return flags
    is_one_of_several = len(flags) > 1 and label in flags and not tables.has_usual_name(label)
    return flags if is_one_of_several else label


def names_of(column: Columns) -> tuple[str, ...]:
    """Return the names of the label's columns."""
    return (column,) if isinstance(column, str) else column


def are_sets(train: Table, column: Columns, kind: str | None) -> bool:
    """Return whether a row has any number of labels."""
    if kind is None and isinstance(column, str):
        return _are_lists(train.cells(column))
    return kind == "multilabel" or not isinstance(column, str)


def answer_of(row: Mapping[str, Any], column: Columns, is_set: bool) -> tuple[str, ...] | None:
    """Return the labels of a row, or None if its cells hold none."""
    if not isinstance(column, str):
        flags = [flag_in(row.get(name)) for name in column]
        return None if None in flags else tuple(sorted(compress(column, flags)))
    cell = row.get(column)
    if is_set:
        words = words_in(cell)
        return None if words is None else tuple(sorted(words))
    return (cell.strip(),) if isinstance(cell, str) and cell.strip() else None


def labels_of(
    train: Table, dev: Table | None, column: Columns, kind: str | None = None, merge: bool = False
) -> Labels:
    """Return the labels of two tables, as classes, any number of labels, or numbers.

    Args:
        dev: None if the training rows judge.
        kind: one of `Kind`; without it the labels themselves decide.
        merge: make labels that differ in capitals alone one, called as it is most often.

    Raises:
        SubtuneError: a row has no label, labels differ in capitals alone and are not merged, or
            there are too few or too many classes.
    """
    if kind not in (None, *get_args(Kind)):
        raise SubtuneError(f"kind: {one_of(kind, get_args(Kind))}")
    is_set = are_sets(train, column, kind)
    if isinstance(column, str) and not is_set:
        train, dev = (
            table._replace(rows=with_labels(table.rows, column)[0])
            for table in (train, dev or train)
        )
    dev = dev or train
    counted = Counter(_answers(train, column, is_set)), Counter(_answers(dev, column, is_set))
    if not is_set and (kind == "regression" or (kind is None and are_measured(counted[0]))):
        return Labels(column, None, *counted, "regression")
    labels = Labels(column, None, *counted, "multilabel" if is_set else "classification")
    labels = _merged(labels) if merge else labels
    _require_apart(train, dev, labels)
    _require_classes(train, dev, labels)
    words = sorted(rows_of_words(labels.train | labels.dev), key=order)
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


def _answers(table: Table, column: Columns, is_set: bool) -> Iterator[Any]:
    """Yield the label of each row, or the set of its labels."""
    for place, row in table.rows:
        answer = answer_of(row, column, is_set)
        if answer is None and is_set:
            names = names_of(column)
            cells = f"column {listed(names)}: found {listed(str(row.get(n)) for n in names)}"
            raise SubtuneError(
                f"{table.path}: {place}: {cells}, expected a list, labels between '|' or ';', or "
                "columns of 0 and 1"
            )
        if answer is None:
            raise SubtuneError(
                f"{table.path}: {place}: found no text or number in column {column!r}, expected a "
                f"label in every row, or in all but {FEW:.0%}, which are left out"
            )
        yield answer if is_set else answer[0]


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
    names = one_spelling(rows_of_words(labels.train + labels.dev).elements())
    train, dev = Counter[Any](), Counter[Any]()
    for merged, of in ((train, labels.train), (dev, labels.dev)):
        for answer, count in of.items():
            is_one = isinstance(answer, str)
            merged[
                names[answer] if is_one else tuple(sorted({names[word] for word in answer}))
            ] += count
    return labels._replace(train=train, dev=dev)


def _require_apart(train: Table, dev: Table, labels: Labels) -> None:
    counts = rows_of_words(labels.train | labels.dev)
    spellings: dict[str, str] = {}
    for word, count in counts.most_common():
        other = spellings.setdefault(word.casefold(), word)
        if other != word:
            of_train = rows_of_words(labels.train)
            table, is_set = train if word in of_train else dev, labels.kind == "multilabel"
            answers = ((place, answer_of(row, labels.column, is_set)) for place, row in table.rows)
            place = next(place for place, answer in answers if answer and word in answer)
            raise SubtuneError(
                f"{table.path}: {place}: found the label {cut(word)!r} ({count:,} in all), and "
                f"elsewhere {cut(other)!r} ({counts[other]:,}); expected one spelling, or "
                "--merge-labels, which makes them one"
            )


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
