"""Classification: one label word for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks.fields import TaskFields
from subtune.tasks.metrics import METRICS
from subtune.tasks.sentences import Sentences

if TYPE_CHECKING:
    import pandas as pd


class Classification(Sentences):
    """One label word for a text or a pair of texts."""

    name = "classification"
    metrics = tuple(METRICS["classes"])
    has_label_words = True
    problem_type = "single_label_classification"
    label_type = "int32"

    def parse_label(self, task: TaskFields, text: str, place: str) -> int:
        """Return the number of a label word.

        Where no label word contains a digit, the words' numbers, from 0, stand for them too.
        """
        text, words = text.strip(), task.labels or ()
        numbers = {word: number for number, word in enumerate(words)}
        if not any(letter.isdigit() for word in words for letter in word):
            numbers |= {str(number): number for number in range(len(words))}
        if text not in numbers:
            raise SubtuneError(f"{place}: label: {one_of(text, numbers)}")
        return numbers[text]

    def compared(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table.filter(like="logit_").to_numpy().argmax(axis=1), table["label"].to_numpy()
