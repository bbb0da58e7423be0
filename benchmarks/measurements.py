"""Tools of the benchmarks: step timers, FLOP counts, speed of matrix products, JSON lines."""

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import inputs
from benchmarks.inputs import synchronise
from subtune.tasks.examples import Examples
from subtune.training import recipe
from subtune.training.recipe import Run, train

LARGEST_SIZE = {"cpu": 2048, "cuda": 8192}
SMALLEST_SIZE = 256
# A product that takes this long is large enough for a measurement. The limit matters for bfloat16,
# which is very slow on CPUs without instructions for it.
ENOUGH_SECONDS = 0.05
REPEATS = 10
COUNTED_EXAMPLES = 16


@contextmanager
def observe_steps(before: Callable[[int], None], after: Callable[[int], None]) -> Iterator[None]:
    """Call ``before(number)`` and ``after(number)`` around each training step, from number 0."""
    numbers = itertools.count()
    take = recipe._Group.train_batch

    def train_batch(group: recipe._Group, batch: np.ndarray) -> None:
        number = next(numbers)
        before(number)
        take(group, batch)
        after(number)

    with patch.object(recipe._Group, "train_batch", train_batch):
        yield


@contextmanager
def time_epochs(steps_per_epoch: int) -> Iterator[list[float]]:
    """Yield a list to which the training seconds of each epoch are appended, without evaluation.

    A GPU is synchronised only at the beginning and the end of an epoch, so steps still overlap.
    """
    epochs: list[float] = []
    started = 0.0

    def before(number: int) -> None:
        nonlocal started
        if number % steps_per_epoch == 0:
            synchronise()
            started = time.perf_counter()

    def after(number: int) -> None:
        if (number + 1) % steps_per_epoch == 0:
            synchronise()
            epochs.append(time.perf_counter() - started)

    with observe_steps(before, after):
        yield epochs


def measure_products() -> Iterator[dict[str, Any]]:
    """Measure the FLOP/s of a large matrix product in each precision; yield the best repeats."""
    for precision, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items():
        # Warm up: the first product on a GPU also loads the library.
        _time_product(SMALLEST_SIZE, dtype)
        size = SMALLEST_SIZE
        while _time_product(size, dtype) < ENOUGH_SECONDS and size < LARGEST_SIZE[inputs.device()]:
            size *= 2
        seconds = min(_time_product(size, dtype) for _ in range(REPEATS))
        yield {"precision": precision, "flops_per_second": 2 * size**3 / seconds}


def _time_product(size: int, dtype: torch.dtype) -> float:
    a, b = (torch.randn(size, size, device=inputs.device(), dtype=dtype) for _ in range(2))
    synchronise()
    started = time.perf_counter()
    a @ b
    synchronise()
    return time.perf_counter() - started


def flops_per_token(setting: inputs.Setting, member: Run) -> float:
    """Count the FLOPs of matrix products per training token of a run.

    The count runs on the CPU, because FLOPs are not counted when a CUDA graph is replayed.
    """
    few = {
        split: Examples(setting.tokens[split].select(range(1))) for split in setting.task.evaluation
    }
    few["train"] = Examples(
        setting.tokens["train"].select(range(min(COUNTED_EXAMPLES, len(setting.tokens["train"]))))
    )
    with FlopCounterMode(display=False) as counter:
        train(setting.model.to("cpu"), few, setting.task, [member])
    tokens = few["train"].lengths.sum() * member.recipe.epochs
    return counter.get_total_flops() / int(tokens)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write each row to a JSON Lines file as soon as it is measured, and print it.

    Floats are rounded to five significant digits.
    """
    with path.open("w") as file:
        for row in rows:
            line = json.dumps({name: _round_float(value) for name, value in row.items()})
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()


def _round_float(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
