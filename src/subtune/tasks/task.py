"""Tasks: the fields that decide results, the built-in tasks, their sizes and columns of scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator

from subtune.core.files import read_package_yaml
from subtune.core.ids import Value
from subtune.tasks.metrics import TITLES
from subtune.tasks.sentences import Classification, MultiLabel, Regression
from subtune.tasks.task_kind import TaskKind
from subtune.tasks.token_tasks import Span, Tokens

# All kinds of task. Other packages name none of them.
KINDS: dict[str, TaskKind] = {
    kind.name: kind for kind in (Classification(), MultiLabel(), Regression(), Tokens(), Span())
}
# The split of a user's own task on which the runs that `validation` selected are scored.
TEST = "test"
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


def default_kind(labels: Sequence[str] | None) -> str:
    """Return the kind of a task that names none."""
    return "classification" if labels else "regression"


class TaskSpec(Value):
    """The fields of a task that affect results, checked against its kind.

    Attributes:
        name: the task's name in configurations.
        text: the columns of the texts.
        label: the label column, or a column of 0 and 1 for each label word.
        labels: the label words in the order of their numbers.
        kind: a name in `KINDS`.
        metrics: the first one, on the first split of ``evaluation``, selects the epoch of a record
            and, unless a paper shows another metric, the epochs and learning rates of tables.
        evaluation: the splits that are scored.
        encoding: the encoding of text files.
        sheet: the sheet of Excel files.
        group: the column whose value the rows of one author, patient or thread share; they are in
            one fold.
        merge_labels: true only in records of versions that compared label words without capitals.
    """

    name: str
    text: tuple[str, ...]
    label: str | tuple[str, ...] = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    kind: str = Field(
        default_factory=lambda data: default_kind(data.get("labels")),
        # Label words distinguish these kinds, so ids do not include their names.
        exclude_if=lambda kind: kind in ("classification", "regression"),
    )
    metrics: tuple[str, ...]
    evaluation: tuple[str, ...] = ("validation",)
    encoding: str | None = None
    sheet: str | None = None
    group: str | None = None
    merge_labels: bool = False

    @property
    def of_kind(self) -> TaskKind:
        """The task's kind, which knows all that differs between kinds."""
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        """The head's width, by default the number of label words."""
        return self.of_kind.outputs or len(self.labels or ())

    @property
    def labelled_splits(self) -> tuple[str, ...]:
        """The splits whose rows have labels: the training and evaluation splits."""
        return ("train", *self.evaluation)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The label columns: one, or one for each label word."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def columns_read(self, labelled: bool) -> tuple[str, ...]:
        """Return the columns that are read from rows with or without labels."""
        if not labelled:
            return self.text
        return (*self.text, *self.label_columns, *filter(None, [self.group]))

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        kind = self.of_kind
        if kind.has_label_words != (self.labels is not None):
            expected = "label words" if kind.has_label_words else "none"
            raise _mistake("labels", self.labels, expected)
        if not isinstance(self.label, str) and not kind.has_label_columns:
            raise _mistake("label", self.label, "one column")
        if not isinstance(self.label, str) and len(self.label) != self.outputs:
            expected = f"one column or one for each of {self.outputs} labels"
            raise _mistake("label", self.label, expected)
        if kind.text and self.text != kind.text:
            raise _mistake("text", self.text, f"{', '.join(kind.text)}, or no `text`")
        if kind.text and self.label != kind.label:
            raise _mistake("label", self.label, f"{kind.label!r}, or no `label`")
        if len(self.text) not in kind.text_columns:
            expected = "1 or 2 columns" if 2 in kind.text_columns else "1 column"
            raise _mistake("text", self.text, expected)
        if not self.metrics or not set(self.metrics) <= set(kind.metrics):
            known = f"some of those of {kind.name!r} tasks: {', '.join(kind.metrics)}"
            raise _mistake("metrics", self.metrics, known)
        if kind.has_label_words and "f1" in self.metrics and self.outputs > 2:
            raise ValueError(
                f"metrics: 'f1' needs exactly two labels, found {self.outputs} labels, "
                "expected accuracy, f1_macro or matthews_correlation"
            )
        return self


def _mistake(key: str, found: str | tuple[str, ...] | None, expected: str) -> ValueError:
    listed = repr(found) if isinstance(found, str) else ", ".join(found or ()) or "none"
    return ValueError(f"{key}: found {listed}, expected {expected}")


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

    def for_cv_fold(self, folds: int, others: int, most: int | None = None) -> Self:
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

    def examples_per_row(self, max_length: int, doc_stride: int | None) -> int:
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
        predictions: the systems whose predictions a user brings, each with its file.
    """

    title: str
    test: tuple[str, ...] = ("test",)
    size: TaskSize | None = None
    predictions: tuple[tuple[str, str], ...] = ()

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
    def history_column(self) -> str:
        """The column of a run's history with this score for every epoch."""
        return f"{self.split}/{self.metric}"


def list_score_columns(tasks: Sequence[Task], metrics: Mapping[str, str]) -> list[ScoreColumn]:
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
