"""Rows in files; a user's own task has one file per split, in a format of the task's kind."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks import Task, TaskSpec
from subtune.tasks.formats.paths import is_file
from subtune.tasks.task_kind import PlacedRow


def paths(files: Mapping[str, str], task: Task) -> dict[str, Path]:
    """Return every split's file.

    Raises:
        SubtuneError: a split is missing or unknown, or a file is not there or of no known format.
    """
    for split in files:
        if split not in (*task.labelled, *task.test):
            expected = one_of(split, (*task.labelled, *task.test))
            raise SubtuneError(f"tasks.{task.name}.files: {expected}")
    for split in task.labelled:
        if split not in files:
            raise SubtuneError(f"tasks.{task.name}.files: {split!r} is missing, expected a path")
    return {split: path_of(files, task, split) for split in files}


def path_of(files: Mapping[str, str], task: TaskSpec, split: str) -> Path:
    """Return the file of one split.

    Raises:
        SubtuneError: the file is not there, or of no known format.
    """
    key, path = f"tasks.{task.name}.files.{split}", Path(files[split])
    if path.suffix not in task.of_kind.formats:
        expected = one_of(path.suffix, task.of_kind.formats)
        raise SubtuneError(f"{key}: {expected} as the ending of {path}")
    if not is_file(path):
        raise SubtuneError(f"{key}: found no file {str(path)!r}")
    return path


def columns_of(task: TaskSpec, paths: Mapping[str, Path]) -> dict[str, dict[str, list]]:
    """Return the columns of each split's file, as the task's kind has them.

    Raises:
        SubtuneError: a file cannot be read as what its ending says, a row is not one of the task,
            or the rows cannot be learnt from or judged by.
    """
    in_files = {split: (path,) for split, path in paths.items()}
    return columns_from_files(task, in_files, task.of_kind.read)


def columns_from_files(
    task: TaskSpec,
    by_split: Mapping[str, Sequence[Path]],
    read: Callable[[TaskSpec, Path, bool], Iterable[PlacedRow]],
) -> dict[str, dict[str, list]]:
    """Return the columns of each split's files, as the task's kind has them.

    Raises:
        SubtuneError: a file cannot be read, a row is not one of the task, or the rows cannot be
            learnt from or judged by.
    """
    kind = task.of_kind
    columns = {}
    for split, files in by_split.items():
        labelled = split in task.labelled
        # The file, or the directory that several files share.
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
    """Return where a row stands in ``source``."""
    return place if str(path) == source else f"{path.relative_to(source)}: {place}"
