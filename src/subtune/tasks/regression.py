"""Regression: one number to a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from subtune.core.errors import SubtuneError
from subtune.tasks import metrics, sentences
from subtune.tasks.classification import CLASSIFICATION

if TYPE_CHECKING:
    from torch import Tensor

    from subtune.tasks.examples import Examples
    from subtune.tasks.task import TaskSpec

# Squares of what a regression misses, and of its gradients, are added up in float32.
LARGEST_SCORE = 1e9


def parse_score(task: TaskSpec, text: str, place: str) -> float:
    """The number that a label is.

    Raises:
        SubtuneError: it is none, or not finite, or too large to train on.
    """
    text = text.strip()
    try:
        score = float(text)
    except ValueError:
        raise SubtuneError(f"{place}: label: found {text!r}, expected a number") from None
    # Not a number is not below anything.
    if not abs(score) <= LARGEST_SCORE:
        raise SubtuneError(
            f"{place}: label: found {text!r}, expected a number between "
            f"±{LARGEST_SCORE:.0e}, whose squares float32 can add up"
        )
    return score


def _require_two_labels(
    task: TaskSpec, split: str, path: Path, columns: Mapping[str, list]
) -> None:
    sentences.require_two_labels(task, split, path, columns, metrics.COEFFICIENTS)


def _losses(logits: Tensor, labels: Tensor, example: Tensor) -> Tensor:
    """Squared error of logits ``[k, n, 1]`` and scores ``[n]``."""
    return (logits.squeeze(2) - labels).square().sum(1)


def _score(task: TaskSpec, examples: Examples, logits: np.ndarray) -> dict[str, float]:
    return metrics.compute_all(task.metrics, logits[:, 0], examples.labels)


REGRESSION = replace(
    CLASSIFICATION,
    name="regression",
    metrics=metrics.CORRELATIONS,
    has_label_words=False,
    outputs=lambda task: 1,
    problem_type="regression",
    # log p is −½·(y−ŷ)² for a unit variance: half the squared error.
    nats=0.5,
    columns=sentences.columns("float32"),
    read=sentences.reader(parse_score),
    from_rows=sentences.from_rows(parse_score),
    require_sound=_require_two_labels,
    losses=_losses,
    score=_score,
)
