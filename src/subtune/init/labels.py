"""Labels in a table's cells: their kind of task, their order, and spellings of the same label."""

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from subtune.init import DEFAULTS
from subtune.init.columns import Columns
from subtune.init.request import Kind
from subtune.init.tables import Table, number_in
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
