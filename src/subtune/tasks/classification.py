"""Classification: one label word to a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from subtune.core.errors import SubtuneError, one_of
from subtune.tasks import metrics, sentences
from subtune.tasks.kind import Kind

if TYPE_CHECKING:
    from torch import Tensor

    from subtune.tasks.examples import Examples
    from subtune.tasks.task import TaskSpec


def parse_label(task: TaskSpec, text: str, place: str) -> int:
    """The number of a label word.

    Where no label word has a digit in it, the words' numbers stand for them, counted from 0.

    Raises:
        SubtuneError: it is neither.
    """
    text, words = text.strip(), task.labels or ()
    if text in words:
        return words.index(text)
    numbers = [str(number) for number in range(len(words))]
    if any(letter.isdigit() for word in words for letter in word):
        numbers = []
    if text in numbers:
        return int(text)
    raise SubtuneError(f"{place}: label: {one_of(text, [*words, *numbers])}")


def _require_two_labels(
    task: TaskSpec, split: str, path: Path, columns: Mapping[str, list]
) -> None:
    sentences.require_two_labels(task, split, path, columns, metrics.COEFFICIENTS)


def _losses(logits: Tensor, labels: Tensor, example: Tensor) -> Tensor:
    """Cross-entropy of logits ``[k, n, o]`` and class numbers ``[n]``."""
    per_run = labels.expand(len(logits), 1, -1)
    return -logits.mT.log_softmax(1).gather(1, per_run).sum((1, 2))


def _score(task: TaskSpec, examples: Examples, logits: np.ndarray) -> dict[str, float]:
    return metrics.compute_all(task.metrics, logits.argmax(axis=1), examples.labels)


CLASSIFICATION = Kind(
    name="classification",
    metrics=("accuracy", "f1", "f1_macro", "matthews_correlation"),
    default_metrics=(),
    text=(),
    text_columns=(1, 2),
    label="label",
    has_label_words=True,
    formats=sentences.FORMATS,
    head="sequence_classification",
    outputs=lambda task: len(task.labels or ()),
    reads="first",
    auto_class="AutoModelForSequenceClassification",
    peft_type="SEQ_CLS",
    problem_type="single_label_classification",
    nats=1.0,
    least_length=4,
    overlaps=False,
    columns=sentences.columns("int32"),
    read=sentences.reader(parse_label),
    from_rows=sentences.from_rows(parse_label),
    require_sound=_require_two_labels,
    texts=sentences.texts,
    encode=sentences.encode,
    losses=_losses,
    predict=sentences.logits_as_they_are,
    score=_score,
    table=sentences.table,
)
