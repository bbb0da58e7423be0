"""The recipe of runs that train side by side, readable from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from subtune.data.batches import Rows, by_length, shuffled
from subtune.models.dropout import Masks
from subtune.models.encoder import Encoder
from subtune.models.forward import logits
from subtune.models.loss import labels_of, losses_of
from subtune.models.packed import pack
from subtune.selection import Entries
from subtune.specs import Recipe
from subtune.tasks import Task
from subtune.training.bank import Bank
from subtune.training.evaluation import Evaluation, evaluate
from subtune.training.matrices import Matrices
from subtune.training.precision import autocast, cast_once


@dataclass(frozen=True)
class Member:
    """One run of a sweep: what trains, how, and from which seed."""

    entries: Entries
    recipe: Recipe
    seed: int


@dataclass(frozen=True)
class Result:
    """What one run leaves behind.

    ``history`` has one row per epoch: ``epoch`` (from 1), ``train_loss`` (mean over examples),
    ``seconds`` (the run's share, where others train beside it) and ``<split>/<metric>`` scores.
    ``best`` is the first epoch with the highest score: the task's first metric on its first
    evaluation split.
    """

    history: list[dict[str, float]]
    best_epoch: int
    best: Evaluation
    trainable: int

    @property
    def diverged(self) -> bool:
        """Whether the run ended early, with a loss that is not finite."""
        return not math.isfinite(self.history[-1]["train_loss"])


def train(
    model: Encoder,
    rows: Mapping[str, Rows],
    task: Task,
    members: Sequence[Member],
    report: Callable[[int, str], None] = lambda number, line: None,
) -> list[Result]:
    """Fine-tune several runs of a pretrained model side by side.

    They read the same batches through the same frozen weights, and share seed, batch size, epochs,
    precision and the limit of training rows; entries, learning rates, schedules, weight decay and
    clipping are each run's own. What a run learns does not depend on the others. A run whose loss
    is no longer finite ends there, and the others go on.

    Args:
        model: pretrained, on its device.
        rows: the training split and the task's evaluation splits.
        task: decides loss and metrics.
        members: the runs. Their seed decides the classifier, what low-rank updates start from,
            the order of examples and dropout.
        report: is told one line per run and epoch, with the run's number, from 0.
    """
    shared, seed = members[0].recipe, members[0].seed
    order = np.random.default_rng(seed)
    chosen = rows_that_train(len(rows["train"]), shared, order)
    steps = math.ceil(len(chosen) / shared.batch_size) * shared.epochs
    masks = Masks(seed, model.device)
    frozen = cast_once(model.parameters, shared.precision)
    bank = Bank(model, [member.entries for member in members], seed)
    matrices = Matrices(model, members[0].entries)
    started_runs = [
        _Run(number, member.recipe, [values, *matrices.leaves])
        for number, (member, values) in enumerate(zip(members, bank.values, strict=True))
    ]
    runs = started_runs
    step = 0
    for epoch in range(1, shared.epochs + 1):
        started = time.monotonic()
        totals = torch.zeros(len(runs), device=model.device)
        for batch in shuffled(len(chosen), shared.batch_size, order):
            index = by_length(chosen[batch], rows["train"].lengths)
            packed = pack(rows["train"].inputs, index, model)
            with autocast(model.device, shared.precision):
                parameters = frozen | bank.parameters() | matrices.parameters()
                together = Encoder(model.config, parameters)
                found = logits(together, packed, masks).float()
            losses = losses_of(task, found, labels_of(rows["train"], index, task, model.device))
            (losses.sum() / len(index)).backward()
            for run in runs:
                run.step(learning_rate_at(step, steps, run.recipe))
            matrices.write()
            totals += losses.detach()
            step += 1
        means = (totals / len(chosen)).tolist()
        share = (time.monotonic() - started) / len(runs)
        for place, run in enumerate(runs):
            started = time.monotonic()
            delta = bank.delta(place) | matrices.delta()
            evaluation = evaluate(model, rows, task, shared.precision, delta)
            seconds = share + time.monotonic() - started
            run.end_epoch(epoch, means[place], seconds, evaluation)
            report(run.number, _line(run.history[-1], shared.epochs, task))
            if not math.isfinite(means[place]):
                report(run.number, "the loss is no longer finite: this run ends here")
        finite = [place for place, mean in enumerate(means) if math.isfinite(mean)]
        runs = [runs[place] for place in finite]
        bank.keep(finite)
        if not runs:
            break
    return [run.result() for run in started_runs]


@dataclass
class _Run:
    """A run while it trains."""

    number: int
    recipe: Recipe
    leaves: list[nn.Parameter]
    history: list[dict[str, float]] = field(default_factory=list)
    best_epoch: int = 0
    best: Evaluation | None = None

    def __post_init__(self) -> None:
        self._optimizer = torch.optim.AdamW(
            self.leaves, weight_decay=self.recipe.weight_decay, fused=True
        )

    def step(self, learning_rate: float) -> None:
        nn.utils.clip_grad_norm_(self.leaves, self.recipe.max_grad_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()

    def end_epoch(
        self, epoch: int, train_loss: float, seconds: float, evaluation: Evaluation
    ) -> None:
        self.history.append(
            {"epoch": epoch, "train_loss": train_loss, "seconds": seconds} | evaluation.flat_scores
        )
        if self.best is None or evaluation.first_score > self.best.first_score:
            self.best, self.best_epoch = evaluation, epoch

    def result(self) -> Result:
        assert self.best is not None
        trainable = sum(leaf.numel() for leaf in self.leaves)
        return Result(self.history, self.best_epoch, self.best, trainable)


def _line(row: Mapping[str, float], epochs: int, task: Task) -> str:
    metric = task.metrics[0]
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['train_loss']:.4f}  "
        f"{metric} {row[f'{task.evaluation[0]}/{metric}']:.4f}  {row['seconds']:.1f} s"
    )


def rows_that_train(n: int, recipe: Recipe, generator: np.random.Generator) -> np.ndarray:
    """Which of a training set's ``n`` rows train; the generator is that of the run's seed."""
    return generator.permutation(n)[: recipe.train_rows]


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of step 0, 1, …: a linear warm-up, then constant or linear to 0."""
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)
