"""The pace of this machine: real training steps, timed before settings are chosen.

Model, texts and the code of training are the real ones, on one thread, as in a job. Other programs
on the same cores make steps slower, as they will in training.
"""

import ctypes
import gc
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import datasets
import numpy as np
import torch

from subtune.comparison.settings import StartingModel
from subtune.config.schema import Pace, Trains
from subtune.core import process
from subtune.core.process import StoppedError, is_out_of_memory
from subtune.data.load import row_encoder
from subtune.methods import METHODS
from subtune.models.encoder import Encoder, load_encoder
from subtune.plan.cost import FORWARD_PASSES, STEP_KINDS
from subtune.runs.spec import Precision, Recipe
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper
from subtune.training.evaluation import split_logits
from subtune.training.recipe import Run, train

# The number of texts that are trained on, and the most tokens of each.
TEXTS, LONGEST = 128, 128
# Two sizes of batches tell the time per layer from the time per operation.
FEW, MANY = 8, 32
BATCHES = (8, 16, 32)
# The share of the time that each measurement has, unless a single step takes longer.
SHARE = 1 / 12
# A precision is not tried if a text takes this many times as long as in fp32.
MOST_TIMES = 2
# bf16 must save at least this share of a step.
GAIN = 0.05


class MeasuredPace(NamedTuple):
    """A device and its pace.

    Attributes:
        device: the device's name; without the model's files nothing is measured, and this is a
            similar device.
        pace: the pace by what trains.
        precision: the precision whose steps are quicker.
        milliseconds: the time of a step of the first method in batches of `FEW`, by precision.
        least_batch: the size of batches from which most of a step's time computes texts. In smaller
            batches the optimiser and the starting of kernels take longer.
    """

    device: str
    pace: dict[Trains, Pace]
    precision: Precision = "fp32"
    milliseconds: Mapping[Precision, float] = MappingProxyType({})
    least_batch: int = 1


def measure_pace(
    model: StartingModel,
    task: Task,
    columns: Mapping[str, Sequence],
    max_length: int,
    methods: Iterable[str],
    seconds: float,
) -> MeasuredPace:
    """Measure the pace of this machine.

    Args:
        model: the model that trains.
        task: the task of the texts.
        columns: columns of the training rows.
        max_length: the most tokens of a text that are read.
        methods: methods that train; the kind of the first one decides precision and batches.
        seconds: the approximate time that measuring takes.
    """
    device = process.prepare_device(threads=1)
    is_gpu = device.type == "cuda"
    if not (model.directory and model.dimensions):
        return MeasuredPace("H100" if is_gpu else "CPU core", {})
    deadline = time.monotonic() + seconds
    head = task.of_kind.head
    encoder = load_encoder(model.directory, head, task.outputs, model.pooling).to(device)
    # Evenly spaced rows; those of small tables repeat.
    rows = len(columns["label"])
    spaced = np.linspace(0, rows - 1, min(TEXTS, rows)).astype(int)
    places = np.resize(spaced, TEXTS).tolist()
    some = {name: [cells[place] for place in places] for name, cells in columns.items()}
    encode = row_encoder(task, model.directory, min(max_length, LONGEST))
    examples = Examples(datasets.Dataset.from_dict(encode(some, places)))
    timer = Timer(encoder, task, examples, deadline, SHARE * seconds)
    kinds: dict[Trains, str] = {}
    for method in methods:
        kinds.setdefault(STEP_KINDS[METHODS[method].work()], method)
    times, precision, milliseconds = _time_kinds(timer, kinds)
    layers = model.dimensions.num_hidden_layers
    teraflops = model.dimensions.forward_flops(examples.lengths.mean(), encoder.head) / 1e12
    pace = {kind: draw_line(by_size, layers, teraflops) for kind, by_size in times.items()}
    least_batch = BATCHES[0]
    if first := pace.get(next(iter(kinds))):
        start, text = first.per_layer / 1e3 * layers, first.per_teraflop * teraflops
        least_batch = next((size for size in BATCHES if size * text >= start), BATCHES[-1])
    # Freed memory goes back to the system: this process would keep it, and the jobs now need it.
    del encoder, timer
    gc.collect()
    torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    name = process.device_name(device)
    name = name if is_gpu else f"one core of {name}"
    return MeasuredPace(name, pace, precision, milliseconds, least_batch)


def draw_line(seconds: Mapping[int, float], layers: int, teraflops: float) -> Pace:
    """Return the line through the times of one or two steps. Neither part of it is negative.

    Args:
        seconds: the time of a step, by the number of texts in a batch.
        layers: the number of the model's layers.
        teraflops: 10¹² operations of one text's forward pass.
    """
    few, many = min(seconds), max(seconds)
    text = seconds[many] / many
    if few < many:
        text = min(max((seconds[many] - seconds[few]) / (many - few), 0), text)
    start = max(seconds[few] - few * text, 0)
    per_layer, per_teraflop = 1e3 * start / layers, text / teraflops
    return Pace(per_layer=float(f"{per_layer:.3g}"), per_teraflop=float(f"{per_teraflop:.3g}"))


