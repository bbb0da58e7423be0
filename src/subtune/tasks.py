"""The task table: what each task is made of, whatever source its rows come from."""

from typing import Self

from pydantic import Field, model_validator

from subtune import resources
from subtune.values import Value

METRICS = ("accuracy", "f1", "matthews_correlation", "pearsonr", "spearmanr")
CORRELATIONS = ("pearsonr", "spearmanr")
# GLUE's diagnostic set, whose labels are MNLI's.
DIAGNOSTIC = "diagnostic"


class Task(Value):
    """One task.

    ``labels`` holds the label words in the order of their numbers; without it the task is a
    regression. The first of ``metrics`` decides, on the first of ``evaluation``, the epoch that a
    record keeps; and a table's epochs and learning rates, where its paper shows no other metric.
    ``submission`` names the GLUE server's files, one per test split.
    """

    name: str
    title: str
    text: tuple[str, ...] = Field(min_length=1, max_length=2)
    label: str = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    metrics: tuple[str, ...] = Field(min_length=1)
    evaluation: tuple[str, ...] = ("validation",)
    test: tuple[str, ...] = ("test",)
    submission: tuple[str, ...] = ()
    score_range: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _metrics_fit_labels(self) -> Self:
        for metric in self.metrics:
            if (metric in CORRELATIONS) != self.is_regression:
                kind = "numbers" if self.is_regression else "classes"
                raise ValueError(f"metric {metric!r} does not fit a task that predicts {kind}")
        return self

    @property
    def is_regression(self) -> bool:
        return self.labels is None

    @property
    def num_labels(self) -> int:
        """Width of the classifier: one output for a regression."""
        return 1 if self.labels is None else len(self.labels)

    def columns(self) -> list[tuple[str, str]]:
        """Columns of the papers' tables: (evaluation split, heading)."""
        if len(self.evaluation) == 1:
            return [(self.evaluation[0], self.title)]
        short = {"validation_matched": "m", "validation_mismatched": "mm"}
        return [(split, f"{self.title}-{short.get(split, split)}") for split in self.evaluation]


TASKS: dict[str, Task] = {
    name: Task(name=name, **fields) for name, fields in resources.read("tasks").items()
}
