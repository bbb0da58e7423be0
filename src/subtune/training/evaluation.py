"""The logits of a whole split, and the scores and the result of a run.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` its outputs.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from subtune.methods.roles import is_embedding
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import Packed, logits
from subtune.models.operations import PerRun, Weight
from subtune.models.packing import micro_batches, pack
from subtune.runs.spec import Precision, Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import (
    EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS,
    GPU_EVALUATION_TOKENS_OF_RUNS,
    Examples,
    evaluation_batches,
    sort_by_length,
)
from subtune.training.checkpoints import State
from subtune.training.training_set import Unit
from subtune.training.values import Delta


@contextmanager
def autocast(device: torch.device, precision: Precision) -> Iterator[None]:
    """Compute matrix products in a precision.

    A backward pass after the context uses the same precision.
    """
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_frozen_weights(model: Encoder, precision: Precision) -> Encoder:
    """Return the model with frozen weights in the precision of products.

    Otherwise every step would cast them. For transformers' code, autocast does that.
    """
    if precision != "bf16" or model.transformers is not None:
        return model
    parameters = {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
    return replace(model, parameters=parameters)


# The smallest effect of padding that counts, relative to the largest logit: a hundred times
# float32's rounding.
PADDING_TOLERANCE = 1e-4
# The number of examples that are computed with and without padding.
PADDED_EXAMPLES = 8


def check_padding(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, Packed], Tensor] = logits,
) -> Encoder:
    """Return the model, marked if padding changes its results.

    Eight examples of different lengths are computed twice: one by one, and in one batch that is
    padded to the longest example of all splits.
    """
    every = [split for split in splits if len(split)]
    if model.transformers is None or not every:
        return model
    first, longest = every[0], max(int(split.lengths.max()) for split in every)
    in_order = sort_by_length(np.arange(len(first)), first.lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, PADDED_EXAMPLES).astype(int)])
    with_classifier = with_new_classifier(model, seed=0)
    # Low-precision products differ by more than padding changes.
    with torch.inference_mode(), autocast(model.device, "fp32"):
        padded = compute(with_classifier, replace(pack(first, index, model), longest=longest))
        texts = (pack(first, one, model) for one in index[:, None])
        alone = torch.cat([compute(with_classifier, text) for text in texts], dim=-2)
    # If the head reads no token of these texts, there is nothing to compare.
    if not alone.numel() or (padded - alone).abs().max() <= PADDING_TOLERANCE * alone.abs().max():
        return model
    return replace(model, transformers=replace(model.transformers, sees_padding=True))


def split_logits(
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
    trained = dict(weights or {})
    for name, weight in trained.items():
        if isinstance(weight, PerRun) and weight.rows is not None:
            # These texts may have any words.
            tables = model.parameters[name].expand(len(weight.values), -1, -1)
            trained[name] = PerRun(tables.index_copy(1, weight.rows, weight.values))
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
    every = {split: split_logits(model, examples[split], precision, weights) for split in splits}
    return [
        score_splits(
            task,
            examples,
            {split: of[position] * unit.deviation + unit.mean for split, of in every.items()},
        )
        for position in range(_runs_in(weights))
    ]


def score_splits(
    task: TaskSpec, examples: Mapping[str, Examples], computed: Mapping[str, np.ndarray]
) -> Evaluation:
    """Return the scores and predictions of each split's logits; NaN if one is not finite."""
    if not all(np.isfinite(logits).all() for logits in computed.values()):
        return without_scores(task)
    kind, scores, predictions = task.of_kind, {}, {}
    for split, values in computed.items():
        predictions[split] = kind.predict(examples[split], values)
        table = kind.prediction_table(examples[split], predictions[split])
        scores[split] = kind.score(task, table)
    return Evaluation(scores, predictions)


def without_scores(task: TaskSpec) -> Evaluation:
    """Return NaN scores, for an epoch whose loss or predictions are not finite."""
    return Evaluation({split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation})


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
        evaluations: each epoch's evaluation.
        best_epoch: the first epoch with the highest score (the task's first metric on its first
            evaluation split); without evaluation splits, the last epoch; None if the run diverged.
        delta: the best epoch's values. When the run ends, they are on the CPU, and predict labels
            in their original unit; if the run diverges, there are none.
        changes: by tensor name, the mean absolute change and the size; empty until the run ends.
    """

    trainable: int
    history: list[dict[str, float]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    best_epoch: int | None = None
    delta: Delta = field(default_factory=dict)
    changes: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def best(self) -> Evaluation:
        """The evaluation of the best epoch, or of the epoch at which the run diverged."""
        return self.evaluations[(self.best_epoch or 0) - 1]

    @property
    def diverged(self) -> bool:
        """True if a loss or a score is not finite."""
        return bool(self.history) and self.best_epoch is None

    def has_ended(self, recipe: Recipe) -> bool:
        """Return True after divergence, after the last epoch, or after ``patience`` epochs without
        a better score."""
        epochs, best, patience = len(self.history), self.best_epoch, recipe.patience
        if self.diverged or epochs == (recipe.refit or recipe.epochs):
            return True
        return patience is not None and best is not None and epochs - best >= patience

    def end_epoch(
        self, epoch: int, train_loss: float, seconds: float, evaluation: Evaluation
    ) -> None:
        """Add an epoch, which may be the best."""
        row = {"epoch": epoch, "train_loss": train_loss, "seconds": seconds}
        for split, by_metric in evaluation.scores.items():
            row |= {f"{split}/{metric}": score for metric, score in by_metric.items()}
        is_first = self.best_epoch is None or not evaluation.scores
        if not all(map(math.isfinite, row.values())):
            self.best_epoch = None
        elif is_first or evaluation.first_score > self.best.first_score:
            self.best_epoch = epoch
        self.history.append(row)
        self.evaluations.append(evaluation)

    def state(self) -> State:
        """Return what `restore` needs."""
        return {
            "history": self.history,
            "evaluations": [[of.scores, of.predictions] for of in self.evaluations],
            "best_epoch": self.best_epoch,
            "delta": self.delta,
            "changes": self.changes,
        }

    def restore(self, state: State) -> None:
        """Continue from a checkpoint of `state`."""
        self.history, self.best_epoch = state["history"], state["best_epoch"]
        self.delta = state["delta"]
        for scores, by_split in state["evaluations"]:
            predictions = {split: values.numpy() for split, values in by_split.items()}
            self.evaluations.append(Evaluation(scores, predictions))
        self.changes = {name: tuple(change) for name, change in state["changes"].items()}


def epoch_line(row: Mapping[str, float], epochs: int, task: TaskSpec) -> str:
    """Return an epoch's row of the history as a line of the log."""
    metric = task.metrics[0]
    score = row.get(f"{task.evaluation[0]}/{metric}")
    scored = "" if score is None else f"{metric} {score:.4f}  "
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['train_loss']:.4f}  "
        f"{scored}{row['seconds']:.1f} s"
    )
