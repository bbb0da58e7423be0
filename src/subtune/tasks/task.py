"""The task table: what each task is made of, whatever source its rows come from."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from subtune.core import resources
from subtune.core.content_ids import Value
from subtune.tasks.kind import Kind
from subtune.tasks.kinds import KINDS

KindName = Literal["classification", "regression", "tokens", "span"]
# Those that label words tell apart: their names are part of no id.
TOLD_BY_LABELS = ("classification", "regression")
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


def kind_of_unnamed(labels: Sequence[str] | None) -> KindName:
    """The kind of a task that names none, by its label words."""
    return "classification" if labels else "regression"


class TaskSpec(Value):
    """What of a task decides results.

    ``labels`` holds the label words in the order of their numbers, where its kind has some; without
    them and without a ``kind`` the task is a regression. The first of ``metrics`` decides, on the
    first of ``evaluation``, the epoch that a record keeps; and a table's epochs and learning rates,
    where its paper shows no other metric.
    """

    name: str
    text: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    kind: KindName = Field(
        default_factory=lambda data: kind_of_unnamed(data.get("labels")),
        exclude_if=lambda kind: kind in TOLD_BY_LABELS,
    )
    metrics: tuple[str, ...]
    evaluation: tuple[str, ...] = ("validation",)

    @model_validator(mode="after")
    def _is_of_its_kind(self) -> Self:
        kind = self.of_kind
        if kind.has_label_words != (self.labels is not None):
            expected = "label words" if kind.has_label_words else "none"
            raise ValueError(f"labels: found {_listed(self.labels)}, expected {expected}")
        if len(self.text) not in kind.text_columns:
            counts = " or ".join(map(str, kind.text_columns))
            columns = "column" if counts == "1" else "columns"
            raise ValueError(f"text: found {_listed(self.text)}, expected {counts} {columns}")
        if kind.text and self.text != kind.text:
            raise ValueError(
                f"text: found {_listed(self.text)}, expected {_listed(kind.text)}, or no `text`"
            )
        if kind.text and self.label != kind.label:
            raise ValueError(f"label: found {self.label!r}, expected {kind.label!r}, or no `label`")
        if not self.metrics or not set(self.metrics) <= set(kind.metrics):
            raise ValueError(
                f"metrics: found {_listed(self.metrics)}, expected some of those of "
                f"{kind.name!r} tasks: {', '.join(kind.metrics)}"
            )
        if kind.has_label_words and "f1" in self.metrics and self.outputs > 2:
            raise ValueError(
                f"metrics: 'f1' is of the second of two labels, found {self.outputs} labels, "
                "expected accuracy, f1_macro or matthews_correlation"
            )
        return self

    @property
    def of_kind(self) -> Kind:
        """What tasks of its kind have in common."""
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        """Width of the head, such as the number of label words."""
        return self.of_kind.outputs(self)

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits whose rows have labels: those that train, and those that evaluate."""
        return ("train", *self.evaluation)


def _listed(names: tuple[str, ...] | None) -> str:
    return ", ".join(names or ()) or "none"


class Task(TaskSpec):
    """One task: what decides its results, how it is shown, and what is predicted of it.

    ``submission`` names the GLUE server's files, one per test split, and ``score_range`` what the
    server takes of a regression. None of it is part of an id.
    """

    title: str
    test: tuple[str, ...] = ("test",)
    submission: tuple[str, ...] = ()
    score_range: tuple[float, float] | None = None

    def spec(self) -> TaskSpec:
        """What of the task decides results."""
        return TaskSpec(**{name: getattr(self, name) for name in TaskSpec.model_fields})

    def columns(self) -> list[tuple[str, str]]:
        """Columns of the papers' tables: (evaluation split, heading)."""
        if len(self.evaluation) == 1:
            return [(self.evaluation[0], self.title)]
        short = {"validation_matched": "m", "validation_mismatched": "mm"}
        return [(split, f"{self.title}-{short.get(split, split)}") for split in self.evaluation]


TASKS: dict[str, Task] = {
    name: Task(name=name, **fields)
    for name, fields in resources.read_yaml("subtune.tasks", "tasks.yaml").items()
}
