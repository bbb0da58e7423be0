"""The part of a task that affects results."""

from typing import Self

from pydantic import model_validator

from subtune.tasks.fields import TaskFields
from subtune.tasks.kinds import KINDS
from subtune.tasks.task_kind import TaskKind


class TaskSpec(TaskFields):
    """The part of a task that affects results, checked against its kind."""

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

    @property
    def of_kind(self) -> TaskKind:
        """The task's kind, which knows all that differs between kinds."""
        return KINDS[self.kind]

    @property
    def outputs(self) -> int:
        """The head's width, such as the number of label words."""
        return self.of_kind.outputs(self)


def _mistake(key: str, found: str | tuple[str, ...] | None, expected: str) -> ValueError:
    listed = repr(found) if isinstance(found, str) else ", ".join(found or ()) or "none"
    return ValueError(f"{key}: found {listed}, expected {expected}")
