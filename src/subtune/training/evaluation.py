"""Evaluation of runs: the logits of a split, scores, and the result of a run.

Shapes: ``k`` runs, ``n`` examples, ``q`` tokens that the head reads, ``o`` outputs of the head.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from subtune.methods.roles import is_embedding
from subtune.methods.selection import Entries
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import PackedBatch, compute_logits
from subtune.models.operations import PerRun, Weight
from subtune.models.packing import pack_batch, pack_micro_batches
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
    """Compute matrix products in a precision, even in a backward pass after the ``with`` block."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def cast_frozen_weights(model: Encoder, precision: Precision) -> Encoder:
    """Cast a model's matrices to bfloat16 once. Otherwise, autocast would do this at every step.

    A model that runs transformers' code is returned unchanged, and autocast casts its matrices.
    """
    if precision != "bf16" or model.transformers is not None:
        return model
    parameters = {
        name: value.bfloat16() if value.ndim == 2 and not is_embedding(name) else value
        for name, value in model.parameters.items()
    }
    return replace(model, parameters=parameters)


# Logits with and without padding may differ by this fraction of the largest logit, because rounding
# depends on the batch. The tolerance is about a hundred times the rounding error of float32.
PADDING_TOLERANCE = 1e-4
# The number of examples whose logits are computed both with and without padding.
PADDED_EXAMPLES = 8


def check_padding(
    model: Encoder,
    splits: Iterable[Examples],
    compute: Callable[[Encoder, PackedBatch], Tensor] = compute_logits,
) -> Encoder:
    """Set a model's ``transformers.sees_padding`` if padding changes its results.

    ``compute`` is called for eight examples of different lengths, one by one and in one batch that
    is padded to the longest example of all splits, and the results are compared.
    """
    nonempty = [split for split in splits if len(split)]
    if model.transformers is None or not nonempty:
        return model
    first, longest = nonempty[0], max(int(split.lengths.max()) for split in nonempty)
    # One text of a pair may have no tokens.
    in_order = sort_by_length(np.flatnonzero(first.lengths), first.lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, PADDED_EXAMPLES).astype(int)])
    with_classifier = with_new_classifier(model, seed=0)
    # In a lower precision, rounding would hide the effect of padding.
    with torch.inference_mode(), autocast(model.device, "fp32"):
        padded = compute(with_classifier, replace(pack_batch(first, index, model), longest=longest))
        texts = (pack_batch(first, one, model) for one in index[:, None])
        alone = torch.cat([compute(with_classifier, text) for text in texts], dim=-2)
    # There are no logits to compare if the head reads no token of these texts.
    if not alone.numel() or (padded - alone).abs().max() <= PADDING_TOLERANCE * alone.abs().max():
        return model
    return replace(model, transformers=replace(model.transformers, sees_padding=True))


