"""The training recipe for runs side by side, readable from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import by_length, shuffled
from subtune.models.encoder import Encoder, shapes_of, with_new_classifier
from subtune.models.forward import logits, micro_batches, pack, rows_read
from subtune.models.operations import DropoutMasks
from subtune.selections.kind import Entries, count
from subtune.selections.specs import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper, State
from subtune.training.evaluation import (
    Result,
    Run,
    autocast,
    cast_once,
    evaluate,
    examples_that_train,
    in_own_unit,
    in_training,
    weights_of,
    without_scores,
)
from subtune.training.values import TrainedValues

DIVERGED = "the loss or a prediction is not finite: this run ends here"


@dataclass(frozen=True)
class Member:
    """One run of a sweep: its trainable entries, recipe and seed.

    ``start``: initial values that replace the model's own; they differ only in trainable entries.
    ``name``: the run's name in the log.
    """

    entries: Entries
    recipe: Recipe
    seed: int
    start: Mapping[str, Tensor] = field(default_factory=dict)
    name: str = ""


def train(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    members: Sequence[Member],
    report: Callable[[str], None] = lambda line: None,
    keeper: Keeper | None = None,
) -> list[Result]:
    """Fine-tune several runs of a pretrained model side by side.

    Runs share batches, frozen weights, seed, batch size, epochs, precision, labels and the number
    of training rows. Each run has its own entries, learning rate, schedule, weight decay and
    clipping. Except for rounding, a run's result does not depend on the others. A run whose loss or
    predictions are not finite at an epoch's end stops there, and the others continue.

    Args:
        examples: examples of the training split and of evaluation splits, if any.
        members: the runs. Their seed draws the classifier, the initial low-rank updates, the order
            of examples and dropout.
        report: a function that gets lines about each run's epochs, with the run's name first.
        keeper: writes checkpoints between steps, and reads those of an earlier attempt. On a CPU, a
            resumed group gives bit-identical results to an uninterrupted one.

    Raises:
        StoppedError: the keeper was asked to stop.
    """
    group = _Group(model, examples, task, members)
    start = keeper.newest() if keeper else None
    if start is not None:
        report(f"{members[0].name}  {group.restore(start)}")
        # The tensors of the checkpoint are copied.
        del start
    while group.running and group.epoch <= group.last_epoch:
        for batch in group.batches_left():
            group.train_batch(batch)
            if keeper:
                keeper.keep(group.states)
        # After a checkpoint, some runs may already be evaluated.
        for run in (run for run in group.running if len(run.result.history) < group.epoch):
            name, row = members[run.number].name, group.evaluate(run)
            report(f"{name}  {line_of_epoch(row, group.last_epoch, task)}")
            if run.result.diverged:
                report(f"{name}  {DIVERGED}")
            if keeper:
                keeper.keep(group.states)
        group.end_epoch()
    return [run.result for run in group.runs]


class _Group:
    """The state of runs side by side between two steps.

    ``epoch`` counts from 1 to ``last_epoch``, ``step`` from 0 to ``steps``. ``running`` are the
    runs that have not ended.
    """

    def __init__(
        self,
        model: Encoder,
        examples: Mapping[str, Examples],
        task: TaskSpec,
        members: Sequence[Member],
    ):
        self._model, self._examples, self._task = model, examples, task
        recipe, seed = members[0].recipe, members[0].seed
        self._recipe, self._seed, self.device = recipe, seed, model.device
        self._order = np.random.default_rng(seed)
        self._training = examples_that_train(examples["train"], recipe, self._order)
        self._train, self._unit = in_training(examples["train"], self._training, recipe.labels)
        self._weights = weights_of(task, self._train, self._training, recipe, model.device)
        self._batches = self._batches_of_epoch()
        self._masks = DropoutMasks(seed, model.device)
        self._frozen = cast_once(model, recipe.precision)
        initial = with_new_classifier(model, seed)
        # A run with its own initial values is trained by itself.
        initial = replace(initial, parameters={**initial.parameters, **members[0].start})
        every = [member.entries for member in members]
        # Weight decay also changes the embeddings of words that no text has.
        rows = {} if recipe.weight_decay else rows_read(self._train, self._training, model)
        self._values = TrainedValues(initial, every, seed, self._frozen, rows)
        shapes = shapes_of(model)
        self.runs = [
            Run(number, member.recipe, self._values.leaves(number), count(member.entries, shapes))
            for number, member in enumerate(members)
        ]
        self.running = self.runs
        self.steps = len(self._batches) * recipe.epochs
        self.last_epoch = recipe.refit or recipe.epochs
        self.epoch, self.step = 1, 0
        self._losses = torch.zeros(len(self.runs), device=model.device)
        # Seconds of this epoch, divided by the number of runs.
        self._seconds = 0.0

    def batches_left(self) -> list[np.ndarray]:
        """Return this epoch's remaining batches, as numbers of training examples."""
        before = (self.epoch - 1) * len(self._batches)
        return self._batches[self.step - before :]

    def train_batch(self, batch: np.ndarray) -> None:
        """Take one step of every run."""
        started = time.monotonic()
        train = self._train
        index = by_length(self._training[batch], train.lengths)
        alike = micro_batches(index, train.lengths[index], self._model)
        batches = [pack(train, part, self._model) for part in alike]
        kind, weights = self._task.of_kind, self._weights
        labels = sum(kind.total(packed.labels, weights) for packed in batches)
        losses = torch.zeros_like(self._losses)
        for packed in batches:
            with autocast(self.device, self._recipe.precision):
                predicted = logits(self._frozen, packed, self._values.weights(), self._masks)
            part_losses = kind.losses(predicted, packed.labels, packed.read_of, weights)
            (part_losses.sum() / labels).backward()
            losses += part_losses.detach()
        for run in self.running:
            rate = learning_rate_at(self.step, self.steps, run.recipe)
            run.optimizer.step(rate, run.recipe.max_grad_norm)
        self._values.write()
        self._losses += losses
        self.step += 1
        self._seconds += (time.monotonic() - started) / len(self.running)

    def evaluate(self, run: Run) -> dict[str, float]:
        """Evaluate a run at an epoch's end; return the epoch's row of its history."""
        started = time.monotonic()
        position = self.running.index(run)
        done = self.step - (self.epoch - 1) * len(self._batches)
        trained = self._training[np.concatenate(self._batches[:done])]
        # Losses are sums over examples, or over their words.
        labels = torch.from_numpy(self._train.labels_at(trained)).to(self.device)
        total = self._task.of_kind.total(labels, self._weights)
        mean = (self._losses[position] / total).item()
        mean *= self._unit.deviation**2
        evaluation = without_scores(self._task)
        if math.isfinite(mean):
            delta = self._values.delta(position)
            delta = in_own_unit(delta, self._model.parameters, self._unit)
            precision = self._recipe.precision
            evaluation = evaluate(self._model, self._examples, self._task, precision, delta)
        seconds = self._seconds + time.monotonic() - started
        run.result.end_epoch(self.epoch, mean, seconds, evaluation)
        return run.result.history[-1]

    def end_epoch(self) -> None:
        """Drop runs that have ended, and begin the next epoch."""
        self._keep([number for number, run in enumerate(self.running) if not run.has_ended])
        self.epoch += 1
        self._seconds = 0.0
        if self.epoch <= self.last_epoch:
            self._batches = self._batches_of_epoch()

    def states(self) -> list[State]:
        """Return each run's state, from which training can continue."""
        shared: State = {"epoch": self.epoch, "step": self.step, "seconds": self._seconds}
        shared |= {"order": self._order_of_epoch, "masks": self._masks.state()}
        states = [shared | run.state() for run in self.runs]
        for position, run in enumerate(self.running):
            states[run.number]["loss"] = self._losses[position]
        return states

    def restore(self, states: Sequence[State]) -> str:
        """Continue from each run's state after the same step; return a line for the log.

        On another kind of device, dropout masks are drawn from a new seed, which the line names.
        """
        shared = states[0]
        self.epoch, self.step = shared["epoch"], shared["step"]
        self._seconds = shared["seconds"]
        self._order.bit_generator.state = shared["order"]
        self._batches = self._batches_of_epoch()
        for run, state in zip(self.runs, states, strict=True):
            run.restore(state)
        self._values.write()
        self._keep([run.number for run in self.runs if not run.has_ended])
        for position, run in enumerate(self.running):
            self._losses[position] = states[run.number]["loss"]
        line = f"continues from step {self.step} of {self.steps}"
        masks, generator = shared["masks"]
        was, now = masks["device"], self.device.type
        if was == now:
            self._masks.restore(masks, generator)
        else:
            seed = self._seed + self.step
            self._masks = DropoutMasks(seed, self.device)
            line += f", from {was} to {now}: dropout masks are drawn from the new seed {seed}"
        return line

    def _keep(self, positions: Sequence[int]) -> None:
        """Keep only the running runs at these positions, and set their losses to 0."""
        self.running = [self.running[position] for position in positions]
        self._values.keep(positions)
        self._losses = torch.zeros(len(self.running), device=self.device)

    def _batches_of_epoch(self) -> list[np.ndarray]:
        self._order_of_epoch = self._order.bit_generator.state
        return shuffled(len(self._training), self._recipe.batch_size, self._order)


def line_of_epoch(row: Mapping[str, float], epochs: int, task: TaskSpec) -> str:
    """Return an epoch's row of the history as a line of the log."""
    metric = task.metrics[0]
    score = row.get(f"{task.evaluation[0]}/{metric}")
    judged = "" if score is None else f"{metric} {score:.4f}  "
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['train_loss']:.4f}  "
        f"{judged}{row['seconds']:.1f} s"
    )


def learning_rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Return the learning rate of step 0, 1, …: a linear warm-up, then constant or linear to 0."""
    warmup = math.ceil(recipe.warmup * steps)
    if step < warmup:
        return recipe.learning_rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)
