"""The one shape that every source's rows get."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets

from subtune.core.errors import one_line
from subtune.tasks import TaskSpec


def features(task: TaskSpec) -> datasets.Features:
    """Return the columns of every dataset: ``idx``, and those of the task's kind."""
    types = {"idx": "int32", **task.of_kind.columns(task)}
    return datasets.Features({name: _feature(of) for name, of in types.items()})


def _feature(of: Any) -> Any:
    return datasets.List(_feature(of[0])) if isinstance(of, list) else datasets.Value(of)


def split_from_rows(
    task: TaskSpec, rows: Iterable[Mapping[str, Any]], *, labelled: bool, source: str
) -> datasets.Dataset:
    """Build one split from rows of cells, as the task's kind has them."""
    numbered = ((f"row {number}", row) for number, row in enumerate(rows, start=1))
    columns = task.of_kind.from_rows(task, numbered, labelled=labelled, source=source)
    return datasets.Dataset.from_dict(columns, features=features(task))


def read(directory: Path) -> datasets.DatasetDict:
    """Return the splits that another job has written, as rows or as what a model reads of them.

    Raises:
        SubtuneError: a file is damaged or missing.
    """
    with one_line(f"{directory} is damaged; delete it, and call snakemake again"):
        return datasets.DatasetDict.load_from_disk(str(directory))