def compute_split_logits(
    model: Encoder,
    examples: Examples,
    precision: Precision,
    weights: Mapping[str, Weight] | None = None,
) -> np.ndarray:
    """Compute the logits of a split without dropout, in the order of the split's examples.

    ``weights`` maps tensor names to the weights of several runs; None means a single run with the
    model's own weights. The result is ``[k, q, o]``, or ``[k, n, o]`` if the head averages over
    tokens.
    """
    trained = dict(weights or {})
    for name, weight in trained.items():
        if isinstance(weight, PerRun) and weight.rows is not None:
            # An evaluation split may need rows for tokens that are not in the training set.
            tables = model.parameters[name].expand(len(weight.values), -1, -1)
            trained[name] = PerRun(tables.index_copy(1, weight.rows, weight.values))
    tokens = EVALUATION_TOKENS
    if model.device.type != "cpu":
        tokens = min(GPU_EVALUATION_TOKENS, GPU_EVALUATION_TOKENS_OF_RUNS // _count_runs(trained))
    counts = np.ones(len(examples), np.int64) if model.averages_logits else examples.read_counts
    ends = counts.cumsum()
    parts, order = [], []
    with torch.inference_mode(), autocast(model.device, precision):
        for batch in evaluation_batches(examples.lengths, tokens):
            for places, packed in pack_micro_batches(examples, batch, model):
                parts.append(compute_logits(model, packed, trained))
                order += [np.arange(ends[n] - counts[n], ends[n]) for n in batch[places]]
        # Copying all logits from the GPU at once is faster than copying them batch by batch.
        merged = torch.cat(parts, 1).cpu()
    return merged.numpy()[:, np.concatenate(order).argsort()]


def _count_runs(weights: Mapping[str, Weight]) -> int:
    stacked = [weight for weight in weights.values() if isinstance(weight, PerRun)]
    return max((len(weight.values) for weight in stacked), default=1)


@dataclass(frozen=True)
class Evaluation:
    """The scores and predictions of a run at the end of an epoch.

    Attributes:
        scores: maps each split to a mapping from metrics to scores. Both mappings begin with the
            task's first evaluation split and first metric.
        predictions: maps each split to predictions, as the task kind's ``predict`` returns them.
    """

    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    predictions: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def first_score(self) -> float:
        """The first metric on the first evaluation split, which determines the best epoch."""
        return next(iter(next(iter(self.scores.values())).values()))


def evaluate_runs(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    precision: Precision,
    weights: Mapping[str, Weight],
    unit: Unit,
) -> list[Evaluation]:
    """Evaluate several runs in one pass per split; ``unit`` restores the unit of the labels."""
    computed = {}
    for split in filter(examples.__contains__, task.evaluation):
        logits = compute_split_logits(model, examples[split], precision, weights)
        computed[split] = logits * unit.standard_deviation + unit.mean
    return [
        score_splits(task, examples, {split: logits[run] for split, logits in computed.items()})
        for run in range(_count_runs(weights))
    ]


def score_splits(
    task: TaskSpec, examples: Mapping[str, Examples], computed: Mapping[str, np.ndarray]
) -> Evaluation:
    """Compute predictions and scores from the logits of each split.

    If any logit is not finite, all scores are NaN, and there are no predictions.
    """
    if not all(np.isfinite(logits).all() for logits in computed.values()):
        return make_nan_evaluation(task)
    kind, scores, predictions = task.of_kind, {}, {}
    for split, values in computed.items():
        predictions[split] = kind.predict(examples[split], values)
        table = kind.prediction_table(examples[split], predictions[split])
        scores[split] = kind.score(task, table)
    return Evaluation(scores, predictions)


def make_nan_evaluation(task: TaskSpec) -> Evaluation:
    """Return the evaluation of a run that diverged, in which every score is NaN."""
    return Evaluation({split: dict.fromkeys(task.metrics, math.nan) for split in task.evaluation})


@dataclass(eq=False)
class TrainingResult:
    """The result of a run, or of its epochs so far.

    A run that diverged has no best epoch, even if an earlier epoch scored well, because the
    learning rate of such a run should not be chosen.

    Attributes:
        trainable: the number of trained parameters.
        history: one mapping per epoch, with the keys ``epoch`` (from 1), ``train_loss`` (a mean
            over examples or, in token classification, words), ``seconds`` (divided equally among
            runs side by side) and, for each score, ``<split>/<metric>``.
        evaluations: one evaluation per epoch.
        best_epoch: the first epoch with the highest `Evaluation.first_score`. Without evaluation
            splits, the last epoch; None if the run diverged.
        delta: the tensors that the run changed, at the end of the best epoch. When the run ends,
            they are on the CPU, and the head predicts labels in their original unit. Empty if the
            run diverged.
        changes: maps each tensor to its mean absolute change and its size, when the run ends.
    """

    trainable: int = field(default=0, init=False)
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    evaluations: list[Evaluation] = field(default_factory=list, init=False)
    best_epoch: int | None = field(default=None, init=False)
    delta: Delta = field(default_factory=dict, init=False)
    changes: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)

    @property
    def best(self) -> Evaluation:
        """The evaluation of the best epoch, or of the last epoch if the run diverged."""
        return self.evaluations[(self.best_epoch or 0) - 1]

    @property
    def diverged(self) -> bool:
        """True if a training loss or a score is not finite."""
        return bool(self.history) and self.best_epoch is None

    def end_epoch(
        self, epoch: int, train_loss: float, seconds: float, evaluation: Evaluation
    ) -> None:
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


@dataclass(eq=False)
class Run(TrainingResult):
    """A run in training: its settings, and its result so far.

    ``dataclasses.replace(run)`` returns a copy that has not been trained.

    Attributes:
        entries: the trained entries of each tensor, by tensor name.
        seed: the seed of all random numbers.
        start: maps the names of tensors to initial values that replace the pretrained ones. Only
            trained entries may differ from their pretrained values.
        seconds: the seconds that it took to find ``entries`` and ``start``. They are part of the
            first epoch's time.
        name: the name of the run in the log.
        id: the id of the run's spec, which names the folder of its checkpoints.
    """

    entries: Entries
    recipe: Recipe
    seed: int
    start: Mapping[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    name: str = ""
    id: str = ""

    @property
    def has_ended(self) -> bool:
        """True if the run diverged, completed its epochs, or used up its ``patience``."""
        epochs, best, patience = len(self.history), self.best_epoch, self.recipe.patience
        if self.diverged or epochs == (self.recipe.refit or self.recipe.epochs):
            return True
        return patience is not None and best is not None and epochs - best >= patience

    def state(self) -> State:
        """Return the state from which `restore` continues."""
        return {
            "history": self.history,
            "evaluations": [[each.scores, each.predictions] for each in self.evaluations],
            "best_epoch": self.best_epoch,
            "delta": self.delta,
            "changes": self.changes,
        }

    def restore(self, state: State) -> None:
        self.history, self.best_epoch = state["history"], state["best_epoch"]
        self.delta = state["delta"]
        for scores, by_split in state["evaluations"]:
            predictions = {split: values.numpy() for split, values in by_split.items()}
            self.evaluations.append(Evaluation(scores, predictions))
        self.changes = {name: tuple(change) for name, change in state["changes"].items()}


def epoch_line(row: Mapping[str, float], epochs: int, task: TaskSpec) -> str:
    """Format the history of one epoch as a line of the log."""
    metric = task.metrics[0]
    score = row.get(f"{task.evaluation[0]}/{metric}")
    scored = "" if score is None else f"{metric} {score:.4f}  "
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['train_loss']:.4f}  "
        f"{scored}{row['seconds']:.1f} s"
    )
