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
from subtune.models.forward import Packed, logits, micro_batches, pack, rows_read
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
    changes_of,
    evaluate,
    examples_that_train,
    in_own_unit,
    in_training,
    weights_of,
    without_scores,
)
from subtune.training.graphs import Graphs
from subtune.training.values import TrainedValues, from_stored, to_stored

# Tokens of all runs and epochs from which compiled operations save more time on a GPU than their
# compilation takes. With BERT-base on RTE, an H200 saved 0.7 s for a million tokens.
TOKENS_WORTH_COMPILING = 20_000_000
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
    clipping. Except for rounding, a run's result does not depend on the others; on a GPU, only the
    dropout of attention weights does. A run whose loss or predictions are not finite at an epoch's
    end stops there, and the others continue.

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
    group = _Group(model, examples, task, members, report)
    start = keeper.newest() if keeper else None
    if start is not None:
        report(f"{members[0].name}  {group.restore(start)}")
        # The tensors of the checkpoint are copied.
        del start
    while group.running:
        for batch in group.batches_left():
            group.train_batch(batch)
            if keeper:
                keeper.keep(group.states)
        for positions in group.passes_left():
            for run in group.evaluate(positions):
                name, row = members[run.number].name, run.result.history[-1]
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
        report: Callable[[str], None],
    ):
        self._model, self._examples, self._task = model, examples, task
        recipe, seed = members[0].recipe, members[0].seed
        self._recipe, self._seed, self.device = recipe, seed, model.device
        self._order = np.random.default_rng(seed)
        self._training = examples_that_train(examples["train"], recipe, self._order)
        self._train, self._unit = in_training(examples["train"], self._training, recipe.labels)
        self._weights = weights_of(task, self._train, self._training, recipe, model.device)
        # Losses of an epoch are sums over examples, or over their words.
        labels = torch.from_numpy(self._train.labels_at(self._training)).to(model.device)
        self._total = task.of_kind.total(labels, self._weights)
        self._batches = self._batches_of_epoch()
        self._masks = DropoutMasks(seed, model.device)
        self._frozen = self._in_steps = cast_once(model, recipe.precision)
        initial = with_new_classifier(model, seed)
        # A run with its own initial values is trained by itself.
        initial = replace(initial, parameters={**initial.parameters, **members[0].start})
        every = [member.entries for member in members]
        # Weight decay also changes the embeddings of words that no text has.
        decays = any(member.recipe.weight_decay for member in members)
        rows = {} if decays else rows_read(self._train, self._training, model)
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
        self._graphs = None
        if self.device.type == "cuda":
            tokens = int(self._train.lengths[self._training].sum()) * recipe.epochs
            if model.transformers is None and tokens * len(members) >= TOKENS_WORTH_COMPILING:
                # Importing torch's compiler takes seconds.
                from subtune.models.fused import with_fused_operations

                self._in_steps = with_fused_operations(self._frozen, report)
            self._graphs = Graphs(len(members), self._masks.generators, report)

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
        graphs, theirs = self._graphs, self._model.transformers
        # A tail is padding.
        fixed_shape = graphs is not None and not (theirs and theirs.sees_padding)
        batches = [pack(train, part, self._model, fixed_shape) for part in alike]
        rates = [learning_rate_at(self.step, self.steps, run.recipe) for run in self.running]
        if graphs is None:
            self._step(batches, rates)
        else:
            graphs.take(self._step, batches, rates)
        self.step += 1
        self._seconds += (time.monotonic() - started) / len(self.running)

    def _step(self, batches: Sequence[Packed], rates: Sequence[float | Tensor]) -> None:
        """Compute gradients and update the values of every run."""
        kind, weights = self._task.of_kind, self._weights
        labels = sum(kind.total(packed.labels, weights) for packed in batches)
        # A capture that failed may have left gradients.
        self._values.clear()
        for packed in batches:
            with autocast(self.device, self._recipe.precision):
                predicted = logits(self._in_steps, packed, self._values.weights(), self._masks)
            losses = kind.losses(predicted, packed.labels, packed.read_of, weights)
            (losses.sum() / labels).backward()
            self._losses += losses.detach()
        for position, (run, rate) in enumerate(zip(self.running, rates, strict=True)):
            gradients = self._values.gradients(position)
            run.optimizer.step(gradients, rate, run.recipe.max_grad_norm)
        self._values.clear()
        self._values.write()

    def passes_left(self) -> list[list[int]]:
        """Return the positions of runs that this epoch has not evaluated, for each pass."""
        # After a checkpoint, some runs may already be evaluated.
        histories = [run.result.history for run in self.running]
        left = [place for place, history in enumerate(histories) if len(history) < self.epoch]
        # Sharing a pass saves a CPU no time.
        size = 1 if self.device.type == "cpu" else len(self.running)
        return [left[start : start + size] for start in range(0, len(left), size)]

    @torch.no_grad()
    def evaluate(self, positions: Sequence[int]) -> list[Run]:
        """Evaluate runs in one pass at an epoch's end; return them."""
        started = time.monotonic()
        # Reading them waits for a GPU, so that the seconds count all its work.
        means = (self._losses / self._total).tolist()
        shared = self._frozen, self._examples, self._task, self._recipe.precision
        evaluations = evaluate(*shared, self._values.weights(positions), self._unit)
        seconds = self._seconds + (time.monotonic() - started) / len(positions)
        for position, evaluation in zip(positions, evaluations, strict=True):
            run, mean = self.running[position], means[position] * self._unit.deviation**2
            if not math.isfinite(mean):
                evaluation = without_scores(self._task)
            run.result.end_epoch(self.epoch, mean, seconds, evaluation)
            if run.result.best_epoch == self.epoch:
                run.best = [leaf.clone() for leaf in self._values.leaves(position)]
        return [self.running[position] for position in positions]

    def end_epoch(self) -> None:
        """Finish and drop runs that have ended, and begin the next epoch."""
        self._drop_ended()
        self.epoch += 1
        self._seconds = 0.0
        self._batches = self._batches_of_epoch()

    def _drop_ended(self) -> None:
        """Drop runs that have ended; their results get the best epoch's delta and changes."""
        for position, run in enumerate(self.running):
            if run.has_ended and not run.result.diverged:
                delta = self._values.delta(position, run.best)
                delta = in_own_unit(delta, self._model.parameters, self._unit)
                run.result.changes = changes_of(delta, self._model.parameters)
                stored = {key: values.cpu() for key, values in to_stored(delta).items()}
                run.result.delta = from_stored(stored)
        self._keep([place for place, run in enumerate(self.running) if not run.has_ended])

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
        self._drop_ended()
        for position, run in enumerate(self.running):
            self._losses[position] = states[run.number]["loss"]
        line = f"continues from step {self.step} of {self.steps}"
        masks, generators = shared["masks"]
        was, now = masks["device"], self.device.type
        if was == now:
            self._masks.restore(masks, generators)
        else:
            seed = self._seed + self.step
            self._masks.restore(*DropoutMasks(seed, self.device).state())
            line += f", from {was} to {now}: dropout masks are drawn from the new seed {seed}"
        return line

    def _keep(self, positions: Sequence[int]) -> None:
        """Keep only the running runs at these positions, and set their losses to 0."""
        if len(positions) == len(self.running):
            self._losses.zero_()
            return
        ended = [run for run in self.running if run.has_ended]
        self.running = [self.running[position] for position in positions]
        if not self.running:
            return
        for run in ended:
            # Its leaves are parts of all runs' matrices, which would stay in memory.
            run.optimizer.leaves = [leaf.detach().clone() for leaf in run.optimizer.leaves]
        if self._graphs:
            self._graphs = self._graphs.of_fewer(len(self.running))
        self._values.keep(positions)
        for position, run in enumerate(self.running):
            run.optimizer.leaves = self._values.leaves(position)
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
