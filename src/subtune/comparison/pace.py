"""Measure the training speed of this machine by timing training steps.

The timed steps use the same model, texts, training code and number of threads (one) as later jobs.
Other programs on the same cores slow down both.
"""

import ctypes
import gc
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import datasets
import numpy as np
import torch
from scipy.optimize import nnls

from subtune.comparison.settings import StartingModel
from subtune.config.schema import Pace, Trains
from subtune.core import process
from subtune.core.errors import error_reason
from subtune.core.process import StoppedError, is_out_of_memory
from subtune.data.load import row_encoder
from subtune.methods import METHODS
from subtune.models.encoder import Encoder, load_encoder
from subtune.plan.cost import FORWARD_PASSES, STEP_KINDS
from subtune.runs.spec import Precision, Recipe
from subtune.tasks import Task
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import CheckpointStore
from subtune.training.evaluation import compute_split_logits
from subtune.training.recipe import Run, train

# The number of texts in the timed steps, and the maximum number of tokens per text.
TEXTS, LONGEST = 128, 128
# Two batch sizes are timed, because `fit_pace` fits two coefficients to the times of steps.
FEW, MANY = 8, 32
# The share of the total time that each measurement may take. A single step may take longer.
TIMED_SHARE = 1 / 12
# Steps in bf16 are tried only if a forward pass takes at most this many times as long as in fp32.
MOST_TIMES = 2
# bf16 is chosen only if a step in bf16 takes less than ``1 - GAIN`` times as long as in fp32.
GAIN = 0.05


class MeasuredPace(NamedTuple):
    """A device and its measured pace.

    Attributes:
        device: the name of the measured device or, if the model is not downloaded yet, of the most
            similar device whose pace is known.
        pace: the pace of each kind of training step; empty if nothing is measured.
        precision: the precision chosen for training.
        pace_by_model: the paces of the other models, by the model's name.
        problems: maps the name of each model that fails to an error message.
    """

    device: str
    pace: dict[Trains, Pace]
    precision: Precision = "fp32"
    pace_by_model: Mapping[str, dict[Trains, Pace]] = MappingProxyType({})
    problems: Mapping[str, str] = MappingProxyType({})


def measure_paces(
    models: Mapping[str, StartingModel],
    task: Task,
    columns: Mapping[str, Sequence],
    max_length: int,
    methods: Mapping[str, Iterable[str]],
    seconds: float,
) -> MeasuredPace:
    """Measure the pace of each model with `measure_pace`, and choose a precision for all of them.

    ``seconds`` is the approximate duration of all measurements of all models. The paces of the
    other models are added to the result of the first. If all models fail, the last error is raised.
    """
    timed, problems = dict[str, MeasuredPace](), dict[str, str]()

    def measure(names: Iterable[str], tries_bf16: bool) -> None:
        for name in names:
            given = models[name], task, columns, max_length, methods[name], seconds / len(models)
            try:
                timed[name] = measure_pace(*given, tries_bf16)
            except Exception as error:  # the code of a model may fail
                if len(problems) + 1 == len(models):
                    raise
                problems[name] = error_reason(error)

    measure(models, tries_bf16=True)
    measured = [name for name in timed if timed[name].pace] or [*timed]
    if len({timed[name].precision for name in measured}) > 1:
        in_bf16 = [name for name in measured if timed[name].precision == "bf16"]
        measure(in_bf16, tries_bf16=False)
    first, *others = (name for name in measured if name not in problems)
    pace_by_model = {name: timed[name].pace for name in others}
    return timed[first]._replace(pace_by_model=pace_by_model, problems=problems)


