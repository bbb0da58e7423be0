"""What benchmarks measure with: steps observed from outside, matrix products, and lines of JSON."""

import itertools
import json
import time
from collections.abc import Callable, Iterator
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

LARGEST = {"cpu": 2048, "cuda": 8192}
SMALLEST = 256
# A product that takes so long is large enough: without instructions for it bfloat16 is very slow.
SECONDS = 0.05
FEW_ROWS = 16


@contextmanager
def observed(before: Callable[[int], None], after: Callable[[int], None]) -> Iterator[None]:
    """Call functions before and after each step, with its number, which counts from 0."""
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
def timed(of_epoch: int) -> Iterator[list[float]]:
    """Yield a list, and add the seconds of each epoch's steps to it, without evaluation.

    Waiting for a GPU only at the beginning and the end of an epoch leaves its steps undisturbed.

    Args:
        of_epoch: the number of steps in an epoch.
    """
    epochs: list[float] = []
    started = 0.0

    def before(number: int) -> None:
        nonlocal started
        if number % of_epoch == 0:
            synchronise()
            started = time.perf_counter()

    def after(number: int) -> None:
        if (number + 1) % of_epoch == 0:
            synchronise()
            epochs.append(time.perf_counter() - started)

    with observed(before, after):
        yield epochs


def measure_products(repeats: int = 10) -> dict[str, Any]:
    """Return the FLOP/s of a large product in each precision: the best of ``repeats``."""
    return {
        name: _product_flops(dtype, repeats)
        for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16}.items()
    }


def flops_per_token(setting: inputs.Setting, member: Run) -> float:
    """Return the products that a run needs per training token, without padding and evaluation.

    They are counted on the CPU, because they cannot be counted in a replay on a GPU.
    """
    few = {
        split: Examples(setting.tokens[split].select(range(1))) for split in setting.task.evaluation
    }
    few["train"] = Examples(
        setting.tokens["train"].select(range(min(FEW_ROWS, len(setting.tokens["train"]))))
    )
    with FlopCounterMode(display=False) as counter:
        train(setting.model.to("cpu"), few, setting.task, [member])
    tokens = few["train"].lengths.sum() * member.recipe.epochs
    return counter.get_total_flops() / int(tokens)


def _product_flops(dtype: torch.dtype, repeats: int) -> float:
    # A GPU loads its library for the first product.
    _seconds_of_product(SMALLEST, dtype)
    size = SMALLEST
    while _seconds_of_product(size, dtype) < SECONDS and size < LARGEST[inputs.device()]:
        size *= 2
    return 2 * size**3 / min(_seconds_of_product(size, dtype) for _ in range(repeats))


def _seconds_of_product(size: int, dtype: torch.dtype) -> float:
    a, b = (torch.randn(size, size, device=inputs.device(), dtype=dtype) for _ in range(2))
    inputs.synchronise()
    started = time.perf_counter()
    a @ b
    inputs.synchronise()
    return time.perf_counter() - started


class Lines:
    """A new file of JSON lines, which keeps the measurements of a benchmark that is interrupted."""

    def __init__(self, path: Path):
        self._path = path
        path.write_text("")

    def add(self, row: dict[str, Any]) -> None:
        """Print a row and append it to the file. Numbers keep five digits."""
        line = json.dumps({name: _short(value) for name, value in row.items()})
        print(line, flush=True)
        with self._path.open("a") as file:
            file.write(line + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file, in the order in which they were added."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
