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
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import datasets
import numpy as np
import torch

from subtune.comparison.starting_model import StartingModel
from subtune.config.schema import Pace, Trains
from subtune.core import machine
from subtune.core.jobs import StoppedError
from subtune.core.machine import is_out_of_memory
from subtune.methods.names import METHODS
from subtune.models.encoder import Encoder, load_encoder
from subtune.models.files import has_one_end, has_token_types, read_config
from subtune.models.tokenizer import read_tokenizer
from subtune.plan.cost import FORWARD_PASSES, KINDS, Step, fit_pace
from subtune.runs.spec import Precision, Recipe
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper
from subtune.training.evaluation import logits_of
from subtune.training.recipe import Run, train

# The number of texts that are trained on, and the most tokens of each.
TEXTS, LONGEST = 128, 128
# Two sizes of batches tell the time per layer from the time per operation.
FEW, MANY = 8, 32
BATCHES = (8, 16, 32)
# The share of the time that each measurement has, unless a single step takes longer.
SHARE = 1 / 12
# bf16 must save at least this share of a step.
GAIN = 0.05


class Measured(NamedTuple):
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


def measured(
    model: StartingModel,
    task: Task,
    columns: Mapping[str, Sequence],
    max_length: int,
    methods: Iterable[str],
    seconds: float,
) -> Measured:
    """Measure the pace of this machine.

    Args:
        model: the model that trains.
        task: the task of the texts.
        columns: columns of the training rows.
        max_length: the most tokens of a text that are read.
        methods: methods that train.
        seconds: the approximate time that measuring takes.
    """
    device = machine.prepare(threads=1)
    is_gpu = device.type == "cuda"
    if not (model.directory and model.dimensions):
        return Measured("H100" if is_gpu else "CPU core", {})
    deadline = time.monotonic() + seconds
    head = task.of_kind.head
    encoder = load_encoder(model.directory, head, task.outputs, model.pooling).to(device)
    examples = _examples(model.directory, task, columns, min(max_length, LONGEST))
    teraflops = model.dimensions.forward_flops(examples.lengths.mean(), encoder.head) / 1e12
    layers = model.dimensions.num_hidden_layers
    timer = Timer(encoder, task, examples, layers, teraflops, deadline, SHARE * seconds)
    kinds: dict[Trains, str] = {}
    for method in methods:
        kinds.setdefault(KINDS[METHODS[method].work()], method)
    pace, precision, milliseconds = _paces(timer, kinds)
    del encoder, timer
    _free_memory()
    name = machine.device_name(device)
    if not is_gpu:
        name = f"one core of {name}"
    least_batch = _least_batch(pace.get(next(iter(kinds))), layers, teraflops)
    return Measured(name, pace, precision, milliseconds, least_batch)


def _least_batch(pace: Pace | None, layers: int, teraflops: float) -> int:
    """Return the size of batches from which computing texts takes most of a step's time."""
    if pace is None:
        return BATCHES[0]
    shared, text = pace.per_layer / 1e3 * layers, pace.per_teraflop * teraflops
    return next((size for size in BATCHES if size * text >= shared), BATCHES[-1])


def _free_memory() -> None:
    """Return freed memory to the system. This process keeps it, and the jobs now need it."""
    gc.collect()
    torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _examples(
    directory: Path, task: Task, columns: Mapping[str, Sequence], max_length: int
) -> Examples:
    """Return `TEXTS` examples of evenly spaced rows; rows of small tables repeat."""
    rows = len(columns["label"])
    places = np.resize(np.linspace(0, rows - 1, min(TEXTS, rows)).astype(int), TEXTS)
    some = {name: [cells[place] for place in places] for name, cells in columns.items()}
    config = read_config(directory)
    tokenizer = read_tokenizer(directory, has_one_end(config, task.of_kind.head))
    encoded = task.of_kind.encode(tokenizer, some, max_length, None)
    if not has_token_types(config):
        del encoded["token_type_ids"]
    return Examples(datasets.Dataset.from_dict(encoded))


@dataclass
class Timer:
    """Timed passes and steps of one model.

    Attributes:
        encoder: the model.
        task: the task of the texts.
        examples: the texts.
        layers: the number of the model's layers.
        teraflops: 10¹² operations of one text's forward pass.
        deadline: the time after which no step begins.
        share: the seconds of one measurement, unless a single step takes longer.
        forward: seconds per 10¹² operations of an evaluation, once one was timed.
    """

    encoder: Encoder
    task: Task
    examples: Examples
    layers: int
    teraflops: float
    deadline: float
    share: float
    forward: float = 0.0

    def evaluation(self, precision: Precision) -> Step:
        """Time a pass without training, over as many texts as there is time for."""

        def seconds(texts: int) -> float:
            some, started = self.examples.part(np.arange(texts)), time.monotonic()
            logits_of(self.encoder, some, precision)
            return time.monotonic() - started

        # The first pass also allocates memory.
        seconds(1)
        texts = int(np.clip(self.share / seconds(1), 1, len(self.examples)))
        step = Step(self.layers, texts * self.teraflops, seconds(texts))
        self.forward = step.seconds / step.teraflops
        return step

    def step(self, kind: Trains, method: str, batch_size: int, precision: Precision) -> list[Step]:
        """Time steps of a method.

        Args:
            kind: what trains.
            method: the method.
            batch_size: the number of texts in a batch.
            precision: the precision of the steps.

        Returns:
            The median of the steps; no step if there is no time for two, or not enough memory.
        """
        teraflops = batch_size * self.teraflops
        expected = FORWARD_PASSES[kind] * teraflops * self.forward
        if time.monotonic() + 2 * expected > self.deadline:
            return []
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
        clock = _Clock(epochs * steps, self.share)
        try:
            train(self.encoder, {"train": self.examples}, self.task, [member], keeper=clock)
        except StoppedError:
            pass
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return []
        return [Step(self.layers, teraflops, float(np.median(np.diff(clock.times)[-steps:])))]


class _Clock(Keeper):
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


def _paces(
    timer: Timer, kinds: Mapping[Trains, str]
) -> tuple[dict[Trains, Pace], Precision, dict[Precision, float]]:
    """Time every kind of step.

    Args:
        timer: times steps of the model.
        kinds: a method of each kind of step; the first one decides the precision.

    Returns:
        A device's pace, its quicker precision, and the milliseconds of a step by precision.
    """
    evaluation = timer.evaluation("fp32")
    first, method = next(iter(kinds.items()))
    by_precision: dict[Precision, list[Step]] = {
        "fp32": timer.step(first, method, FEW, "fp32"),
        "bf16": timer.step(first, method, FEW, "bf16"),
    }
    times = {name: 1e3 * steps[0].seconds for name, steps in by_precision.items() if steps}
    precision: Precision = "fp32"
    if len(times) == 2 and times["bf16"] < (1 - GAIN) * times["fp32"]:
        precision, evaluation = "bf16", timer.evaluation("bf16")
    found = {first: by_precision[precision]}
    for kind, method in kinds.items():
        if kind != first:
            found[kind] = timer.step(kind, method, FEW, precision)
    for kind, method in kinds.items():
        found[kind] += timer.step(kind, method, MANY, precision)
    pace = {kind: fit_pace(steps) for kind, steps in found.items() if steps}
    return {**pace, "evaluation": fit_pace([evaluation])}, precision, times
