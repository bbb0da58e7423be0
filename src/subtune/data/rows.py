"""The one shape that every source's rows get."""

from collections.abc import Iterable, Mapping

import datasets

from subtune.errors import SubtuneError, one_of
from subtune.tasks import TaskSpec

NO_LABEL = -1


def features(task: TaskSpec) -> datasets.Features:
    """Columns of every dataset: ``idx``, ``text_a``, ``text_b`` for pairs, and ``label``."""
    columns: dict[str, datasets.Value] = {"idx": datasets.Value("int32")}
    for name, _ in zip(("text_a", "text_b"), task.text, strict=False):
        columns[name] = datasets.Value("string")
    columns["label"] = datasets.Value("float32" if task.is_regression else "int32")
    return datasets.Features(columns)


def split_from_rows(
    task: TaskSpec, rows: Iterable[Mapping[str, str]], *, labelled: bool, source: str
) -> datasets.Dataset:
    """Build one split from rows of text.

    Args:
        task: names the columns to read.
        rows: one mapping from column to text per example; labels are words or numbers.
        labelled: whether a label is expected; without it every label is -1, as on the hub.
        source: what to call the rows in an error message.

    Raises:
        SubtuneError: a column is missing, or a label is not one of the task's.
    """
    names = ["text_a", "text_b"][: len(task.text)]
    table: dict[str, list] = {name: [] for name in ("idx", *names, "label")}
    for number, row in enumerate(rows):
        place = f"{source}: row {number + 1}"
        for column in (*task.text, *((task.label,) if labelled else ())):
            if row.get(column) is None:
                raise SubtuneError(f"{place}: column {one_of(column, row)}")
        table["idx"].append(number)
        for name, column in zip(names, task.text, strict=True):
            table[name].append(row[column])
        table["label"].append(parse_label(task, row[task.label], place) if labelled else NO_LABEL)
    if not table["idx"]:
        raise SubtuneError(f"{source}: found no rows, expected at least one")
    return datasets.Dataset.from_dict(table, features=features(task))


def parse_label(task: TaskSpec, text: str, source: str) -> float | int:
    """Read a label: a number for a regression, else a label word or its number."""
    text = str(text).strip()
    if task.labels is None:
        try:
            return float(text)
        except ValueError:
            raise SubtuneError(f"{source}: label: found {text!r}, expected a number") from None
    if text in task.labels:
        return task.labels.index(text)
    if text.isdigit() and int(text) < len(task.labels):
        return int(text)
    numbers = [str(number) for number in range(len(task.labels))]
    raise SubtuneError(f"{source}: label: {one_of(text, [*task.labels, *numbers])}")
