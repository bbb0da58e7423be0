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

from subtune.config.schema import Pace, Trains
from subtune.core import jobs
from subtune.core.jobs import StoppedError, is_out_of_memory
from subtune.init.settings import StartingModel
from subtune.models.encoder import Encoder, load_model, shapes_of
from subtune.models.files import (
    Pooling,
    has_one_end,
    has_token_types,
    lacks_pooler,
    read_config,
)
from subtune.models.tokenizer import read_tokenizer
from subtune.planning.cost import FORWARD_PASSES, KINDS, Step, fitted
from subtune.selections.methods import METHODS
from subtune.selections.specs import Precision, Recipe
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Keeper
from subtune.training.evaluation import logits_of
from subtune.training.recipe import Member, train

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
    """A device and its pace by what trains.

    Without the model's files, nothing is measured: ``device`` is then a similar one.
    ``milliseconds``: of a step of the first method, in batches of `FEW`, by precision; the quicker
    ``precision`` is chosen. ``least_batch``: the size of batches from which most of a step's time
    computes texts. In smaller batches the optimiser and the starting of kernels take longer.
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
    """Return the pace of this machine, measured in about ``seconds``.

    Args:
        columns: columns of the training rows.
        methods: methods that train.
    """
    device = jobs.prepare(threads=1)
    is_gpu = device.type == "cuda"
    if not (model.directory and model.dimensions):
        return Measured("H100" if is_gpu else "CPU core", {})
    deadline = time.monotonic() + seconds
    pooling: Pooling | None = "mean" if lacks_pooler(model.directory) else None
    encoder = load_model(model.directory, task.of_kind.head, task.outputs, pooling).to(device)
    examples = _examples(model.directory, task, columns, min(max_length, LONGEST))
    flops = model.dimensions.forward_flops(examples.lengths.mean(), encoder.head)
    layers = model.dimensions.num_hidden_layers
    timer = _Timer(encoder, task, examples, layers, flops / 1e12, deadline, SHARE * seconds)
    kinds: dict[Trains, str] = {}
    for method in methods:
        kinds.setdefault(KINDS[METHODS[method].work()], method)
    pace, precision, milliseconds = _measured(timer, kinds)
    first = pace.get(next(iter(kinds)), Pace(per_layer=0, per_teraflop=0))
    shared = first.per_layer / 1e3 * layers
    text = first.per_teraflop * flops / 1e12
    least_batch = next((size for size in BATCHES if size * text >= shared), BATCHES[-1])
    del encoder, timer
    gc.collect()
    # This process keeps freed memory, which the jobs now need.
    torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    name = jobs.device_name(device)
    name = name if is_gpu else f"one core of {name}"
    return Measured(name, pace, precision, milliseconds, least_batch)


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
class _Timer:
    """Timed passes and steps of one model.

    ``teraflops``: 10¹² operations of one text's forward pass. ``share``: the seconds of one
    measurement, unless a single step takes longer. ``forward``: seconds per 10¹² operations of an
    evaluation, once one was timed.
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
        """Time steps of a method, and return their median.

        Return nothing if there is no time for two steps, or not enough memory.
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
        member = Member(METHODS[method].resolve(shapes_of(self.encoder), 0), recipe, seed=0)
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
    """Notes the time after every step, in place of checkpoints, and then stops training.

    ``steps``: the most steps. ``share``: the seconds after which no step begins.
    """

    def __init__(self, steps: int, share: float):
        self.steps, self.share = steps, share
        self.times: list[float] = []

    def newest(self) -> None:
        """Return no checkpoint."""

    def keep(self, take: object) -> None:
        """Note the time.

        Raises:
            StoppedError: enough steps are timed. The first one, which also allocates memory, only
                starts the clock.
        """
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.monotonic())
        is_late = len(self.times) > 1 and self.times[-1] > self.times[0] + self.share
        if is_late or len(self.times) == self.steps:
            raise StoppedError("enough steps are timed")


def _measured(
    timer: _Timer, kinds: Mapping[Trains, str]
) -> tuple[dict[Trains, Pace], Precision, dict[Precision, float]]:
    """Return a device's pace, its quicker precision, and both precisions' milliseconds.

    ``kinds``: a method of each kind of step. The first one decides the precision.
    """
    evaluation = timer.evaluation("fp32")
    first = next(iter(kinds.items()))
    both: dict[Precision, list[Step]] = {
        "fp32": timer.step(*first, FEW, "fp32"),
        "bf16": timer.step(*first, FEW, "bf16"),
    }
    times = {precision: 1e3 * steps[0].seconds for precision, steps in both.items() if steps}
    precision: Precision = "fp32"
    if len(times) == 2 and times["bf16"] < (1 - GAIN) * times["fp32"]:
        precision, evaluation = "bf16", timer.evaluation("bf16")
    found: dict[Trains, list[Step]] = {kind: [] for kind in kinds}
    found[first[0]] = both[precision]
    for batch_size in (FEW, MANY):
        for kind, method in kinds.items():
            if batch_size == MANY or kind != first[0]:
                found[kind] += timer.step(kind, method, batch_size, precision)
    pace = {kind: fitted(steps) for kind, steps in found.items() if steps}
    return {**pace, "evaluation": fitted([evaluation])}, precision, times
