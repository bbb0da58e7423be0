"""Training labels, logits with precision and padding, and evaluations of runs.

A regression trains on standardised labels, because its head predicts 0 at first. All other code has
labels in their own unit. Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads,
``o`` its outputs.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, placed
from subtune.data.batches import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS_OF_RUNS,
    by_length,
    in_length_order,
)
from subtune.families.base import is_embedding
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import Packed, logits, micro_batches, pack
from subtune.models.operations import PerRun, TableRows, Weight
from subtune.selections.specs import Fit, Labels, Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import State
from subtune.training.values import AdamW, ChangedTensor, Delta

# The smallest effect of padding that counts, relative to the largest logit: a hundred times
# float32's rounding.
TOLERANCE = 1e-4
# The number of examples that are computed with and without padding.
EXAMPLES = 8


def examples_that_train(
    train: Examples, recipe: Recipe | Fit, generator: np.random.Generator
) -> np.ndarray:
    """Return the training examples of a run, drawn by the generator of its seed.

    If a row has several examples, either all of them train or none.
    """
    return train.of_rows(generator.permutation(train.rows)[: recipe.train_rows])


class Unit(NamedTuple):
    """The mean and standard deviation by which labels are standardised; 0 and 1 for raw labels."""

    mean: float = 0.0
    deviation: float = 1.0


def in_training(examples: Examples, rows: np.ndarray, labels: Labels) -> tuple[Examples, Unit]:
    """Return examples with the labels on which a run trains, and these labels' unit.

    Mean and deviation are over the training examples ``rows``.

    Raises:
        SubtuneError: the labels of these rows are all equal.
    """
    if labels == "raw":
        return examples, Unit()
    every = np.asarray(examples.labels, np.float64)
    trained = every[rows]
    unit = Unit(float(trained.mean()), float(trained.std()))
    if not unit.deviation:
        raise SubtuneError(
            f"labels: found {unit.mean:g} in all {len(rows)} training rows, expected different "
            "labels to standardise"
        )
    standardised = copy.copy(examples)
    standardised.labels = ((every - unit.mean) / unit.deviation).astype(np.float32)
    return standardised, unit


def in_own_unit(delta: Delta, parameters: Mapping[str, Tensor], unit: Unit) -> Delta:
    """Return a delta whose last layer predicts labels in their own unit.

    The classifier, last of the ``parameters``, is part of every delta, and all of it trains.
    """
    if unit == Unit():
        return delta
    *_, weight, bias = parameters
    scaled = {
        name: unit.deviation * delta[name].applied_to(parameters[name]) for name in (weight, bias)
    }
    scaled[bias] = scaled[bias] + unit.mean
    return delta | {name: ChangedTensor(values) for name, values in scaled.items()}


def weights_of(
    task: TaskSpec,
    examples: Examples,
    rows: np.ndarray,
    recipe: Recipe | Fit,
    device: torch.device | None = None,
) -> Tensor | None:
    """Return each label word's weight in the loss, ``[o]`` in float64, or None without weights.

    They are computed from the training examples ``rows``.

    Raises:
        SubtuneError: a label is in none or all of these rows.
    """
    if recipe.class_weights is None:
        return None
    with placed("class_weights"):
        weights = task.of_kind.balanced(task, examples.labels_at(rows))
    return torch.from_numpy(weights).to(device)


def logits_of(
    model: Encoder, examples: Examples, precision: str, weights: Mapping[str, Weight] | None = None
) -> np.ndarray:
    """Return logits ``[k, q, o]`` of a whole split, in its order, without dropout.

    If the head averages over tokens, they are ``[k, n, o]``. ``weights`` are those of runs side by
    side; without them ``k`` is 1.
    """
    trained = {name: _whole(of, model.parameters[name]) for name, of in (weights or {}).items()}
    counts = np.ones(len(examples), np.int64) if model.averages else examples.read_counts
    ends = counts.cumsum()
    on_gpu = min(GPU_EVALUATION_TOKENS, GPU_EVALUATION_TOKENS_OF_RUNS // runs_in(trained))
    tokens = EVALUATION_TOKENS if model.device.type == "cpu" else on_gpu
    parts, order = [], []
    with torch.inference_mode(), autocast(model.device, precision):
        for alike in in_length_order(examples.lengths, tokens):
            for index in micro_batches(alike, examples.lengths[alike], model):
                parts.append(logits(model, pack(examples, index, model), trained))
                order += [np.arange(ends[n] - counts[n], ends[n]) for n in index]
        # A GPU is read once, after its last batch. Numpy has no bfloat16.
        every = torch.cat(parts, 1)
        every = every.to(torch.promote_types(every.dtype, torch.float32)).cpu()
    return every.numpy()[:, np.concatenate(order).argsort()]


def runs_in(weights: Mapping[str, Weight]) -> int:
    """Return the number of runs to which weights belong."""
    return max((len(of.values) for of in weights.values() if isinstance(of, PerRun)), default=1)


def _whole(weight: Weight, table: Tensor) -> Weight:
    """Return a weight for texts with any words: a table's trained rows in the whole table."""
    if not isinstance(weight, TableRows):
        return weight
    tables = table.expand(len(weight.values), -1, -1)
    return PerRun(tables.index_copy(1, weight.rows, weight.values))


