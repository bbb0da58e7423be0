"""The fields of a task that its kind needs, and that decide results."""

from collections.abc import Sequence

from pydantic import Field

from subtune.core.ids import Value


def default_kind(labels: Sequence[str] | None) -> str:
    """Return the kind of a task that names none."""
    return "classification" if labels else "regression"


class TaskFields(Value):
    """The fields of a task that affect results. `TaskSpec` checks them against the task's kind.

    Attributes:
        name: the task's name in configurations.
        text: the columns of the texts.
        label: the label column, or a column of 0 and 1 for each label word.
        labels: the label words in the order of their numbers.
        kind: a name in `subtune.tasks.kinds.KINDS`.
        metrics: the first one, on the first split of ``evaluation``, selects the epoch of a record
            and, unless a paper shows another metric, the epochs and learning rates of tables.
        evaluation: the splits that are scored.
        encoding: the encoding of text files.
        sheet: the sheet of Excel files.
        merge_labels: count label words as one if `subtune.tasks.labels.folded` makes them equal.
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
    merge_labels: bool = False

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
