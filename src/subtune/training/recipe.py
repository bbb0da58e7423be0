"""The training recipe for runs side by side, readable from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from subtune.data.batches import shuffled_batches, sort_by_length
from subtune.methods.selection import Entries, count_trained
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.operations import DropoutMasks, fuse_operations
from subtune.models.packing import Packed, micro_batches, pack, rows_read
from subtune.runs.spec import Recipe
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper, State
from subtune.training.deltas import from_stored, mean_changes, to_stored
from subtune.training.evaluation import (
    Evaluation,
    Result,
    autocast,
    cast_once,
    evaluate,
    line_of_epoch,
    without_scores,
)
from subtune.training.graphs import Graphs
from subtune.training.optimizer import AdamW, learning_rate_at
from subtune.training.training_set import in_original_unit, training_set
from subtune.training.values import TrainedValues

# With more tokens in all runs and epochs, compiled operations save a GPU more time than compiling
# takes. With BERT-base on RTE, an H200 saved 0.7 s per million tokens.
TOKENS_WORTH_COMPILING = 20_000_000
DIVERGED = "the loss or a prediction is not finite: this run ends here"


@dataclass(frozen=True)
class Member:
    """One run of a sweep.

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
        examples: the training split and the evaluation splits, if any.
        members: the runs. Their seed draws the classifier, the initial low-rank updates, the order
            of examples and dropout.
        report: a function that gets lines about each run's epochs. A line begins with the run's
            name.
        keeper: writes checkpoints between steps, and reads the checkpoints of an earlier attempt.
            On a CPU, a resumed group gives bit-identical results to an uninterrupted group.

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


class Run:
    """A run while it trains.

    Attributes:
        number: the run's index in its group.
        optimizer: steps the run's leaves.
        result: the result so far.
        best: copies of the leaves after the best epoch.
    """

    def __init__(self, number: int, recipe: Recipe, leaves: Sequence[Tensor], trainable: int):
        self.number = number
        self.recipe = recipe
        self.optimizer = AdamW(leaves, recipe.weight_decay)
        self.result = Result(trainable)
        self.best: list[Tensor] = []

    @property
    def has_ended(self) -> bool:
        """True after divergence, after the last epoch, or after ``patience`` epochs without a
        better score."""
        patience, best = self.recipe.patience, self.result.best_epoch
        epochs, last = len(self.result.history), self.recipe.refit or self.recipe.epochs
        if self.result.diverged or epochs == last:
            return True
        return patience is not None and best is not None and epochs - best >= patience

    def state(self) -> State:
        """Return the optimiser's state and the result so far, for `restore`."""
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


class _Group:
    """The state of runs side by side between two steps.

    Attributes:
        runs: all runs of the group.
        running: the runs that have not ended.
        epoch: the current epoch, from 1 to ``last_epoch``.
        step: the number of steps that are done, from 0 to ``steps``.
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
        self._training = training_set(examples["train"], task, recipe, self._order, model.device)
        # Losses of an epoch are sums over examples, or over their words.
        labels = torch.from_numpy(self._training.examples.labels_at(self._training.index))
        self._total = task.of_kind.total(labels.to(model.device), self._training.label_weights)
        self._batches = self._batches_of_epoch()
        self._masks = DropoutMasks(seed, model.device)
        self._frozen = self._in_steps = cast_once(model, recipe.precision)
        self._values = self._initial_values(members)
        shapes = model.shapes
        self.runs = [
            Run(
                number,
                member.recipe,
                self._values.leaves(number),
                count_trained(member.entries, shapes),
            )
            for number, member in enumerate(members)
        ]
        self.running = self.runs
        self.steps = len(self._batches) * recipe.epochs
        self.last_epoch = recipe.refit or recipe.epochs
        self.epoch, self.step = 1, 0
        # Each run's sum of losses in this epoch, and the run's share of the seconds.
        self._losses, self._seconds = torch.zeros(len(self.runs), device=model.device), 0.0
        self._graphs = None
        if self.device.type == "cuda":
            self._compile_if_worth_it(report)
            self._graphs = Graphs(len(members), self._masks.generators, report)

    def _initial_values(self, members: Sequence[Member]) -> TrainedValues:
        initial = with_new_classifier(self._model, self._seed)
        # A run with its own initial values is trained by itself.
        initial = replace(initial, parameters={**initial.parameters, **members[0].start})
        rows = {}
        # Weight decay also changes the embeddings of words that no text has.
        if not any(member.recipe.weight_decay for member in members):
            rows = rows_read(self._training.examples, self._training.index, self._model)
        entries = [member.entries for member in members]
        return TrainedValues(initial, entries, self._seed, self._frozen, rows)

    def _compile_if_worth_it(self, report: Callable[[str], None]) -> None:
        """Compile operations of a packed family's model, if the runs train long enough."""
        training = self._training
        tokens = int(training.examples.lengths[training.index].sum()) * self._recipe.epochs
        if self._model.transformers is None and tokens * len(self.runs) >= TOKENS_WORTH_COMPILING:
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
        graphs, module = self._graphs, self._model.transformers
        sees_padding = module is not None and module.sees_padding
        # A batch of a fixed shape ends with padding.
        fixed_shape = graphs is not None and not sees_padding
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
        kind, weights = self._task.of_kind, self._training.label_weights
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
        """Return, for each pass, the positions of the runs that it evaluates in this epoch."""
        # A checkpoint may lie between the evaluations of an epoch.
        histories = [run.result.history for run in self.running]
        left = [place for place, history in enumerate(histories) if len(history) < self.epoch]
        # On a CPU, sharing a pass saves no time.
        size = 1 if self.device.type == "cpu" else len(self.running)
        return [left[start : start + size] for start in range(0, len(left), size)]

    @torch.no_grad()
    def evaluate(self, positions: Sequence[int]) -> list[Run]:
        """Evaluate runs in one pass at an epoch's end; return them."""
        started = time.monotonic()
        # Reading the losses waits for a GPU, so that the seconds include all its work.
        means = (self._losses / self._total).tolist()
        unit, weights = self._training.unit, self._values.weights(positions)
        shared = self._frozen, self._examples, self._task, self._recipe.precision
        evaluations = evaluate(*shared, weights, unit)
        seconds = self._seconds + (time.monotonic() - started) / len(positions)
        for position, evaluation in zip(positions, evaluations, strict=True):
            run, mean = self.running[position], means[position] * unit.deviation**2
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
                delta = in_original_unit(delta, self._model.parameters, self._training.unit)
                run.result.changes = mean_changes(delta, self._model.parameters)
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
            # The run's leaves are slices of all runs' matrices and would keep them in memory.
            run.optimizer.leaves = [leaf.detach().clone() for leaf in run.optimizer.leaves]
        if self._graphs:
            self._graphs = self._graphs.of_fewer(len(self.running))
        self._values.keep(positions)
        for position, run in enumerate(self.running):
            run.optimizer.leaves = self._values.leaves(position)
        self._losses = torch.zeros(len(self.running), device=self.device)

    def _batches_of_epoch(self) -> list[np.ndarray]:
        self._order_of_epoch = self._order.bit_generator.state
        return shuffled_batches(len(self._training.index), self._recipe.batch_size, self._order)
