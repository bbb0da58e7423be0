"""The training recipe for runs side by side, readable from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from subtune.methods.selection import Entries, count_trained
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.operations import DropoutMasks, fuse_operations
from subtune.models.packing import Packed, micro_batches, pack, rows_read
from subtune.runs.spec import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, shuffled_batches, sort_by_length
from subtune.training.checkpoints import Keeper, State
from subtune.training.evaluation import (
    Result,
    autocast,
    cast_frozen_weights,
    epoch_line,
    evaluate,
    without_scores,
)
from subtune.training.training_set import to_original_unit, training_set
from subtune.training.training_step import AdamW, Graphs, learning_rate_at
from subtune.training.values import TrainedValues, mean_changes

# With more tokens in all runs and epochs, compiled operations save a GPU more time than compiling
# takes. With BERT-base on RTE, an H200 saved 0.7 s per million tokens.
TOKENS_WORTH_COMPILING = 20_000_000
DIVERGED = "the loss or a prediction is not finite: this run ends here"


@dataclass(frozen=True)
class Run:
    """A run that trains.

    Attributes:
        entries: what the run trains.
        recipe: how it trains.
        seed: the seed of everything that is drawn.
        start: tensors that replace the model's own initial values; they differ only in entries that
            train.
        name: the run's name in the log.
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
    runs: Sequence[Run],
    report: Callable[[str], None] = lambda line: None,
    keeper: Keeper | None = None,
) -> list[Result]:
    """Fine-tune several runs of a pretrained model side by side.

    Runs share batches, frozen weights, seed and recipe; each has its own entries and learning rate.
    Except for rounding, a run's result does not depend on the others; on a GPU, only the dropout of
    attention weights does. A run whose loss or predictions are not finite at an epoch's end stops
    there, and the others continue.

    Args:
        examples: the training split and the evaluation splits, if any.
        runs: their seed draws the classifier, the initial low-rank updates, the order of examples
            and dropout.
        report: a function that gets lines about each run's epochs. A line begins with the run's
            name.
        keeper: writes checkpoints between steps, and reads the checkpoints of an earlier attempt.
            On a CPU, a resumed group gives bit-identical results to an uninterrupted group.

    Raises:
        StoppedError: the keeper was asked to stop.
    """
    group = _Group(model, examples, task, runs, report)
    start = keeper.newest() if keeper else None
    if start is not None:
        report(f"{runs[0].name}  {group.restore(start)}")
        # The tensors of the checkpoint are copied.
        del start
    while group.running:
        for batch in group.batches_left():
            group.train_batch(batch)
            if keeper:
                keeper.keep(group.states)
        for positions in group.passes_left():
            for number in group.evaluate(positions):
                name, result = runs[number].name, group.results[number]
                report(f"{name}  {epoch_line(result.history[-1], group.last_epoch, task)}")
                if result.diverged:
                    report(f"{name}  {DIVERGED}")
            if keeper:
                keeper.keep(group.states)
        group.end_epoch()
    return group.results


class _SideBySide:
    """What belongs to each of the runs that train side by side, in the order of their positions.

    Attributes:
        numbers: the place of each run in its group.
        values: the trained values.
        optimizers: each steps the values of its run.
        losses: each run's sum of losses in this epoch, ``[k]``.
        graphs: captured steps of these runs; None on a CPU.
    """

    def __init__(self, count: int, recipe: Recipe, values: TrainedValues, graphs: Graphs | None):
        self.numbers = [*range(count)]
        self.values, self.graphs = values, graphs
        self.optimizers = [
            AdamW(values.leaves(position), recipe.weight_decay) for position in self.numbers
        ]
        self.losses = torch.zeros(count, device=values.device)

    def __len__(self) -> int:
        return len(self.numbers)

    def keep(self, positions: Sequence[int]) -> None:
        """Drop all runs but those at these positions, whose losses begin again at 0."""
        self.numbers = [self.numbers[position] for position in positions]
        if not positions:
            return
        self.values = self.values.only(positions)
        self.optimizers = [self.optimizers[position] for position in positions]
        for position, optimizer in enumerate(self.optimizers):
            optimizer.leaves = self.values.leaves(position)
        self.losses = torch.zeros(len(positions), device=self.values.device)
        self.graphs = self.graphs and self.graphs.of_fewer(len(positions))

    def state(self, position: int) -> State:
        """Return the state of a run, for `restore`."""
        return {"optimizer": self.optimizers[position].state(), "loss": self.losses[position]}

    def restore(self, states: Sequence[State]) -> None:
        """Continue from the state of each run."""
        for position, state in enumerate(states):
            self.optimizers[position].restore(state["optimizer"])
            self.losses[position] = state["loss"]
        self.values.write()