def checked_for_padding(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, Packed], torch.Tensor] = logits,
) -> Encoder:
    """Return the model, marked if padding changes its results.

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
    # Low-precision products differ by more than padding changes.
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
    """Compute matrix products in a precision: ``fp32``, ``tf32`` or ``bf16``.

    A backward pass after the context uses the same precision.
    """
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_once(model: Encoder, precision: str) -> Encoder:
    """Return the model with frozen weights in the precision of products, so that no step casts them
    again.

    For transformers' code, autocast casts the weights.
    """
    if precision != "bf16" or model.transformers is not None:
        return model
    parameters = {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
    return replace(model, parameters=parameters)


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run at the end of an epoch.

    ``scores``: by split, then metric; the task's first split and metric come first.
    ``predictions``: by split, in the form of the task's kind.
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
    precision: str,
    weights: Mapping[str, Weight],
    unit: Unit,
) -> list[Evaluation]:
    """Score runs side by side on every evaluation split in ``examples``.

    ``weights`` are the runs' weights for ``model``, which predicts standardised labels of ``unit``.
    A run's scores are NaN if one of its predictions is not finite.
    """
    splits = [split for split in task.evaluation if split in examples]
    by_split = [logits_of(model, examples[split], precision, weights) for split in splits]
    evaluations = []
    for run in range(runs_in(weights)):
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


def changes_of(delta: Delta, parameters: Mapping[str, Tensor]) -> dict[str, tuple[float, int]]:
    """Return, by tensor name, the mean |change| over the whole tensor (LayerNorm paper, Eq. 1) and
    the tensor's size."""
    changes = {}
    for name, change in delta.items():
        difference = change.applied_to(parameters[name]) - parameters[name]
        changes[name] = difference.abs().mean(dtype=torch.float64).item(), difference.numel()
    return changes


def without_scores(task: TaskSpec) -> Evaluation:
    """Return NaN scores, for an epoch whose loss or predictions are not finite."""
    return Evaluation({split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation})


@dataclass
class Result:
    """The result of one run, or of its epochs so far.

    ``history`` has one row per epoch: ``epoch`` (from 1), ``train_loss`` (mean over examples, or
    over words if each has a loss), ``seconds`` (the run's share, if others train beside it) and
    ``<split>/<metric>`` scores. ``best`` is the first epoch with the highest score: the task's
    first metric on its first evaluation split. Without evaluation splits it is the last epoch. A
    run that diverged has no best epoch, even if an earlier epoch was good: the run's learning rate
    should not be used. ``predictions`` has a mapping by split for each epoch. ``delta`` has the
    best epoch's values on the CPU, and ``changes`` are its `changes_of`. Both are empty until the
    run ends, and if it diverges.
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


class Run:
    """A run while it trains: its optimiser, its result so far, and copies of its leaves after the
    best epoch."""

    def __init__(self, number: int, recipe: Recipe, leaves: Sequence[Tensor], trainable: int):
        self.number = number
        self.recipe = recipe
        self.optimizer = AdamW(leaves, recipe.weight_decay)
        self.result = Result(trainable)
        self.best: list[Tensor] = []

    @property
    def has_ended(self) -> bool:
        """True if the run diverged, has had all its epochs, or no better score for ``patience``
        epochs."""
        patience, best = self.recipe.patience, self.result.best_epoch
        epochs, last = len(self.result.history), self.recipe.refit or self.recipe.epochs
        is_patient = not patience or best is None or epochs - best < patience
        return self.result.diverged or epochs == last or not is_patient

    def state(self) -> State:
        """Return values, the optimiser's averages and the result so far, for `restore`."""
        result, best = self.result, self.result.best
        return {
            "optimizer": self.optimizer.state(),
            "history": result.history,
            "predictions": result.predictions,
            "best_epoch": result.best_epoch,
            "best": [best.scores, self.best],
        }

    def restore(self, state: State) -> None:
        """Continue from a checkpoint of `state`."""
        self.optimizer.restore(state["optimizer"])
        result, (scores, best) = self.result, state["best"]
        result.history, result.best_epoch = state["history"], state["best_epoch"]
        result.predictions = [
            {split: values.numpy() for split, values in by_split.items()}
            for by_split in state["predictions"]
        ]
        predictions = result.predictions[result.best_epoch - 1] if result.best_epoch else {}
        result.best = Evaluation(scores, predictions)
        self.best = [values.to(self.optimizer.leaves[0].device) for values in best]
