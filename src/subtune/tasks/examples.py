"""Tokenized examples of a split, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import datasets

# The columns of a split with the place of each row in its file, such as ``line 3``, and with the
# set of each row (see `subtune.data.subsets.find_sets`).
PLACE, SET = "place", "set"
# The tokens whose last hidden states are the input of the head. "marked" means the tokens at the
# positions in the column `reads`.
Reads = Literal["first", "last", "marked", "all"]
# The label of padding, which the loss ignores.
IGNORED = -100
# The approximate number of tokens in an evaluation batch. On a GPU, batches are larger, because
# kernel launches take most of the time of a small batch.
EVALUATION_TOKENS = 2048
GPU_EVALUATION_TOKENS = 16384
# The maximum of ``tokens * runs`` in an evaluation pass on a GPU, which limits memory use.
GPU_EVALUATION_TOKENS_OF_RUNS = 65536
# With this number of tokens, a training pass fully uses a CPU. More tokens need more memory, but
# save little time.
CPU_TRAINING_TOKENS = 3000


class Examples:
    """The tokenized examples of one split, in memory. The examples of a row are adjacent.

    Attributes:
        inputs: the ``input_ids`` of each example and, for models that distinguish the two texts of
            a pair, its ``token_type_ids``.
        reads: for each example, the positions of the tokens that the head reads; None means the
            first token.
        labels: depending on the kind of task, one number per example ``[n]``, 0 or 1 for each label
            word ``[n, o]``, start and end positions ``[n, 2]``, or for each example an array with
            one number per token that the head reads.
        row: the index of each example's row ``[n]``. `select` keeps these indices.
    """

    def __init__(self, split: datasets.Dataset, reads: Reads = "first"):
        self._split, self._reads = split.with_format(None), reads
        arrow, numpy = (split.with_format(name) for name in ("arrow", "numpy"))
        self.inputs = {
            name: _convert_lists(arrow[name][:])
            for name in ("input_ids", "token_type_ids")
            if name in split.column_names
        }
        self.reads: Sequence[np.ndarray] | None = None
        if reads == "marked":
            self.reads = _convert_lists(arrow["reads"][:])
        elif reads == "last":
            self.reads = [*(self.lengths - 1)[:, None]]
        elif reads == "all":
            # The positions of all examples are views of one array.
            positions = np.arange(self.lengths.max(initial=0))
            self.reads = [positions[:length] for length in self.lengths]
        marked = reads == "marked"
        self.labels = _convert_lists(arrow["label"][:]) if marked else np.asarray(numpy["label"][:])
        has_rows = "row" in split.column_names
        self.row = np.asarray(numpy["row"][:]) if has_rows else np.arange(len(split))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.inputs["input_ids"]], dtype=np.int64)

    @property
    def share_read(self) -> float | None:
        """The share of all tokens that truncation keeps; None if this share is unknown."""
        if "whole_length" not in self._split.column_names:
            return None
        return float(self.lengths.sum() / sum(self.column("whole_length")))

    @cached_property
    def read_counts(self) -> np.ndarray:
        """For each example, the number of tokens that the head reads."""
        if self.reads is None:
            return np.ones(len(self), dtype=np.int64)
        return np.array([len(positions) for positions in self.reads])

    @cached_property
    def row_indices(self) -> np.ndarray:
        """The indices of all rows, in ascending order."""
        return np.unique(self.row)

    @property
    def row_sets(self) -> np.ndarray:
        """The set of each row, from `subtune.data.subsets.find_sets`."""
        return np.array(self.column(SET))[np.searchsorted(self.row, self.row_indices)]

    @property
    def row_labels(self) -> np.ndarray:
        """The label of each row. All examples of a row have the same label."""
        return np.asarray(self.labels)[np.searchsorted(self.row, self.row_indices)]

    def select(self, index: np.ndarray) -> Examples:
        """Select examples by ascending indices. The indices of their rows do not change."""
        part = Examples(self._split.select(index), self._reads)
        part.row = self.row[index]
        return part

    def indices_of_rows(self, places: np.ndarray) -> np.ndarray:
        """Return the indices of all examples of the rows ``row_indices[places]``, in row order."""
        rows = self.row_indices[places]
        first, behind = (np.searchsorted(self.row, rows, side) for side in ("left", "right"))
        counts = behind - first
        starts = (first - counts.cumsum() + counts).repeat(counts)
        return starts + np.arange(counts.sum())

    def select_labels(self, index: np.ndarray) -> np.ndarray:
        """Return the labels of the examples at ``index``; labels of words are concatenated."""
        if isinstance(self.labels, list):
            return np.concatenate([self.labels[number] for number in index]).astype(np.int64)
        return self.labels[index]

    def column(self, name: str) -> list:
        return self._split[name][:]


def _convert_lists(column: Any) -> list[np.ndarray]:
    """Convert an Arrow column of lists to arrays, which are views of one array."""
    lists = column.combine_chunks()
    numbers = lists.flatten().to_numpy().astype(np.int64)
    # The last array of `np.split` is empty.
    return np.split(numbers, lists.value_lengths().to_numpy().cumsum())[:-1]


def shuffled_batches(n: int, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Split the indices of ``n`` examples into shuffled batches. The last batch may be smaller."""
    order = generator.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def sort_by_length(index: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sort a batch by length, so that parts of the batch need less padding."""
    return index[np.argsort(lengths[index], kind="stable")]


def evaluation_batches(
    lengths: np.ndarray, tokens: int = EVALUATION_TOKENS
) -> Iterator[np.ndarray]:
    """Yield the indices of batches of similar lengths, with at most ``tokens`` padded tokens."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and lengths[order[end]] * (end + 1 - start) <= tokens:
            end += 1
        yield order[start:end]
        start = end