class _Group:
    """The state of a group of runs between two steps.

    Attributes:
        results: what is known of each run until now.
        running: the runs that have not ended.
        epoch: the current epoch, from 1 to ``last_epoch``.
        step: the number of steps that are done, from 0 to ``steps``.
    """

    def __init__(
        self,
        model: Encoder,
        examples: Mapping[str, Examples],
        task: TaskSpec,
        runs: Sequence[Run],
        report: Callable[[str], None],
    ):
        self._model, self._examples, self._task, self._runs = model, examples, task, runs
        recipe, seed = runs[0].recipe, runs[0].seed
        self._recipe, self._seed, self.device = recipe, seed, model.device
        self._order = np.random.default_rng(seed)
        self._training = training_set(examples["train"], task, recipe, self._order, model.device)
        # Losses of an epoch are sums over examples, or over their words.
        labels = torch.from_numpy(self._training.examples.labels_at(self._training.index))
        self._total = task.of_kind.loss_divisor(
            labels.to(model.device), self._training.label_weights
        )
        self._batches = self._batches_of_epoch()
        self._masks = DropoutMasks(seed, model.device)
        self._frozen = self._in_steps = cast_frozen_weights(model, recipe.precision)
        self.results = [Result(count_trained(run.entries, model.shapes)) for run in runs]
        self.steps = len(self._batches) * recipe.epochs
        self.last_epoch = recipe.refit or recipe.epochs
        self.epoch, self.step = 1, 0
        # Each run's share of the seconds of this epoch's steps.
        self._seconds = 0.0
        values, graphs = self._initial_values(), None
        if self.device.type == "cuda":
            self._compile_if_worth_it(report)
            graphs = Graphs(len(runs), self._masks.generators, report)
        self.running = _SideBySide(len(runs), recipe, values, graphs)

    def _initial_values(self) -> TrainedValues:
        initial = with_new_classifier(self._model, self._seed)
        # A run with its own initial values is trained by itself.
        initial = replace(initial, parameters={**initial.parameters, **self._runs[0].start})
        rows = {}
        # Weight decay also changes the embeddings of words that no text has.
        if not self._recipe.weight_decay:
            rows = rows_read(self._training.examples, self._training.index, self._model)
        entries = [run.entries for run in self._runs]
        return TrainedValues(initial, entries, self._seed, self._frozen, rows)

    def _compile_if_worth_it(self, report: Callable[[str], None]) -> None:
        """Compile operations of a packed family's model, if the runs train long enough."""
        training = self._training
        tokens = int(training.examples.lengths[training.index].sum()) * self._recipe.epochs
        if self._model.transformers is None and tokens * len(self._runs) >= TOKENS_WORTH_COMPILING:
            model = self._frozen
            fused = fuse_operations(model.config, model.parameters, report)
            self._in_steps = replace(model, fused=fused)

    def batches_left(self) -> list[np.ndarray]:
        """Return this epoch's remaining batches, as places in the index of the training set."""
        before = (self.epoch - 1) * len(self._batches)
        return self._batches[self.step - before :]

    def train_batch(self, batch: np.ndarray) -> None:
        """Take one step of every run."""
        started = time.monotonic()
        train = self._training.examples
        index = sort_by_length(self._training.index[batch], train.lengths)
        alike = micro_batches(index, train.lengths[index], self._model)
        graphs, module = self.running.graphs, self._model.transformers
        sees_padding = module is not None and module.sees_padding
        # A batch of a fixed shape ends with padding.
        fixed_shape = graphs is not None and not sees_padding
        batches = [pack(train, part, self._model, fixed_shape) for part in alike]
        recipes = [self._runs[number].recipe for number in self.running.numbers]
        rates = [learning_rate_at(self.step, self.steps, recipe) for recipe in recipes]
        if graphs is None:
            self._step(batches, rates)
        else:
            graphs.take(self._step, batches, rates)
        self.step += 1
        self._seconds += (time.monotonic() - started) / len(self.running)

    def _step(self, batches: Sequence[Packed], rates: Sequence[float | Tensor]) -> None:
        """Compute gradients and update the values of every run."""
        running, values = self.running, self.running.values
        kind, weights = self._task.of_kind, self._training.label_weights
        labels = sum(kind.loss_divisor(packed.labels, weights) for packed in batches)
        # A capture that failed may have left gradients.
        values.clear()
        for packed in batches:
            with autocast(self.device, self._recipe.precision):
                predicted = logits(self._in_steps, packed, values.weights(), self._masks)
            losses = kind.losses(predicted, packed.labels, packed.read_of, weights)
            (losses.sum() / labels).backward()
            running.losses += losses.detach()
        for position, rate in enumerate(rates):
            gradients, norm = values.gradients(position), self._recipe.max_grad_norm
            running.optimizers[position].step(gradients, rate, norm)
        values.clear()
        values.write()

    def passes_left(self) -> list[list[int]]:
        """Return, for each pass, the positions of the runs that it evaluates in this epoch."""
        # A checkpoint may lie between the evaluations of an epoch.
        epochs = [len(self.results[number].history) for number in self.running.numbers]
        left = [position for position, done in enumerate(epochs) if done < self.epoch]
        # On a CPU, sharing a pass saves no time.
        size = 1 if self.device.type == "cpu" else len(self.running)
        return [left[start : start + size] for start in range(0, len(left), size)]

    @torch.no_grad()
    def evaluate(self, positions: Sequence[int]) -> list[int]:
        """Evaluate runs in one pass at an epoch's end; return their places in the group."""
        started = time.monotonic()
        running, unit = self.running, self._training.unit
        # Reading the losses waits for a GPU, so that the seconds include all its work.
        means = (running.losses / self._total).tolist()
        shared = self._frozen, self._examples, self._task, self._recipe.precision
        evaluations = evaluate(*shared, running.values.weights(positions), unit)
        seconds = self._seconds + (time.monotonic() - started) / len(positions)
        numbers = [running.numbers[position] for position in positions]
        for position, number, evaluation in zip(positions, numbers, evaluations, strict=True):
            result, mean = self.results[number], means[position] * unit.deviation**2
            if not math.isfinite(mean):
                evaluation = without_scores(self._task)
            result.end_epoch(self.epoch, mean, seconds, evaluation)
            if result.best_epoch == self.epoch:
                result.delta = running.values.delta(position)
            if result.has_ended(self._runs[number].recipe):
                parameters = self._model.parameters
                # The values of a checkpoint are on the CPU.
                delta = {key: values.to(self.device) for key, values in result.delta.items()}
                delta = to_original_unit({} if result.diverged else delta, parameters, unit)
                result.changes = mean_changes(parameters, delta)
                result.delta = {key: values.cpu() for key, values in delta.items()}
        return numbers

    def end_epoch(self) -> None:
        """Drop runs that have ended, and begin the next epoch."""
        self._drop_ended()
        # Captured steps add to these losses.
        self.running.losses.zero_()
        self.epoch += 1
        self._seconds = 0.0
        self._batches = self._batches_of_epoch()

    def _drop_ended(self) -> None:
        left = [
            position
            for position, number in enumerate(self.running.numbers)
            if not self.results[number].has_ended(self._runs[number].recipe)
        ]
        if len(left) < len(self.running):
            self.running.keep(left)

    def states(self) -> list[State]:
        """Return each run's state, from which training can continue."""
        shared: State = {"epoch": self.epoch, "step": self.step, "seconds": self._seconds}
        shared |= {"order": self._order_of_epoch, "masks": self._masks.state()}
        states = [shared | result.state() for result in self.results]
        for position, number in enumerate(self.running.numbers):
            states[number] |= self.running.state(position)
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
        for result, state in zip(self.results, states, strict=True):
            result.restore(state)
        self._drop_ended()
        self.running.restore([states[number] for number in self.running.numbers])
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

    def _batches_of_epoch(self) -> list[np.ndarray]:
        self._order_of_epoch = self._order.bit_generator.state
        return shuffled_batches(len(self._training.index), self._recipe.batch_size, self._order)
