"""Built-in and other tasks, with their sizes and their columns in tables of scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from subtune.core.files import read_package_yaml
from subtune.core.ids import Value
from subtune.tasks.metrics import TITLES
from subtune.tasks.spec import TaskSpec

# The split of a user's own task on which the runs that `validation` selected are scored.
TEST = "test"
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


class TaskSize(Value):
    """The number of a task's rows, and facts about them that a plan needs.

    Attributes:
        train_rows: the number of rows to train on.
        evaluation_rows: the number of rows of all evaluation splits.
        test_rows: the number of rows of all splits that are only predicted.
        tokens: the mean number of tokens of a training row, often an estimate.
        scarcest: what limits the number of folds (different texts, or rows of the most frequent
            label), and its number; None if rows are not read before training.
        weighed: the reason why labels cannot be weighted by frequency, if there is one.
        sample: some training texts, on which tokenizers are tried.
    """

    train_rows: int
    evaluation_rows: int
    test_rows: int
    tokens: float
    scarcest: tuple[str, int] | None = None
    weighed: str | None = None
    sample: tuple[str, ...] = ()

    @property
    def all_rows(self) -> int:
        return self.train_rows + self.evaluation_rows + self.test_rows

    def most_folds(self, most: int) -> int:
        """Return the number of folds that the rows can be divided into, at most ``most``."""
        return min(most, self.scarcest[1]) if self.scarcest else most

    def divided(self, folds: int, others: int, most: int | None = None) -> Self:
        """Return the size for a run that does not train on one of the folds, but is scored on it.

        Args:
            folds: the number of folds.
            others: the number of other rows to evaluate on.
            most: the maximum number of the fold's rows that are scored.
        """
        judging = self.train_rows // folds
        return self.replaced(
            train_rows=self.train_rows - judging,
            evaluation_rows=min(judging, most or judging) + others,
        )

    def rows_within(self, limit: int | None) -> int:
        """Return the number of training rows, at most ``limit``."""
        return min(limit or self.train_rows, self.train_rows)

    def examples_of_a_row(self, max_length: int, doc_stride: int | None) -> int:
        """Return the number of examples that an average row is cut into.

        Args:
            max_length: the maximum number of tokens of an example.
            doc_stride: the tokens between the starts of overlapping examples; None if a row is one
                example.
        """
        if doc_stride is None:
            return 1
        return 1 + math.ceil(max(0, self.tokens - max_length) / min(doc_stride, max_length))


# The size of a task whose entry states none.
USUAL_SIZE = TaskSize(train_rows=100_000, evaluation_rows=10_000, test_rows=10_000, tokens=50)


class Task(TaskSpec):
    """A task, including fields that do not affect results and so are not in ids.

    Attributes:
        title: the name in tables and figures.
        test: the splits whose rows are predicted.
        size: the size of a built-in task, which is known before any download.
    """

    title: str
    test: tuple[str, ...] = ("test",)
    size: TaskSize | None = None

    def spec(self) -> TaskSpec:
        """Return the part of the task that affects results."""
        return TaskSpec(**{name: getattr(self, name) for name in TaskSpec.model_fields})

    def metric_titles(self) -> dict[str, str]:
        """Return the title of each metric; F1 of two labels of a user's task names its label."""
        titles = {metric: TITLES[metric] for metric in self.metrics}
        if self.labels and "f1" in titles and self.name not in TASKS:
            titles["f1"] += f' of "{self.labels[-1]}"'
        return titles

    def columns(self) -> list[tuple[str, str]]:
        """Return the columns of the papers' tables: (evaluation split, heading)."""
        if len(self.evaluation) == 1:
            return [(self.evaluation[0], self.title)]
        short = {"validation_matched": "m", "validation_mismatched": "mm"}
        return [(split, f"{self.title}-{short.get(split, split)}") for split in self.evaluation]


TASKS: dict[str, Task] = {
    name: Task(name=name, **fields)
    for name, fields in read_package_yaml("subtune.tasks", "tasks.yaml").items()
}


@dataclass(frozen=True)
class ScoreColumn:
    """A column of scores: a task, one of its splits and a metric. MNLI has two columns.

    Attributes:
        key: the column's name in results.
        task: the task's name.
        split: the split that is scored.
        metric: the metric's name.
        decides: true if the column selects epochs and learning rates.
        judges: true if the column compares methods. A user's own task with test rows has one column
            that decides and another that judges; other tasks have one that does both.
        title: the heading in tables.
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
        """The column of a run's history with this score for every epoch."""
        return f"{self.split}/{self.metric}"


def columns_of(tasks: Sequence[Task], metrics: Mapping[str, str]) -> list[ScoreColumn]:
    """Return columns in the order of the tasks. The first column of a task decides.

    Args:
        tasks: the tasks.
        metrics: the metric that is shown and decides, for tasks for which it is not the first.
    """
    columns = []
    for task in tasks:
        for position, (split, title) in enumerate(task.columns()):
            several = len(task.evaluation) > 1
            key = f"{task.name}_{split.removeprefix('validation_')}" if several else task.name
            metric = metrics.get(task.name, task.metrics[0])
            judges = split == TEST if TEST in task.evaluation else position == 0
            column = ScoreColumn(key, task.name, split, metric, position == 0, judges, title)
            columns.append(column)
    return columns
