"""The steps of subtune's training, observed from outside."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from benchmarks.inputs import synchronise
from subtune.training import recipe


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
