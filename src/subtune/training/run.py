"""One run while it trains: its optimiser, its learning curve, its best epoch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from subtune.selections.specs import Recipe
from subtune.training.checkpoints import State, below
from subtune.training.delta import from_stored, to_stored
from subtune.training.evaluation import Evaluation

LEAF, DELTA, PREDICTIONS = "leaf", "best.delta.", "predictions"


@dataclass(frozen=True)
class Result:
    """The result of one run.

    ``history`` has one row per epoch: ``epoch`` (from 1), ``train_loss`` (mean over examples, or
    over words where each has a loss), ``seconds`` (the run's share, where others train beside it)
    and ``<split>/<metric>`` scores.
    ``best`` is the first epoch with the highest score: the task's first metric on its first
    evaluation split. A run that diverged has no best epoch, however good an earlier one was: its
    learning rate is not one to train with. If nothing judges, it is the last epoch.
    ``predictions`` are those of every epoch, by split.
    """

    history: list[dict[str, float]]
    best_epoch: int | None
    best: Evaluation
    trainable: int
    predictions: Sequence[Mapping[str, np.ndarray]]

    @property
    def diverged(self) -> bool:
        """True if a loss or a score is not finite."""
        return self.best_epoch is None


class AdamW:
    """AdamW in torch's fused kernel, with one learning rate at each step.

    `torch.optim.AdamW` does the same, but imports torch's compiler, which takes a second of a job.
    """

    def __init__(self, leaves: Sequence[Tensor], weight_decay: float):
        self._leaves = leaves
        self._weight_decay = weight_decay
        self.betas = 0.9, 0.999
        self.averages = [
            {
                "step": torch.zeros((), device=leaf.device),
                "exp_avg": torch.zeros_like(leaf, requires_grad=False),
                "exp_avg_sq": torch.zeros_like(leaf, requires_grad=False),
            }
            for leaf in leaves
        ]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Change the values that have a gradient, and forget the gradients."""
        own = [
            (leaf, leaf.grad, averages["exp_avg"], averages["exp_avg_sq"], averages["step"])
            for leaf, averages in zip(self._leaves, self.averages, strict=True)
            if leaf.grad is not None
        ]
        if not own:
            return
        leaves, gradients, means, squares, steps = map(list, zip(*own, strict=True))
        adamw(
            leaves,
            gradients,
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=self.betas[0],
            beta2=self.betas[1],
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )
        for leaf in leaves:
            leaf.grad = None


class Run:
    """A run with its number in its group."""

    def __init__(self, number: int, recipe: Recipe, leaves: Sequence[Tensor]):
        self.number = number
        self.recipe = recipe
        self.history: list[dict[str, float]] = []
        self._leaves = leaves
        self._best_epoch: int | None = None
        self._best: Evaluation | None = None
        self._predictions: list[dict[str, np.ndarray]] = []
        self._optimizer = AdamW(leaves, recipe.weight_decay)

    def step(self, learning_rate: float) -> None:
        nn.utils.clip_grad_norm_(self._leaves, self.recipe.max_grad_norm)
        self._optimizer.step(learning_rate)

    def end_epoch(
        self, epoch: int, train_loss: float, seconds: float, evaluation: Evaluation
    ) -> None:
        row = {"epoch": epoch, "train_loss": train_loss, "seconds": seconds}
        for split, by_metric in evaluation.scores.items():
            row |= {f"{split}/{metric}": score for metric, score in by_metric.items()}
        self.history.append(row)
        self._predictions.append(evaluation.predictions)
        if not all(map(math.isfinite, self.history[-1].values())):
            self._best, self._best_epoch = evaluation, None
        elif (
            not evaluation.scores
            or not self._best
            or evaluation.first_score > self._best.first_score
        ):
            self._best, self._best_epoch = evaluation, epoch

    @property
    def diverged(self) -> bool:
        return bool(self.history) and self._best_epoch is None

    @property
    def has_ended(self) -> bool:
        """True if the run diverged, or has not become better for its recipe's patience."""
        patience, best = self.recipe.patience, self._best_epoch
        is_patient = not patience or best is None or len(self.history) - best < patience
        return self.diverged or not is_patient

    def result(self) -> Result:
        assert self._best is not None
        trainable = sum(leaf.numel() for leaf in self._leaves)
        return Result(self.history, self._best_epoch, self._best, trainable, self._predictions)

    def state(self) -> State:
        """Return values, averages, learning curve, predictions and best epoch, for `restore`."""
        best = self._best and {"scores": self._best.scores, "changes": self._best.changes}
        facts = {"history": list(self.history), "best_epoch": self._best_epoch, "best": best}
        tensors = {f"{LEAF}.{number}": leaf for number, leaf in enumerate(self._leaves)}
        for number, averages in enumerate(self._optimizer.averages):
            tensors |= {f"{LEAF}.{number}.{name}": value for name, value in averages.items()}
        if self._best is not None:
            stored = to_stored(self._best.delta)
            tensors |= {DELTA + name: value for name, value in stored.items()}
        for number, by_split in enumerate(self._predictions):
            for split, predictions in by_split.items():
                tensors[f"{PREDICTIONS}.{number}.{split}"] = torch.from_numpy(predictions)
        return State(tensors, facts)

    def restore(self, state: State) -> None:
        """Continue from what `state` returned."""
        facts, tensors = state.facts, state.tensors
        self.history = list(facts["history"])
        self._best_epoch = facts["best_epoch"]
        of_epochs = (
            below(f"{PREDICTIONS}.{number}.", tensors) for number in range(len(self.history))
        )
        self._predictions = [{s: v.numpy() for s, v in by_split.items()} for by_split in of_epochs]
        for number, leaf in enumerate(self._leaves):
            leaf.data.copy_(tensors[f"{LEAF}.{number}"])
            for name, value in below(f"{LEAF}.{number}.", tensors).items():
                self._optimizer.averages[number][name].copy_(value)
        if facts["best"]:
            self._best = Evaluation(
                scores=facts["best"]["scores"],
                predictions=self._predictions[self._best_epoch - 1] if self._best_epoch else {},
                delta=from_stored(below(DELTA, tensors)),
                changes={name: (mean, n) for name, (mean, n) in facts["best"]["changes"].items()},
            )
