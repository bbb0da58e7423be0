"""A split's token ids in memory, and which of its rows make up each batch."""

from collections.abc import Iterator

import datasets
import numpy as np

from subtune.limits import EVALUATION_TOKENS


class Rows:
    """One split in memory: its token ids, token types and labels."""

    def __init__(self, split: datasets.Dataset):
        columns = split.with_format("numpy")[:]
        self.inputs: dict[str, list[np.ndarray]] = {
            name: [np.asarray(row) for row in columns[name]]
            for name in ("input_ids", "token_type_ids")
            if name in split.column_names
        }
        self.labels = np.asarray(columns["label"])
        self.lengths = np.array([len(row) for row in self.inputs["input_ids"]])

    def __len__(self) -> int:
        return len(self.lengths)


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
