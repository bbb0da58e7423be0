"""Built-in tasks, sizes of tasks, and columns of scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from subtune.core.files import read_package_yaml
from subtune.core.ids import HashableModel
from subtune.core.user_code import hash_own_code
from subtune.tasks.metrics import metric_title
from subtune.tasks.sentences import Classification, MultiLabel, Regression
from subtune.tasks.task_kind import KINDS, TaskSpec
from subtune.tasks.token_tasks import Span, TokenClassification

KINDS.update(
    (kind.name, kind)
    for kind in (Classification(), MultiLabel(), Regression(), TokenClassification(), Span())
)
# The split on which a user-defined task is scored. A task without this split is scored on
# `validation`.
TEST = "test"
# GLUE's diagnostic set, which has the labels of MNLI.
DIAGNOSTIC = "diagnostic"


class TaskSize(HashableModel):
    """The size of a task's data, and properties of the data that a plan needs.

    Attributes:
        evaluation_rows: the number of examples in all evaluation splits.
        test_rows: the number of examples that are predicted but not scored.
        tokens: the mean number of tokens of a training example, often an estimate.
        scarcest: the name and value of the count that limits the number of folds: the smallest of
            the numbers of different texts, different groups, and rows with the most frequent label.
            None if unknown.
        rarest: the number of rows with the rarest label; None if unknown, or without such labels.
        weighting_error: the reason why labels cannot be weighted by frequency; None if they can.
        sample: some training texts, on which tokenizers are tested.
    """

    train_rows: int
    evaluation_rows: int
    test_rows: int
    tokens: float
    scarcest: tuple[str, int] | None = None
    rarest: int | None = None
    weighting_error: str | None = None
    sample: tuple[str, ...] = ()

    @property
    def total_rows(self) -> int:
        return self.train_rows + self.evaluation_rows + self.test_rows

    def most_folds(self, most: int) -> int:
        """Return the largest possible number of folds, at most ``most``."""
        return min(most, self.scarcest[1]) if self.scarcest else most

    def for_cv_fold(self, folds: int, others: int, most: int | None = None) -> Self:
        """Return the size of a cross-validation run, which trains on all folds except one.

        There are ``others`` evaluation examples outside the fold, and at most ``most`` in it.
        """
        scored = self.train_rows // folds
        return self.replace(
            train_rows=self.train_rows - scored,
            evaluation_rows=min(scored, most or scored) + others,
        )

    def examples_per_row(self, max_length: int, doc_stride: int | None) -> int:
        """Return the number of examples ``doc_stride`` tokens apart in a row of average length."""
        if doc_stride is None:
            return 1
        return 1 + math.ceil(max(0, self.tokens - max_length) / min(doc_stride, max_length))


# The assumed size of a task whose definition has no size.
USUAL_SIZE = TaskSize(train_rows=100_000, evaluation_rows=10_000, test_rows=10_000, tokens=50)


class Task(TaskSpec):
    """A task, including fields that do not affect results and therefore are not part of ids.

    Attributes:
        test: the splits for which predictions are stored.
        size: the size of a built-in task, which is known before a download; None for other tasks.
        predictions: pairs of the name of a system and the file with its external predictions.
    """

    title: str
    test: tuple[str, ...] = ("test",)
    size: TaskSize | None = None
    predictions: tuple[tuple[str, str], ...] = ()

    def spec(self) -> TaskSpec:
        """Return the fields of the task that affect results."""
        fields = {name: getattr(self, name) for name in TaskSpec.model_fields}
        return TaskSpec(**fields | {"metric_code": hash_own_code(self.metrics)})

    def metric_titles(self) -> dict[str, str]:
        """Map metrics to titles. For user-defined tasks, that of F1 names the positive label."""
        titles = {metric: metric_title(metric) for metric in self.metrics}
        if self.labels and "f1" in titles and self.name not in TASKS:
            titles["f1"] += f' of "{self.labels[-1]}"'
        return titles

    def columns(self) -> list[tuple[str, str]]:
        """Return the columns of the papers' tables, as pairs of evaluation split and heading."""
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
        key: the name of the column in results.
        decides: true if epochs and learning rates are selected by this column.
        judges: true if methods are compared by this column. It is the column that decides, except
            in user-defined tasks with a test set, which are judged on the test set.
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
    def history_column(self) -> str:
        """The column of this score in a run's history, a table with one row per epoch."""
        return f"{self.split}/{self.metric}"


def list_score_columns(tasks: Sequence[Task], metrics: Mapping[str, str]) -> list[ScoreColumn]:
    """List the tasks' columns of scores. ``metrics`` maps tasks to metrics other than the first."""
    columns = []
    for task in tasks:
        for position, (split, title) in enumerate(task.columns()):
            several = len(task.evaluation) > 1
            key = f"{task.name}_{split.removeprefix('validation_')}" if several else task.name
            metric = metrics.get(task.name, task.metrics[0])
            judges = split == TEST if TEST in task.evaluation else position == 0
            columns.append(ScoreColumn(key, task.name, split, metric, position == 0, judges, title))
    return columns