@dataclass
class Timer:
    """Timed passes and steps of one model.

    Attributes:
        encoder: the model.
        task: the task of the texts.
        examples: the texts.
        deadline: the time after which no step begins.
        share: the seconds of one measurement, unless a single step takes longer.
        forward: seconds of one text's evaluation, once one was timed.
    """

    encoder: Encoder
    task: Task
    examples: Examples
    deadline: float
    share: float
    forward: float = 0.0

    def evaluation(self, precision: Precision) -> None:
        """Time a pass without training, over as many texts as there is time for."""
        texts = int(np.clip(self.share / self.one_text(precision), 1, len(self.examples)))
        self.forward = self._pass(texts, precision) / texts

    def one_text(self, precision: Precision) -> float:
        """Return the seconds of a pass over one text."""
        # The first pass also allocates memory.
        self._pass(1, precision)
        return self._pass(1, precision)

    def _pass(self, texts: int, precision: Precision) -> float:
        """Return the seconds of a pass over some texts."""
        some, started = self.examples.select(np.arange(texts)), time.monotonic()
        split_logits(self.encoder, some, precision)
        return time.monotonic() - started

    def step(
        self, kind: Trains, method: str, batch_size: int, precision: Precision
    ) -> dict[int, float]:
        """Time steps of a method.

        Returns:
            The median seconds by ``batch_size``; nothing if there is no time for two steps, or not
            enough memory.
        """
        expected = FORWARD_PASSES[kind] * batch_size * self.forward
        if time.monotonic() + 2 * expected > self.deadline:
            return {}
        # A GPU's first steps capture others.
        epochs = 1 if self.encoder.device.type == "cpu" else 4
        recipe = Recipe(
            learning_rate=1e-5,
            batch_size=batch_size,
            epochs=epochs,
            schedule="constant",
            warmup=0,
            weight_decay=0,
            max_grad_norm=1,
            precision=precision,
        )
        member = Run(METHODS[method].resolve(self.encoder.shapes, 0), recipe, seed=0)
        steps = len(self.examples) // batch_size
        clock = _StepTimer(epochs * steps, self.share)
        try:
            train(self.encoder, {"train": self.examples}, self.task, [member], keeper=clock)
        except StoppedError:
            pass
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return {}
        return {batch_size: float(np.median(np.diff(clock.times)[-steps:]))}


class _StepTimer(Keeper):
    """Times of the ends of steps, in place of checkpoints.

    Args:
        steps: the most steps.
        share: the seconds after which no step begins.
    """

    def __init__(self, steps: int, share: float):
        self.steps, self.share = steps, share
        self.times: list[float] = []

    def newest(self) -> None:
        """Return no checkpoint."""

    def keep(self, take: object) -> None:
        """Note the time.

        The first step also allocates memory; its end only starts the clock.

        Raises:
            StoppedError: enough steps are timed.
        """
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.monotonic())
        is_late = len(self.times) > 1 and self.times[-1] > self.times[0] + self.share
        if is_late or len(self.times) == self.steps:
            raise StoppedError("enough steps are timed")


def _time_kinds(
    timer: Timer,
    kinds: Mapping[Trains, str],
    precisions: Sequence[Precision] = ("fp32", "bf16"),
) -> tuple[dict[Trains, dict[int, float]], Precision, dict[Precision, float]]:
    """Time every kind of step, and evaluation.

    Args:
        timer: times steps of the model.
        kinds: a method of each kind of step; the first one decides the precision.
        precisions: the precisions to try. One in which the model fails is not chosen.

    Returns:
        The seconds of a step by kind and size of batches, the quicker precision, and the
        milliseconds of a step by precision.

    Raises:
        SubtuneError: the model fails in every precision.
    """
    first, method = next(iter(kinds.items()))
    tried: dict[Precision, dict[int, float]] = {}
    errors: list[Exception] = []
    for precision in precisions:
        try:
            if precision == "fp32":
                timer.evaluation(precision)
            elif tried and timer.one_text(precision) > MOST_TIMES * timer.one_text("fp32"):
                # Processors without bf16 imitate it; a step would take many seconds.
                continue
            tried[precision] = timer.step(first, method, FEW, precision)
        except Exception as error:  # a model's own code may fail in one precision
            errors.append(error)
    if not tried:
        raise errors[0]
    milliseconds = {name: 1e3 * times[FEW] for name, times in tried.items() if times}
    precision = next(iter(tried))
    if len(milliseconds) == 2 and milliseconds["bf16"] < (1 - GAIN) * milliseconds["fp32"]:
        precision = "bf16"
    if precision == "bf16":
        timer.evaluation(precision)
    found = {first: tried[precision]}
    others = [(kind, FEW) for kind in kinds if kind != first]
    for kind, size in (*others, *((kind, MANY) for kind in kinds)):
        try:
            found[kind] = found.get(kind, {}) | timer.step(kind, kinds[kind], size, precision)
        except Exception:  # as above
            if precision == "bf16" and "fp32" in tried:
                # The first method trains in bf16, but another one does not.
                return _time_kinds(timer, kinds, ("fp32",))
            # The method is left out when its training fails, with one line.
    times = {kind: by_size for kind, by_size in found.items() if by_size}
    return times | {"evaluation": {1: timer.forward}}, precision, milliseconds
