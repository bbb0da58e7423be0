"""Readers of files with rows: a module per format, and the reader of each kind of task."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from subtune.data.readers import questions, tables, words
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import PlacedRow


class Reader(NamedTuple):
    """A reader of files.

    Attributes:
        endings: the extensions of the files that users may name.
        read: the function that reads a task's rows from a file, with their labels if ``labelled``
            (its last argument).
    """

    endings: tuple[str, ...]
    read: Callable[[TaskSpec, Path, bool], Iterable[PlacedRow]]


# Readers by their names in `subtune.tasks.task_kind.TaskKind.reader`.
READERS = {
    "tables": Reader(tables.FORMATS, tables.read),
    "words": Reader(words.ENDINGS, words.read),
    "questions": Reader(questions.ENDINGS, questions.read),
}


def reader_of(task: TaskSpec) -> Reader:
    """Return the reader of a task's files."""
    return READERS[task.of_kind.reader]
