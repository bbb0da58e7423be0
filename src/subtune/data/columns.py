"""From rows of cells to a task's columns: the texts as they are, and labels as numbers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from subtune.errors import SubtuneError, one_of
from subtune.tasks import TaskSpec

NO_LABEL = -1
TEXTS = ("text_a", "text_b")
# Squares of what a regression misses, and of its gradients, are added up in float32.
LARGEST_SCORE = 1e9


def columns_from_rows(
    task: TaskSpec, rows: Iterable[tuple[str, Mapping[str, Any]]], *, labelled: bool, source: str
) -> dict[str, list]:
    """The columns ``idx``, ``text_a``, ``text_b`` (pairs only) and ``label`` of one split.

    Args:
        task: names the columns to read.
        rows: the place of each row, such as ``line 3``, and its cells by column; labels are words
            or numbers.
        labelled: whether a label is expected; without it every label is -1, as on the hub.
        source: what to call the rows in an error message.

    Raises:
        SubtuneError: a column is missing, a cell is no text, or a label is not one of the task's.
    """
    names = TEXTS[: len(task.text)]
    table: dict[str, list] = {name: [] for name in ("idx", *names, "label")}
    for number, (where, row) in enumerate(rows):
        place = f"{source}: {where}"
        for column in (*task.text, *((task.label,) if labelled else ())):
            if column not in row:
                raise SubtuneError(f"{place}: no such column: {one_of(column, row)}")
            if not isinstance(row[column], str):
                raise SubtuneError(
                    f"{place}: column {column!r}: found {_in_json(row[column])}, "
                    "expected text or a number"
                )
        table["idx"].append(number)
        for name, column in zip(names, task.text, strict=True):
            table[name].append(row[column])
        table["label"].append(parse_label(task, row[task.label], place) if labelled else NO_LABEL)
    if not table["idx"]:
        raise SubtuneError(f"{source}: found no rows, expected at least one")
    return table


def _in_json(value: Any) -> str:
    """What a cell holds that is no text, as its file calls it."""
    if isinstance(value, list | tuple):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)


def parse_label(task: TaskSpec, text: str, source: str) -> float | int:
    """Read a label: a number for a regression, else a label word.

    Where no label word has a digit in it, the words' numbers stand for them, counted from 0.

    Raises:
        SubtuneError: it is neither, or a number that is not finite or too large to train on.
    """
    text = text.strip()
    if task.labels is None:
        return _score(text, source)
    if text in task.labels:
        return task.labels.index(text)
    numbers = [str(number) for number in range(len(task.labels))]
    if any(letter.isdigit() for word in task.labels for letter in word):
        numbers = []
    if text in numbers:
        return int(text)
    raise SubtuneError(f"{source}: label: {one_of(text, [*task.labels, *numbers])}")


def _score(text: str, source: str) -> float:
    try:
        score = float(text)
    except ValueError:
        raise SubtuneError(f"{source}: label: found {text!r}, expected a number") from None
    # Not a number is not below anything.
    if not abs(score) <= LARGEST_SCORE:
        raise SubtuneError(
            f"{source}: label: found {text!r}, expected a number between "
            f"±{LARGEST_SCORE:.0e}, whose squares float32 can add up"
        )
    return score


def is_label(task: TaskSpec, cell: str) -> bool:
    """Whether a cell is a label and nothing else, no space around it either."""
    try:
        parse_label(task, cell, "")
    except SubtuneError:
        return False
    return cell == cell.strip()
