"""Columns of tables: MNLI is one task and two columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subtune.tasks import Task
from subtune.tasks.task import TEST


@dataclass(frozen=True)
class ScoreColumn:
    """The source of a column of scores.

    Epochs and learning rates are chosen by the column that ``decides``. Methods are compared by the
    column that ``judges``: the same, or the test rows of a user's own task. ``title`` is the
    heading.
    """

    key: str
    task: str
    split: str
    metric: str
    decides: bool
    judges: bool
    title: str = ""

    @property
    def in_history(self) -> str:
        """The column of a run's history that has this score of every epoch."""
        return f"{self.split}/{self.metric}"


def columns_of(tasks: Sequence[Task], metrics: Mapping[str, str]) -> list[ScoreColumn]:
    """Return columns in the order of the tasks. The first of a task's columns decides.

    ``metrics`` has the tasks of which another metric than their first is shown, and decides.
    """
    columns = []
    for task in tasks:
        for position, (split, title) in enumerate(task.columns()):
            several = len(task.evaluation) > 1
            key = f"{task.name}_{split.removeprefix('validation_')}" if several else task.name
            metric = metrics.get(task.name, task.metrics[0])
            decides = position == 0
            judges = split == TEST if TEST in task.evaluation else decides
            column = ScoreColumn(key, task.name, split, metric, decides, judges, title)
            columns.append(column)
    return columns
