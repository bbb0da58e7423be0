"""A run's predictions and scores.

Shapes: ``q`` tokens that the head reads, ``o`` its outputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from subtune.data.batches import in_length_order
from subtune.models.encoder import Encoder
from subtune.models.forward import logits
from subtune.models.packed import micro_batches, pack
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.delta import Delta, applied, from_stored, to_stored
from subtune.training.precision import autocast


@dataclass(frozen=True)
class Evaluation:
    """The state of a run at the end of an epoch.

    ``scores``: by split, then metric; the task's first split and metric come first.
    ``predictions``: by split, in the form of the task's kind. ``changes``: tensor name to mean
    |change| over the whole tensor (LayerNorm paper, Eq. 1) and the tensor's size.
    """

    scores: dict[str, dict[str, float]]
    predictions: dict[str, np.ndarray]
    delta: Delta
    changes: dict[str, tuple[float, int]]

    @property
    def first_score(self) -> float:
        return next(iter(next(iter(self.scores.values())).values()))


def evaluate(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    precision: str,
    delta: Delta,
) -> Evaluation:
    """Score a pretrained model with a delta's values on those evaluation splits that have examples.

    A low-rank update is added to its matrix, as in an exported model. Scores are NaN if a
    prediction is not finite.
    """
    changed = replace(model, parameters=applied(model.parameters, delta))
    scores, predictions = {}, {}
    for split in filter(examples.__contains__, task.evaluation):
        computed = logits_of(changed, examples[split], precision)
        if not np.isfinite(computed).all():
            return without_scores(task)
        predictions[split] = task.of_kind.predict(examples[split], computed)
        scores[split] = task.of_kind.score(task, examples[split], predictions[split])
    changes = {}
    for name in delta:
        difference = changed.parameters[name] - model.parameters[name]
        changes[name] = difference.abs().mean(dtype=torch.float64).item(), difference.numel()
    on_cpu = from_stored({key: values.cpu() for key, values in to_stored(delta).items()})
    return Evaluation(scores, predictions, on_cpu, changes)


def without_scores(task: TaskSpec) -> Evaluation:
    """Return NaN scores, for an epoch whose loss or predictions are not finite."""
    scores = {split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation}
    return Evaluation(scores, predictions={}, delta={}, changes={})


def logits_of(model: Encoder, examples: Examples, precision: str) -> np.ndarray:
    """Return logits ``[q, o]`` of a whole split, in its order, without dropout.

    They are ``[n, o]`` if the head averages over tokens.
    """
    counts = np.ones(len(examples), np.int64) if model.averages else examples.read_counts
    behind = counts.cumsum()
    every = torch.empty(behind[-1], model.outputs, device=model.device)
    with torch.inference_mode(), autocast(model.device, precision):
        for alike in in_length_order(examples.lengths):
            for index in micro_batches(alike, examples.lengths[alike], model):
                batch = pack(examples, index, model)
                read = np.concatenate([np.arange(behind[n] - counts[n], behind[n]) for n in index])
                every[torch.from_numpy(read)] = logits(model, batch)[0].float()
    return every.cpu().numpy()