def measure_pace(
    model: StartingModel,
    task: Task,
    columns: Mapping[str, Sequence],
    max_length: int,
    methods: Iterable[str],
    seconds: float,
    tries_bf16: bool = True,
) -> MeasuredPace:
    """Measure the pace of this machine by timing training steps of some methods.

    The precision is chosen for the first method. Texts have at most ``max_length`` tokens. All
    measurements take about ``seconds``.
    """
    device = process.prepare_device(threads=1)
    is_gpu = device.type == "cuda"
    if not (model.directory and model.dimensions):
        return MeasuredPace("H100" if is_gpu else "CPU core", {})
    deadline = time.monotonic() + seconds
    head = task.of_kind.head
    encoder = load_encoder(model.directory, head, task.outputs, model.pooling).to(device)
    # The rows are evenly spaced; a small table is repeated until there are enough texts.
    rows = len(columns["label"])
    indices = np.resize(np.arange(0, rows, -(-rows // TEXTS)), TEXTS).tolist()
    some = {name: [cells[index] for index in indices] for name, cells in columns.items()}
    encode = row_encoder(task, model.directory, min(max_length, LONGEST))
    examples = Examples(datasets.Dataset.from_dict(encode(some, indices)))
    kinds: dict[Trains, str] = {}
    for method in methods:
        kinds.setdefault(STEP_KINDS[METHODS[method].work()], method)
    timer = Timer(encoder, task, examples, deadline, TIMED_SHARE * seconds)
    timer = _time_kinds(timer, kinds, tries_bf16)
    layers = model.dimensions.num_hidden_layers
    teraflops = model.dimensions.forward_flops(examples.lengths.mean(), encoder.head) / 1e12
    times = timer.seconds | {"evaluation": {1: timer.forward}}
    pace = {kind: fit_pace(by_size, layers, teraflops) for kind, by_size in times.items()}
    precision, name = timer.precision, process.device_name(device)
    # Return freed memory to the system, because the worker processes need this memory.
    del encoder, timer
    gc.collect()
    torch.cuda.empty_cache()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return MeasuredPace(name if is_gpu else f"one core of {name}", pace, precision)


def fit_pace(seconds: Mapping[int, float], layers: int, teraflops: float) -> Pace:
    """Fit ``layers * per_layer / 1000 + batch_size * teraflops * per_teraflop`` to times of steps.

    ``seconds`` maps one or two batch sizes to times; with one, ``per_layer`` is 0. Neither
    coefficient is negative (nonnegative least squares). ``teraflops`` is the number of operations
    in the forward pass of one text, in units of 10¹².
    """
    per_batch = layers / 1e3 if len(seconds) > 1 else 0
    sizes = [[per_batch, batch_size * teraflops] for batch_size in seconds]
    fitted, _ = nnls(np.array(sizes), np.array([*seconds.values()]))
    per_layer, per_teraflop = (float(f"{coefficient:.3g}") for coefficient in fitted)
    return Pace(per_layer=per_layer, per_teraflop=per_teraflop)


@dataclass
class Timer:
    """Measures forward passes and training steps of one model in one precision until ``deadline``.

    One measurement may take ``share`` seconds, but a single step may take longer. ``seconds`` maps
    each kind of step and batch size to the median seconds of a step.
    """

    encoder: Encoder
    task: Task
    examples: Examples
    deadline: float
    share: float
    precision: Precision = "fp32"
    seconds: dict[Trains, dict[int, float]] = field(default_factory=dict)

    @cached_property
    def forward(self) -> float:
        """The seconds per text of an evaluation on as many texts as ``share`` allows."""
        # The first pass is not timed, because it also allocates memory.
        self._time_forward(1)
        texts = int(np.clip(self.share / self._time_forward(1), 1, len(self.examples)))
        return self._time_forward(texts) / texts

    def _time_forward(self, texts: int) -> float:
        """Time the forward passes over the first ``texts`` texts, in seconds."""
        some, started = self.examples.select(np.arange(texts)), time.monotonic()
        compute_split_logits(self.encoder, some, self.precision)
        return time.monotonic() - started

    def time_step(self, kind: Trains, method: str, batch_size: int) -> float:
        """Add the median seconds of a step to ``seconds``, if time and memory suffice.

        The added number is returned, or infinity if none is added.
        """
        expected = FORWARD_PASSES[kind] * batch_size * self.forward
        if time.monotonic() + 2 * expected > self.deadline:
            return math.inf
        # On a GPU, the last of four epochs is timed: the first epochs also capture CUDA graphs.
        epochs = 1 if self.encoder.device.type == "cpu" else 4
        recipe = Recipe(
            learning_rate=1e-5,
            batch_size=batch_size,
            epochs=epochs,
            schedule="constant",
            warmup=0,
            weight_decay=0,
            max_grad_norm=1,
            precision=self.precision,
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
            return math.inf
        median = float(np.median(np.diff(clock.times)[-steps:]))
        self.seconds.setdefault(kind, {})[batch_size] = median
        return median


class _StepTimer(CheckpointStore):
    """Times at most ``steps`` steps within ``share`` seconds, and writes no checkpoints."""

    def __init__(self, steps: int, share: float):
        self.steps, self.share = steps, share
        self.times: list[float] = []

    def read_newest(self) -> None:
        """Return None: training starts without a checkpoint."""

    def write_if_due(self, take: object) -> None:
        """Record the end of a step. If enough steps are timed, raise a `StoppedError`.

        The first step is not timed, because it also allocates memory. Timing starts at its end.
        """
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.monotonic())
        is_late = len(self.times) > 1 and self.times[-1] > self.times[0] + self.share
        if is_late or len(self.times) == self.steps:
            raise StoppedError("enough steps are timed")


def _time_kinds(fp32: Timer, kinds: Mapping[Trains, str], tries_bf16: bool) -> Timer:
    """Time each kind of training step, in bf16 if this makes the first kind faster.

    ``kinds`` maps each kind of step to the method to time. bf16 is not chosen if a method fails in
    bf16.
    """
    first = next(iter(kinds))
    others = [(kind, FEW) for kind in kinds if kind != first] + [(kind, MANY) for kind in kinds]
    in_fp32 = fp32.time_step(first, kinds[first], FEW)
    with suppress(Exception):  # the code of a model may fail in bf16
        bf16 = replace(fp32, precision="bf16", seconds={})
        # A processor without support for bf16 emulates it, and a step takes many seconds.
        if tries_bf16 and bf16.forward <= MOST_TIMES * fp32.forward:
            in_bf16 = bf16.time_step(first, kinds[first], FEW)
            if in_bf16 < (1 - GAIN) * in_fp32 < math.inf:
                for kind, batch_size in others:
                    bf16.time_step(kind, kinds[kind], batch_size)
                return bf16
    for kind, batch_size in others:
        # A method that fails will be left out, with a message, when its training fails.
        with suppress(Exception):
            fp32.time_step(kind, kinds[kind], batch_size)
    return fp32
