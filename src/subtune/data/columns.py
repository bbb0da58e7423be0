"""Columns of the splits of a task whose rows are in files."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow


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
