"""Regression: one number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from subtune.core.errors import SubtuneError
from subtune.tasks.fields import TaskFields
from subtune.tasks.metrics import METRICS
from subtune.tasks.sentences import Sentences

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

# Squared errors and their gradients are added up in float32.
LARGEST_SCORE = 1e9


class Regression(Sentences):
    """One number for a text or a pair of texts."""

    name = "regression"
    metrics = tuple(METRICS["numbers"])
    compares = "numbers"
    has_label_words = False
    problem_type = "regression"
    # log p is −½·(y−ŷ)² for a unit variance: half the squared error.
    nats = 0.5
    label_type = "float32"

    def outputs(self, task: TaskFields) -> int:
        return 1

    def parse_label(self, task: TaskFields, text: str, place: str) -> float:
        """Return the number that a label is. It must be finite, and not too large to train on."""
        text = text.strip()
        try:
            score = float(text)
        except ValueError:
            raise SubtuneError(f"{place}: label: found {text!r}, expected a number") from None
        # "Not a number" is not below anything.
        if not abs(score) <= LARGEST_SCORE:
            raise SubtuneError(
                f"{place}: label: found {text!r}, expected a number between "
                f"±{LARGEST_SCORE:.0e}, whose squares float32 can add up"
            )
        return score

    def losses(self, logits: Tensor, labels: Tensor, example: Tensor) -> Tensor:
        """Return each run's summed squared error of logits ``[k, n, 1]`` and scores ``[n]``."""
        return (logits.squeeze(2) - labels).square().sum(1)

    def compared(self, table: pd.DataFrame) -> tuple[Sequence, Sequence]:
        return table["logit_0"].to_numpy(), table["label"].to_numpy()
