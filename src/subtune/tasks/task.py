"""The task table: what each task is made of, whatever source its rows come from."""

from typing import Literal, Self

from pydantic import Field, model_validator

from subtune import resources
from subtune.values import Value

METRICS = (
    *("accuracy", "f1", "f1_macro", "matthews_correlation", "pearsonr", "spearmanr"),
    "exact_match",
)
CORRELATIONS = ("pearsonr", "spearmanr")
# From -1 to 1, and undefined where all labels are the same.
COEFFICIENTS = (*CORRELATIONS, "matthews_correlation")
KindName = Literal["classification", "regression", "tokens", "span"]
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


class TaskSpec(Value):
    """What of a task decides results.

    ``labels`` holds the label words in the order of their numbers; without it the task is a
    regression. The first of ``metrics`` decides, on the first of ``evaluation``, the epoch that a
    record keeps; and a table's epochs and learning rates, where its paper shows no other metric.
    """

    name: str
    text: tuple[str, ...] = Field(min_length=1, max_length=2)
    label: str = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    # Where label words tell it, it is part of no id.
    kind: KindName = Field(
        default_factory=lambda data: "classification" if data.get("labels") else "regression",
        exclude_if=lambda kind: kind in ("classification", "regression"),
    )
    metrics: tuple[str, ...] = Field(min_length=1)
    evaluation: tuple[str, ...] = ("validation",)

    @model_validator(mode="after")
    def _metrics_fit_labels(self) -> Self:
        if self.kind == "span":
            return self
        for metric in self.metrics:
            if (metric in CORRELATIONS) != self.is_regression:
                kind = "numbers" if self.is_regression else "classes"
                raise ValueError(f"metric {metric!r} does not fit a task that predicts {kind}")
        if "f1" in self.metrics and self.num_labels > 2:
            raise ValueError(
                f"metric 'f1' is of the second of two labels, found {self.num_labels} labels, "
                "expected accuracy, f1_macro or matthews_correlation"
            )
        return self

    @property
    def is_regression(self) -> bool:
        return self.labels is None

    @property
    def num_labels(self) -> int:
        """Width of the classifier: one output for a regression."""
        return 1 if self.labels is None else len(self.labels)

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits whose rows have labels: those that train, and those that evaluate."""
        return ("train", *self.evaluation)


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
    name: Task(name=name, **fields) for name, fields in resources.read("tasks").items()
}
