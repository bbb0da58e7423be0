"""Fields of a task that decide its results."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from subtune.core.content_ids import Value

KindName = Literal["classification", "regression", "tokens", "span"]


def kind_of_unnamed(labels: Sequence[str] | None) -> KindName:
    """Return the kind of a task that names none, by its label words."""
    return "classification" if labels else "regression"


class TaskFields(Value):
    """The fields that a kind of task may ask of its task.

    ``labels`` holds the label words in the order of their numbers, where its kind has some; without
    them and without a ``kind`` the task is a regression. The first of ``metrics`` decides, on the
    first of ``evaluation``, the epoch that a record keeps. Where a paper shows no other metric, it
    also decides the epochs and learning rates of tables. ``encoding`` is that of the rows' files,
    where these do not tell it, and ``sheet`` that of Excel files. With ``merge_labels`` label words
    that differ in capitals alone are one.
    """

    name: str
    text: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] | None = Field(default=None, min_length=2)
    kind: KindName = Field(
        default_factory=lambda data: kind_of_unnamed(data.get("labels")),
        # Label words tell these kinds apart, so their names are part of no id.
        exclude_if=lambda kind: kind in ("classification", "regression"),
    )
    metrics: tuple[str, ...]
    evaluation: tuple[str, ...] = ("validation",)
    encoding: str | None = None
    sheet: str | None = None
    merge_labels: bool = False

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits whose rows have labels: those that train, and those that evaluate."""
        return ("train", *self.evaluation)

    def columns_read(self, labelled: bool) -> tuple[str, ...]:
        """Return the columns that are read of rows with or without labels."""
        return (*self.text, self.label) if labelled else self.text
