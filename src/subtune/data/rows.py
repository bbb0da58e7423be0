"""The one shape that every source's rows get."""

from collections.abc import Iterable, Mapping
from typing import Any

import datasets

from subtune.data.columns import TEXTS, columns_from_rows
from subtune.tasks import TaskSpec


def features(task: TaskSpec) -> datasets.Features:
    """Columns of every dataset: ``idx``, ``text_a``, ``text_b`` for pairs, and ``label``."""
    columns: dict[str, datasets.Value] = {"idx": datasets.Value("int32")}
    for name, _ in zip(TEXTS, task.text, strict=False):
        columns[name] = datasets.Value("string")
    columns["label"] = datasets.Value("float32" if task.is_regression else "int32")
    return datasets.Features(columns)


def split_from_rows(
    task: TaskSpec, rows: Iterable[Mapping[str, Any]], *, labelled: bool, source: str
) -> datasets.Dataset:
    """Build one split from rows of text, as `columns_from_rows` reads them."""
    numbered = ((f"row {number}", row) for number, row in enumerate(rows, start=1))
    return split_from_columns(
        task, columns_from_rows(task, numbered, labelled=labelled, source=source)
    )


def split_from_columns(task: TaskSpec, columns: Mapping[str, list]) -> datasets.Dataset:
    """Build one split from its columns."""
    return datasets.Dataset.from_dict(dict(columns), features=features(task))
