"""A run's predictions and scores.

Shapes: ``n`` examples.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from subtune import metrics
from subtune.data.batches import Rows, in_length_order
from subtune.models.encoder import Encoder
from subtune.models.forward import logits
from subtune.models.packed import pack
from subtune.tasks import TaskSpec
from subtune.training.delta import Delta, applied, moved
from subtune.training.precision import autocast


@dataclass(frozen=True)
class Evaluation:
    """What a run has learnt so far.

    ``scores``: by split, then metric, the task's first of each first. ``logits``
    ``[n, num_labels]`` by split. ``changes``: tensor name to mean |change| over the whole tensor
    (LayerNorm paper, Eq. 1) and the tensor's size.
    """

    scores: dict[str, dict[str, float]]
    logits: dict[str, np.ndarray]
    delta: Delta
    changes: dict[str, tuple[float, int]]

    @property
    def first_score(self) -> float:
        return next(iter(next(iter(self.scores.values())).values()))

    @property
    def flat_scores(self) -> dict[str, float]:
        """``<split>/<metric>`` to score."""
        return {f"{s}/{m}": value for s, by in self.scores.items() for m, value in by.items()}


def evaluate(
    model: Encoder, rows: Mapping[str, Rows], task: TaskSpec, precision: str, delta: Delta
) -> Evaluation:
    """Score a pretrained model with a delta's values on the task's evaluation splits.

    A low-rank update is added to its matrix, as it is in a model that is exported. Where a
    prediction is not finite there is nothing to score.
    """
    changed = replace(model, parameters=applied(model.parameters, delta))
    predicted = {split: predict(changed, rows[split], precision) for split in task.evaluation}
    if not all(np.isfinite(by_row).all() for by_row in predicted.values()):
        return without_scores(task)
    return Evaluation(
        scores={s: metrics.score(task, by_row, rows[s].labels) for s, by_row in predicted.items()},
        logits=predicted,
        delta=moved(delta, "cpu"),
        changes={name: _change(model, changed, name) for name in delta},
    )


def without_scores(task: TaskSpec) -> Evaluation:
    """Of an epoch whose loss or predictions are not finite: every score is NaN, and nothing else is
    worth keeping."""
    scores = {split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation}
    return Evaluation(scores, logits={}, delta={}, changes={})


def predict(model: Encoder, rows: Rows, precision: str) -> np.ndarray:
    """Logits ``[n, num_labels]`` of every row, in the rows' order, without dropout."""
    every = torch.empty(len(rows), model.outputs, device=model.device)
    with torch.inference_mode(), autocast(model.device, precision):
        for index in in_length_order(rows.lengths):
            batch = pack(rows, index, model)
            every[torch.from_numpy(index)] = logits(model, batch)[0].float()
    return every.cpu().numpy()


def _change(pretrained: Encoder, changed: Encoder, name: str) -> tuple[float, int]:
    before, after = pretrained.parameters[name], changed.parameters[name]
    return (after - before).abs().mean(dtype=torch.float64).item(), before.numel()
