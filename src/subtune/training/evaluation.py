"""Logits of a whole split, and the scores of runs.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` its outputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS_OF_RUNS,
    evaluation_batches,
)
from subtune.models.encoder import Encoder
from subtune.models.forward import logits
from subtune.models.operations import PerRun, TableRows, Weight
from subtune.models.packing import micro_batches, pack
from subtune.runs.spec import Precision
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.labels import Unit
from subtune.training.precision import autocast


def logits_of(
    model: Encoder,
    examples: Examples,
    precision: Precision,
    weights: Mapping[str, Weight] | None = None,
) -> np.ndarray:
    """Return the logits of a whole split, in its order, without dropout.

    Args:
        weights: the weights of runs side by side; None for the model's own, as one run.

    Returns:
        ``[k, q, o]``; if the head averages over tokens, ``[k, n, o]``.
    """
    trained = {
        name: _whole_table(weight, model.parameters[name])
        for name, weight in (weights or {}).items()
    }
    tokens = EVALUATION_TOKENS
    if model.device.type != "cpu":
        tokens = min(GPU_EVALUATION_TOKENS, GPU_EVALUATION_TOKENS_OF_RUNS // _runs_in(trained))
    counts = np.ones(len(examples), np.int64) if model.averages else examples.read_counts
    ends = counts.cumsum()
    parts, order = [], []
    with torch.inference_mode(), autocast(model.device, precision):
        for alike in evaluation_batches(examples.lengths, tokens):
            for index in micro_batches(alike, examples.lengths[alike], model):
                parts.append(logits(model, pack(examples, index, model), trained))
                order += [np.arange(ends[n] - counts[n], ends[n]) for n in index]
        # All logits are copied from the GPU at once. They become float32, because numpy has no
        # bfloat16.
        every = torch.cat(parts, 1)
        every = every.to(torch.promote_types(every.dtype, torch.float32)).cpu()
    return every.numpy()[:, np.concatenate(order).argsort()]


def _runs_in(weights: Mapping[str, Weight]) -> int:
    """Return the number of runs to which weights belong."""
    return max((len(of.values) for of in weights.values() if isinstance(of, PerRun)), default=1)


def _whole_table(weight: Weight, table: Tensor) -> Weight:
    """Return a weight for texts with any words: a table's trained rows in the whole table."""
    if not isinstance(weight, TableRows):
        return weight
    tables = table.expand(len(weight.values), -1, -1)
    return PerRun(tables.index_copy(1, weight.rows, weight.values))


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run at the end of an epoch.

    Attributes:
        scores: by split, then metric; the task's first split and metric come first.
        predictions: by split, in the form of the task's kind.
    """

    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    predictions: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def first_score(self) -> float:
        return next(iter(next(iter(self.scores.values())).values()))


def evaluate(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    precision: Precision,
    weights: Mapping[str, Weight],
    unit: Unit,
) -> list[Evaluation]:
    """Score runs side by side on every evaluation split in ``examples``.

    A run's scores are NaN if one of its predictions is not finite.

    Args:
        weights: the runs' weights for ``model``.
        unit: the unit of the labels that the runs predict.
    """
    splits = [split for split in task.evaluation if split in examples]
    by_split = [logits_of(model, examples[split], precision, weights) for split in splits]
    evaluations = []
    for run in range(_runs_in(weights)):
        computed = [every[run] * unit.deviation + unit.mean for every in by_split]
        if not all(np.isfinite(values).all() for values in computed):
            evaluations.append(without_scores(task))
            continue
        scores, predictions = {}, {}
        for split, values in zip(splits, computed, strict=True):
            predictions[split] = task.of_kind.predict(examples[split], values)
            scores[split] = task.of_kind.score(task, examples[split], predictions[split])
        evaluations.append(Evaluation(scores, predictions))
    return evaluations


def without_scores(task: TaskSpec) -> Evaluation:
    """Return NaN scores, for an epoch whose loss or predictions are not finite."""
    return Evaluation({split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation})
