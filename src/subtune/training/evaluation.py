"""A run's predictions and scores, and how logits are computed: precision and padding.

Shapes: ``q`` tokens that the head reads, ``o`` its outputs.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    by_length,
    in_length_order,
)
from subtune.families.base import is_embedding
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.packed import Packed, micro_batches, pack
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.delta import Delta, applied, from_stored, to_stored

# Padding is seen from this difference on, relative to the largest logit: a hundred times the
# rounding of float32.
TOLERANCE = 1e-4
# The number of examples to compute with padding and without.
EXAMPLES = 8


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
    tokens = EVALUATION_TOKENS if model.device.type == "cpu" else GPU_EVALUATION_TOKENS
    with torch.inference_mode(), autocast(model.device, precision):
        for alike in in_length_order(examples.lengths, tokens):
            for index in micro_batches(alike, examples.lengths[alike], model):
                batch = pack(examples, index, model)
                read = np.concatenate([np.arange(behind[n] - counts[n], behind[n]) for n in index])
                every[torch.from_numpy(read)] = logits(model, batch)[0].float()
    return every.cpu().numpy()


def without_padding_where_it_is_seen(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, Packed], torch.Tensor] = logits,
) -> Encoder:
    """Return the model, marked if padding changes what it computes.

    Eight examples of different lengths are computed one at a time, and in one batch that is padded
    to the longest example of all splits.
    """
    every = [split for split in splits if len(split)]
    if model.transformers is None or not every:
        return model
    longest = max(int(split.lengths.max()) for split in every)
    in_order = by_length(np.arange(len(every[0])), every[0].lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, EXAMPLES).astype(int)])
    with_classifier = with_new_classifier(model, seed=0)
    # Short products differ by more than what padding changes.
    with torch.inference_mode(), autocast(model.device, "fp32"):
        together = replace(pack(every[0], index, model), longest=longest)
        padded = compute(with_classifier, together)
        texts = (pack(every[0], one, model) for one in index[:, None])
        alone = torch.cat([compute(with_classifier, text) for text in texts], dim=-2)
    # If the head reads no token of these texts, there is nothing to compare.
    if not alone.numel() or (padded - alone).abs().max() <= TOLERANCE * alone.abs().max():
        return model
    return replace(model, transformers=replace(model.transformers, sees_padding=True))


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Compute matrix products in a precision, ``fp32``, ``tf32`` or ``bf16``.

    A backward pass behind the context has the same precision.
    """
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_once(model: Encoder, precision: str) -> dict[str, Tensor]:
    """Return frozen weights as products read them, so that no step casts them again.

    Autocast casts the weights of transformers' code.
    """
    if precision != "bf16" or model.transformers is not None:
        return dict(model.parameters)
    return {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
