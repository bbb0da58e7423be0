"""Batches of a split's examples, and sizes that training and its cost estimate share."""

from collections.abc import Iterator

import numpy as np

# A pass of so many tokens keeps a CPU busy; more tokens take memory and save little time.
CPU_TOKENS = 3000
# Tokens of a batch in evaluation, about.
EVALUATION_TOKENS = 2048
# Checkpoints of a group of runs that stay: the newest, and the one before it.
CHECKPOINTS_KEPT = 2


def shuffled(n: int, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """One epoch's batches: every example once, in random order; the last batch may be smaller."""
    order = generator.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def by_length(index: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The same examples, shorter ones first: a batch's order decides nothing but its grids."""
    return index[np.argsort(lengths[index], kind="stable")]


def in_length_order(lengths: np.ndarray, tokens: int = EVALUATION_TOKENS) -> Iterator[np.ndarray]:
    """Batches for evaluation: every example once, sorted by length, about ``tokens`` at a time."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and lengths[order[end]] * (end + 1 - start) <= tokens:
            end += 1
        yield order[start:end]
        start = end
