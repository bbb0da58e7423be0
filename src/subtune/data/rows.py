"""The one shape that every source's rows get."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets

from subtune.tasks import TaskSpec
from subtune.tasks.kind import PlacedRow


def features(task: TaskSpec) -> datasets.Features:
    """Columns of every dataset: ``idx``, and those of the task's kind."""
    types = {"idx": "int32", **task.of_kind.columns(task)}
    return datasets.Features({name: _feature(of) for name, of in types.items()})


def _feature(of: Any) -> Any:
    return datasets.List(_feature(of[0])) if isinstance(of, list) else datasets.Value(of)


def columns_from_files(
    task: TaskSpec,
    by_split: Mapping[str, Sequence[Path]],
    read: Callable[[TaskSpec, Path, bool], Iterable[PlacedRow]],
) -> dict[str, dict[str, list]]:
    """The columns of each split's files, as the task's kind has them.

    Raises:
        SubtuneError: a file cannot be read, a row is not one of the task, or the rows cannot be
            learnt from or judged by.
    """
    kind = task.of_kind
    columns = {}
    for split, files in by_split.items():
        labelled = split in task.labelled
        # Of one file this is the file, of several the directory that they share.
        source = os.path.commonpath(files)
        rows = (
            (_place(path, source, place), row)
            for path in files
            for place, row in read(task, path, labelled)
        )
        columns[split] = kind.from_rows(task, rows, labelled=labelled, source=source)
        kind.require_sound(task, split, files[0], columns[split])
    return columns


def _place(path: Path, source: str, place: str) -> str:
    """Where a row stands in ``source``."""
    return place if str(path) == source else f"{path.relative_to(source)}: {place}"


def split_from_rows(
    task: TaskSpec, rows: Iterable[Mapping[str, Any]], *, labelled: bool, source: str
) -> datasets.Dataset:
    """Build one split from rows of cells, as the task's kind has them."""
    numbered = ((f"row {number}", row) for number, row in enumerate(rows, start=1))
    columns = task.of_kind.from_rows(task, numbered, labelled=labelled, source=source)
    return split_from_columns(task, columns)


def split_from_columns(task: TaskSpec, columns: Mapping[str, list]) -> datasets.Dataset:
    """Build one split from its columns."""
    return datasets.Dataset.from_dict(dict(columns), features=features(task))
