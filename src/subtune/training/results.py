"""The result of a run, and its lines in the log."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from subtune.tasks import TaskSpec
from subtune.training.deltas import Delta
from subtune.training.evaluation import Evaluation


@dataclass
class Result:
    """The result of a run, or of its epochs so far.

    A run that diverged has no best epoch, even if an earlier epoch was good: the run's learning
    rate should not be used.

    Attributes:
        trainable: the number of values that train.
        history: one row per epoch: ``epoch`` (from 1), ``train_loss`` (mean over examples, or over
            words if each has a loss), ``seconds`` (the run's share, if runs train side by side) and
            ``<split>/<metric>`` scores.
        best_epoch: the first epoch with the highest score (the task's first metric on its first
            evaluation split); without evaluation splits, the last epoch; None if the run diverged.
        best: the evaluation of the best epoch.
        predictions: each epoch's predictions, by split.
        delta: the best epoch's values, on the CPU; empty until the run ends, and if it diverges.
        changes: by tensor name, the mean absolute change and the size; empty like ``delta``.
    """

    trainable: int
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int | None = None
    best: Evaluation = field(default_factory=Evaluation)
    predictions: list[dict[str, np.ndarray]] = field(default_factory=list)
    delta: Delta = field(default_factory=dict)
    changes: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """True if a loss or a score is not finite."""
        return bool(self.history) and self.best_epoch is None

    def end_epoch(
        self, epoch: int, train_loss: float, seconds: float, evaluation: Evaluation
    ) -> None:
        """Add an epoch, which may be the best."""
        row = {"epoch": epoch, "train_loss": train_loss, "seconds": seconds}
        for split, by_metric in evaluation.scores.items():
            row |= {f"{split}/{metric}": score for metric, score in by_metric.items()}
        self.history.append(row)
        self.predictions.append(evaluation.predictions)
        is_first = self.best_epoch is None or not evaluation.scores
        if not all(map(math.isfinite, row.values())):
            self.best, self.best_epoch = evaluation, None
        elif is_first or evaluation.first_score > self.best.first_score:
            self.best, self.best_epoch = evaluation, epoch


def line_of_epoch(row: Mapping[str, float], epochs: int, task: TaskSpec) -> str:
    """Return an epoch's row of the history as a line of the log."""
    metric = task.metrics[0]
    score = row.get(f"{task.evaluation[0]}/{metric}")
    scored = "" if score is None else f"{metric} {score:.4f}  "
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['train_loss']:.4f}  "
        f"{scored}{row['seconds']:.1f} s"
    )
