"""The training loop for runs that train side by side. Read this file from top to bottom."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subtune.methods.selection import count_trained_parameters
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.operations import DropoutMasks, compile_operations
from subtune.models.packing import (
    PackedBatch,
    embedding_rows_read,
    pack_micro_batches,
)
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, shuffled_batches
from subtune.training.checkpoints import CheckpointStore, State
from subtune.training.evaluation import (
    Run,
    autocast,
    cast_frozen_weights,
    epoch_line,
    evaluate_runs,
    make_nan_evaluation,
)
from subtune.training.training_set import draw_training_set, restore_label_unit
from subtune.training.training_step import AdamW, Graphs, learning_rate_at
from subtune.training.values import TrainedValues, mean_changes

# Operations are compiled if a group trains on at least this many tokens, summed over its runs and
# their epochs. On a GPU, compilation then saves more time than it takes. With BERT-base on RTE on
# an H200, compiled operations save 0.7 s per million tokens.
TOKENS_WORTH_COMPILING = 20_000_000
DIVERGED_MESSAGE = "the loss or a prediction is not finite: training of this run stops"


def train(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    runs: Sequence[Run],
    report: Callable[[str], None] = lambda line: None,
    keeper: CheckpointStore | None = None,
) -> list[Run]:
    """Fine-tune a pretrained model in several runs side by side.

    The runs share batches, frozen weights and the seed. Their recipes differ only in the learning
    rate, and each run trains its own entries. The result of a run does not depend on the other
    runs, except for rounding and, on a GPU, for the dropout of attention weights. If the loss or a
    prediction of a run is not finite at the end of an epoch, this run stops, and all other runs
    continue.

    Args:
        runs: the runs. Their seed determines the initial classifier, the initial low-rank updates,
            the order of examples, and dropout.
        report: is called with a line per run and epoch, which begins with the run's name.
        keeper: writes checkpoints between steps. Training continues from the checkpoint of an
            earlier attempt. On a CPU, the results are bit-identical.

    Raises:
        StoppedError: the job was asked to stop.
    """
    group = _Group(model, examples, task, runs, report)
    start = keeper.read_newest() if keeper else None
    if start is not None:
        report(f"{runs[0].name}  {group.restore(start)}")
        # `restore` copies the tensors of the checkpoint, so their memory can be freed.
        del start
    while group.running:
        for batch in group.batches_left():
            group.train_batch(batch)
            if keeper:
                keeper.write_if_due(group.states)
        for positions in group.passes_left():
            for run in group.evaluate(positions):
                report(f"{run.name}  {epoch_line(run.history[-1], group.last_epoch, task)}")
                if run.diverged:
                    report(f"{run.name}  {DIVERGED_MESSAGE}")
            if keeper:
                keeper.write_if_due(group.states)
        group.end_epoch()
    return group.runs


class _Group:
    """The state of a group of runs between two steps.

    Here, three runs train for at most two epochs of two steps, and the run b diverges. The
    *position* of a run is its index in ``running``. Trained values, optimizers, losses and CUDA
    graphs contain only the ``k`` runs in ``running``::

        method called           epoch  step  running  evaluations of a, b, c    k
                                  1      0   a b c    0 0 0                     3
        train_batch               1      1   a b c    0 0 0                     3
        train_batch               1      2   a b c    0 0 0                     3
        evaluate([0, 1, 2])       1      2   a b c    1 1 1  b has ended        3
        end_epoch                 2      2   a c      1 1 1                     2
        train_batch, twice        2      4   a c      1 1 1                     2
        evaluate([0, 1])          2      4   a c      2 1 2  a and c have ended 2
        end_epoch                 3      4            2 1 2                     0

    Checkpoints are written between any two of these calls. On a CPU, `evaluate` is called for one
    position at a time.

    Attributes:
        runs: all runs of the group, in the given order.
        running: the ``k`` unfinished runs.
        values: the trained values of the unfinished runs.
        graphs: the CUDA graphs that replay steps of the unfinished runs; None on a CPU.
        epoch: the current epoch, from 1 to ``last_epoch``.
        step: the number of completed steps, from 0 to ``steps``.
    """

    def __init__(
        self,
        model: Encoder,
        examples: Mapping[str, Examples],
        task: TaskSpec,
        runs: Sequence[Run],
        report: Callable[[str], None],
    ):
        self._model, self._examples, self._task = model, examples, task
        self.runs = [replace(run) for run in runs]
        for run in self.runs:
            run.trainable = count_trained_parameters(run.entries, model.shapes)
        recipe, seed = runs[0].recipe, runs[0].seed
        self._recipe, self._seed, self.device = recipe, seed, model.device
        self._order_generator = np.random.default_rng(seed)
        self._training = draw_training_set(
            examples["train"], task, recipe, self._order_generator, model.device
        )
        # The loss of an epoch is a mean over examples or, in token classification, over words.
        # Therefore the summed losses are divided by the number of labelled examples (or words) or,
        # in single-label tasks with class weights, by the sum of their weights.
        training = self._training
        labels = torch.from_numpy(training.examples.select_labels(training.index)).to(self.device)
        self._loss_divisor = task.of_kind.loss_divisor(labels, training.label_weights)
        self._batches = self._draw_batches()
        self._masks = DropoutMasks(seed, model.device)
        self._frozen = self._training_model = cast_frozen_weights(model, recipe.precision)
        self.steps = len(self._batches) * recipe.epochs
        self.last_epoch = recipe.refit or recipe.epochs
        self.epoch, self.step = 1, 0
        # The seconds that the steps of this epoch took, divided by the number of runs.
        self._seconds = sum(run.seconds for run in runs) / len(runs)
        self.running = self.runs
        self.values = self._build_values()
        self._optimizers = [
            AdamW(self.values.leaves(position), recipe.weight_decay)
            for position in range(len(runs))
        ]
        # The losses of each unfinished run, summed over the current epoch, [k].
        self._losses = torch.zeros(len(runs), device=self.device)
        self.graphs: Graphs | None = None
        if self.device.type == "cuda":
            self._compile_operations(report)
            self.graphs = Graphs(len(runs), self._masks.generators, report)

    def _build_values(self) -> TrainedValues:
        initial = with_new_classifier(self._model, self._seed)
        # A run that replaces initial values is alone in its group, so it is the first run.
        initial = replace(initial, parameters={**initial.parameters, **self.runs[0].start})
        rows = {}
        # Without weight decay, only the embeddings of tokens in the training set change.
        if not self._recipe.weight_decay:
            rows = embedding_rows_read(self._training.examples, self._training.index, self._model)
        entries = [run.entries for run in self.runs]
        return TrainedValues(initial, entries, self._seed, self._frozen, rows)

    def _compile_operations(self, report: Callable[[str], None]) -> None:
        """Compile operations of subtune's forward pass, if compiled operations save enough time."""
        training = self._training
        tokens = int(training.examples.lengths[training.index].sum()) * self._recipe.epochs
        if self._model.transformers is None and tokens * len(self.runs) >= TOKENS_WORTH_COMPILING:
            model = self._frozen
            fused = compile_operations(model.config, model.parameters, report)
            self._training_model = replace(model, fused=fused)

    def batches_left(self) -> list[np.ndarray]:
        """Return the remaining batches of this epoch, as indices into ``TrainingSet.index``."""
        before = (self.epoch - 1) * len(self._batches)
        return self._batches[self.step - before :]

    def train_batch(self, batch: np.ndarray) -> None:
        """Take one step of every run with the examples ``TrainingSet.index[batch]``."""
        started = time.monotonic()
        index = self._training.index[batch]
        # CUDA graphs need batches of a fixed shape, which end with padding.
        fixed_shape = self.graphs is not None and not self._model.sees_padding
        parts = pack_micro_batches(self._training.examples, index, self._model, fixed_shape)
        batches = [packed for _, packed in parts]
        rates = [learning_rate_at(self.step, self.steps, run.recipe) for run in self.running]
        if self.graphs is None:
            self._update_values(batches, rates)
        else:
            self.graphs.take_step(self._update_values, batches, rates)
        self.step += 1
        self._seconds += (time.monotonic() - started) / len(self.running)

    def _update_values(
        self, batches: Sequence[PackedBatch], rates: Sequence[float | Tensor]
    ) -> None:
        """Compute the gradients of every run, and update its trained values."""
        values = self.values
        kind, weights = self._task.of_kind, self._training.label_weights
        labels = sum(kind.loss_divisor(packed.labels, weights) for packed in batches)
        # A failed capture of this step may have left gradients.
        values.clear_gradients()
        for packed in batches:
            with autocast(self.device, self._recipe.precision):
                predicted = compute_logits(
                    self._training_model, packed, values.weights(), self._masks
                )
            losses = kind.losses(predicted, packed.labels, packed.read_of, weights)
            (losses.sum() / labels).backward()
            self._losses += losses.detach()
        for position, rate in enumerate(rates):
            gradients, norm = values.gradients(position), self._recipe.max_grad_norm
            self._optimizers[position].step(gradients, rate, norm)
        values.clear_gradients()
        values.copy_leaves()

    def passes_left(self) -> list[list[int]]:
        """List the positions of the runs in each remaining evaluation pass of this epoch."""
        # After a checkpoint is read, some runs may have been evaluated in this epoch already.
        left = [
            position for position, run in enumerate(self.running) if len(run.history) < self.epoch
        ]
        # On a CPU, evaluating several runs in one pass saves no time.
        size = 1 if self.device.type == "cpu" else len(self.running)
        return [left[start : start + size] for start in range(0, len(left), size)]

    @torch.no_grad()
    def evaluate(self, positions: Sequence[int]) -> list[Run]:
        """Evaluate the runs at these positions at the end of an epoch, and return them."""
        started = time.monotonic()
        unit = self._training.unit
        # Reading the losses waits for the GPU, so the measured time includes all work of the GPU.
        means = (self._losses / self._loss_divisor).tolist()
        shared = self._frozen, self._examples, self._task, self._recipe.precision
        evaluations = evaluate_runs(*shared, self.values.weights(positions), unit)
        seconds = self._seconds + (time.monotonic() - started) / len(positions)
        evaluated = [self.running[position] for position in positions]
        for position, run, evaluation in zip(positions, evaluated, evaluations, strict=True):
            mean = means[position] * unit.standard_deviation**2
            if not math.isfinite(mean):
                evaluation = make_nan_evaluation(self._task)
            run.end_epoch(self.epoch, mean, seconds, evaluation)
            if run.best_epoch == self.epoch:
                run.delta = self.values.delta(position)
            if run.has_ended:
                parameters = self._model.parameters
                # After a checkpoint is read, the delta is on the CPU.
                delta = {key: values.to(self.device) for key, values in run.delta.items()}
                delta = restore_label_unit({} if run.diverged else delta, parameters, unit)
                run.changes = mean_changes(parameters, delta)
                run.delta = {key: values.cpu() for key, values in delta.items()}
        return evaluated

    def end_epoch(self) -> None:
        """Drop runs that have ended, and begin the next epoch."""
        self._drop_ended_runs()
        # The losses are zeroed in place, because CUDA graphs keep the address of this tensor.
        self._losses.zero_()
        self.epoch += 1
        self._seconds = 0.0
        self._batches = self._draw_batches()

    def _drop_ended_runs(self) -> None:
        left = [position for position, run in enumerate(self.running) if not run.has_ended]
        if len(left) == len(self.running):
            return
        self.running = [self.running[position] for position in left]
        if not left:
            return
        self.values = self.values.select_runs(left)
        self._optimizers = [self._optimizers[position] for position in left]
        for position, optimizer in enumerate(self._optimizers):
            optimizer.leaves = self.values.leaves(position)
        self._losses = torch.zeros(len(left), device=self.device)
        self.graphs = self.graphs and self.graphs.recreate(len(left))

    def states(self) -> list[State]:
        shared: State = {"epoch": self.epoch, "step": self.step, "seconds": self._seconds}
        shared |= {"order": self._order_state, "masks": self._masks.state()}
        states = {run: shared | run.state() for run in self.runs}
        for position, run in enumerate(self.running):
            states[run]["optimizer"] = self._optimizers[position].state()
            states[run]["loss"] = self._losses[position]
        return [*states.values()]

    def restore(self, states: Sequence[State]) -> str:
        """Continue from the states of all runs at the same step, and return a line for the log.

        After a change of device, dropout masks are drawn from a new seed.
        """
        shared = states[0]
        self.epoch, self.step = shared["epoch"], shared["step"]
        self._seconds = shared["seconds"]
        self._order_generator.bit_generator.state = shared["order"]
        self._batches = self._draw_batches()
        by_run = dict(zip(self.runs, states, strict=True))
        for run, state in by_run.items():
            run.restore(state)
        self._drop_ended_runs()
        for position, run in enumerate(self.running):
            self._optimizers[position].restore(by_run[run]["optimizer"])
            self._losses[position] = by_run[run]["loss"]
        self.values.copy_leaves()
        line = f"continues from step {self.step} of {self.steps}"
        self._masks.restore(*shared["masks"])
        was, now = shared["masks"][0]["device"], self.device.type
        if was != now:
            seed = self._seed + self.step
            self._masks.restore(*DropoutMasks(seed, self.device).state())
            line += f"; the device changed from {was} to {now}, so dropout masks are drawn from "
            line += f"the new seed {seed}"
        return line

    def _draw_batches(self) -> list[np.ndarray]:
        self._order_state = self._order_generator.bit_generator.state
        return shuffled_batches(
            len(self._training.index), self._recipe.batch_size, self._order_generator
        )
