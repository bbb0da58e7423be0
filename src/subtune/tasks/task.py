"""Tasks, with rows from any source, and their columns in tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from subtune.core.content_ids import Value
from subtune.core.layout import read_yaml
from subtune.tasks.metrics import TITLES
from subtune.tasks.sentences import Classification, MultiLabel, Regression, folded
from subtune.tasks.span import Span
from subtune.tasks.task_kind import TaskKind
from subtune.tasks.tokens import Tokens

# All kinds of task. Code outside this package names none of them.
KINDS: dict[str, TaskKind] = {
    kind.name: kind for kind in (Classification(), MultiLabel(), Regression(), Tokens(), Span())
}
KindName = Literal["classification", "multilabel", "regression", "tokens", "span"]
# The split of a user's own task on which the runs that `validation` selected are scored.
TEST = "test"
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


def default_kind(labels: Sequence[str] | None) -> KindName:
    """Return the kind of a task that names none."""
    return "classification" if labels else "regression"


class TaskSpec(Value):
    """The part of a task that affects results, checked against its kind.

    ``labels`` are the label words in the order of their numbers. ``label`` is a column, or a column
    of 0 and 1 for each label word. The first of ``metrics``, on the first of ``evaluation``,
    selects the epoch of a record and, unless a paper shows another metric, the epochs and learning
    rates of tables. ``encoding`` is the encoding of text files, and ``sheet`` the sheet of Excel
    files. With ``merge_labels`` label words that `folded` makes equal count as one.
    """

    name: str
    text: tuple[str, ...]
    label: str | tuple[str, ...] = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    kind: KindName = Field(
        default_factory=lambda data: default_kind(data.get("labels")),
        # Label words distinguish these kinds, so ids do not include their names.
        exclude_if=lambda kind: kind in ("classification", "regression"),
    )
    metrics: tuple[str, ...]
    evaluation: tuple[str, ...] = ("validation",)
    encoding: str | None = None
    sheet: str | None = None
    merge_labels: bool = False

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        kind, counts = self.of_kind, self.of_kind.text_columns
        if kind.has_label_words != (self.labels is not None):
            words = "label words" if kind.has_label_words else "none"
            raise _mistake("labels", self.labels, words)
        if self.merge_labels and len({*map(folded, self.labels or ())}) < len(self.labels or ()):
            raise _mistake("labels", self.labels, "none that `merge_labels` makes equal")
        if not isinstance(self.label, str) and not (
            kind.has_label_columns and len(self.label) == self.outputs
        ):
            or_columns = f" or one for each of {self.outputs} labels" * kind.has_label_columns
            raise _mistake("label", self.label, f"one column{or_columns}")
        if kind.text and self.text != kind.text:
            raise _mistake("text", self.text, f"{', '.join(kind.text)}, or no `text`")
        if kind.text and self.label != kind.label:
            raise _mistake("label", self.label, f"{kind.label!r}, or no `label`")
        if len(self.text) not in counts:
            raise _mistake("text", self.text, "1 or 2 columns" if 2 in counts else "1 column")
        if not self.metrics or not set(self.metrics) <= set(kind.metrics):
            known = f"some of those of {kind.name!r} tasks: {', '.join(kind.metrics)}"
            raise _mistake("metrics", self.metrics, known)
        if kind.has_label_words and "f1" in self.metrics and self.outputs > 2:
            raise ValueError(
                f"metrics: 'f1' needs exactly two labels, found {self.outputs} labels, "
                "expected accuracy, f1_macro or matthews_correlation"
            )
        return self

    @property
    def of_kind(self) -> TaskKind:
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        """The head's width, such as the number of label words."""
        return self.of_kind.outputs(self)

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits whose rows have labels: the training and evaluation splits."""
        return ("train", *self.evaluation)

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The label columns: one, or one for each label word."""
        return (self.label,) if isinstance(self.label, str) else self.label

    def columns_read(self, labelled: bool) -> tuple[str, ...]:
        """Return the columns that are read from rows with or without labels."""
        return (*self.text, *self.label_columns) if labelled else self.text


def _mistake(key: str, found: str | tuple[str, ...] | None, expected: str) -> ValueError:
    listed = repr(found) if isinstance(found, str) else ", ".join(found or ()) or "none"
    return ValueError(f"{key}: found {listed}, expected {expected}")


class TaskSize(Value):
    """Numbers of rows to train on, to evaluate on and to predict, over all splits.

    ``tokens`` is the mean number of tokens of a training row, often an estimate. ``scarcest``
    limits the number of folds if rows are read before training: its name (different texts, or rows
    of the most frequent label) and its number. ``weighed`` is the reason why labels cannot be
    weighted by frequency, if there is one. ``sample`` has some training texts, on which tokenizers
    are tried.
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
        """Return the size for a run that holds out one of ``folds`` folds.

        ``most`` limits the scored rows of this fold; ``others`` is the number of other rows to
        evaluate on.
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
        """Return the number of examples of an average row: 1, or the number of its overlapping
        parts."""
        if doc_stride is None:
            return 1
        return 1 + math.ceil(max(0, self.tokens - max_length) / min(doc_stride, max_length))


# The size of a task whose entry states none.
USUAL_SIZE = TaskSize(train_rows=100_000, evaluation_rows=10_000, test_rows=10_000, tokens=50)


class Task(TaskSpec):
    """A task, including fields that do not affect results and so are not in ids.

    ``submission`` names the GLUE server's files, one per test split; ``score_range`` is the range
    of numbers that the server accepts. ``size`` is known before any download.
    """

    title: str
    test: tuple[str, ...] = ("test",)
    submission: tuple[str, ...] = ()
    score_range: tuple[float, float] | None = None
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
    for name, fields in read_yaml("subtune.tasks", "tasks.yaml").items()
}


@dataclass(frozen=True)
class ScoreColumn:
    """A column of scores: a task, one of its splits and a metric. MNLI has two columns.

    The column that ``decides`` selects epochs and learning rates. The column that ``judges``
    compares methods: the same column, or the test rows of a user's own task. ``title`` is the
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
        """The column of a run's history with this score for every epoch."""
        return f"{self.split}/{self.metric}"


def columns_of(tasks: Sequence[Task], metrics: Mapping[str, str]) -> list[ScoreColumn]:
    """Return columns in the order of the tasks. The first column of a task decides.

    ``metrics`` names the shown and deciding metric of tasks for which it is not the first.
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
