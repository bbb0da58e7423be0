"""Examples of one split, as a model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import datasets

# The tokens whose last hidden states the head reads. "marked": those at the positions in the column
# `reads`.
Reads = Literal["first", "last", "marked", "all"]
# The label of a token that fills up a batch, and counts in no loss.
IGNORED = -100


class Lists(Sequence[np.ndarray]):
    """The lists of numbers in an Arrow column, kept in one array.

    Attributes:
        lengths: the length of each list.
    """

    def __init__(self, column: Any):
        lists = column.combine_chunks()
        self._numbers = lists.flatten().to_numpy()
        self.lengths = lists.value_lengths().to_numpy().astype(np.int64)
        self._ends = self.lengths.cumsum()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: Any) -> Any:
        end = self._ends[number]
        return self._numbers[end - self.lengths[number] : end].astype(np.int64)


class Examples:
    """The examples of one split, in memory. Examples of one row are neighbours.

    Attributes:
        inputs: ``input_ids`` and, for models that distinguish two texts, ``token_type_ids``.
        reads: the positions of the tokens of each example that the head reads; None means the
            first token.
        labels: numbers ``[n]``, positions ``[n, 2]``, or one number per token that is read.
        row: the number of each example's row ``[n]``; `select` does not change it.
    """

    def __init__(self, split: datasets.Dataset, reads: Reads = "first"):
        self._split, self._reads = split.with_format(None), reads
        arrow, numpy = (split.with_format(name) for name in ("arrow", "numpy"))
        self.inputs = {
            name: Lists(arrow[name][:])
            for name in ("input_ids", "token_type_ids")
            if name in split.column_names
        }
        self.reads: Sequence[np.ndarray] | None = None
        if reads == "marked":
            self.reads = Lists(arrow["reads"][:])
        elif reads == "last":
            self.reads = [*(self.lengths - 1)[:, None]]
        elif reads == "all":
            # Views of one array.
            positions = np.arange(self.lengths.max(initial=0))
            self.reads = [positions[:length] for length in self.lengths]
        marked = reads == "marked"
        self.labels = [*Lists(arrow["label"][:])] if marked else np.asarray(numpy["label"][:])
        has_rows = "row" in split.column_names
        self.row = np.asarray(numpy["row"][:]) if has_rows else np.arange(len(split))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each example."""
        return self.inputs["input_ids"].lengths

    @property
    def share_read(self) -> float | None:
        """The share of the texts' tokens that are in the examples, or None if it is not known."""
        if "whole_length" not in self._split.column_names:
            return None
        return float(self.lengths.sum() / sum(self.column("whole_length")))

    @cached_property
    def read_counts(self) -> np.ndarray:
        """The number of tokens that the head reads, for each example."""
        if self.reads is None:
            return np.ones(len(self), dtype=np.int64)
        return np.array([len(positions) for positions in self.reads])

    @cached_property
    def row_numbers(self) -> np.ndarray:
        """The number of each row, in ascending order."""
        return np.unique(self.row)

    @property
    def n_rows(self) -> int:
        return len(self.row_numbers)

    @property
    def row_labels(self) -> np.ndarray:
        """The label of each row, which all its examples have."""
        return np.asarray(self.labels)[np.searchsorted(self.row, self.row_numbers)]

    def select(self, index: np.ndarray) -> Examples:
        """Return some examples. ``index`` must be ascending. Rows keep their numbers."""
        part = Examples(self._split.select(index), self._reads)
        part.row = self.row[index]
        return part

    def indices_of_rows(self, places: np.ndarray) -> np.ndarray:
        """Return the indices of all examples of some rows, in the rows' order.

        ``places`` are indices into `row_numbers`.
        """
        rows = self.row_numbers[places]
        first, behind = (np.searchsorted(self.row, rows, side) for side in ("left", "right"))
        counts = behind - first
        starts = (first - counts.cumsum() + counts).repeat(counts)
        return starts + np.arange(counts.sum())

    def labels_at(self, index: np.ndarray) -> np.ndarray:
        """Return the labels of some examples: one per example, or one per word."""
        if isinstance(self.labels, list):
            return np.concatenate([self.labels[number] for number in index]).astype(np.int64)
        return self.labels[index]

    def column(self, name: str) -> list:
        """Return another column of the split."""
        return self._split[name][:]
