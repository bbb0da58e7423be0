"""Batches of token ids, split so that short rows are not padded to the longest one's length.

Shapes: ``n`` examples, ``t`` tokens.
"""

from collections.abc import Iterator

import datasets
import numpy as np
import torch
from torch import Tensor

# What one more forward and backward pass costs, in padded tokens that would cost the same.
PASS_OVERHEAD = 100
EVALUATION_TOKENS = 2048


class Rows:
    """One split in memory: its token ids, segment ids and labels."""

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

    def batch(self, index: np.ndarray, device: torch.device) -> dict[str, Tensor]:
        """Model inputs of the rows in ``index``, each ``[n, t]``, padded on the right."""
        longest = self.lengths[index].max()
        padded = {
            name: np.zeros((len(index), longest), dtype=np.int64)
            for name in (*self.inputs, "attention_mask")
        }
        for row, example in enumerate(index):
            for name, values in self.inputs.items():
                padded[name][row, : self.lengths[example]] = values[example]
            padded["attention_mask"][row, : self.lengths[example]] = 1
        return {name: torch.from_numpy(values).to(device) for name, values in padded.items()}


def shuffled(n: int, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """One epoch's batches: every example once, in random order; the last batch may be smaller."""
    order = generator.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def split_by_length(
    index: np.ndarray, lengths: np.ndarray, overhead: int = PASS_OVERHEAD
) -> list[np.ndarray]:
    """Split a batch into passes of similar length, where the padding saved is worth the pass.

    Gradients add up over passes, so the split changes the time a step takes and not its result.
    It is the cheapest split of the length-sorted batch, by dynamic programming.
    """
    order = index[np.argsort(lengths[index], kind="stable")]
    sizes = lengths[order]
    best = [0.0]
    cut = [0]
    for end in range(1, len(order) + 1):
        costs = [
            best[start] + (end - start) * int(sizes[end - 1]) + overhead for start in range(end)
        ]
        cut.append(int(np.argmin(costs)))
        best.append(costs[cut[-1]])
    passes = []
    end = len(order)
    while end:
        passes.append(order[cut[end] : end])
        end = cut[end]
    return passes


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
