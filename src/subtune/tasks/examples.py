"""What a model reads of one split."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import datasets
import numpy as np

# The tokens whose last hidden states the head reads: each example's first, those whose positions
# are in the column `reads`, or all.
Reads = Literal["first", "marked", "all"]
# The columns that training reads.
NUMBERS = ("input_ids", "token_type_ids", "label", "reads", "row")


class AllPositions(Sequence[np.ndarray]):
    """Of every example the positions of all its tokens, which are not held in memory."""

    def __init__(self, lengths: np.ndarray):
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, example: Any) -> Any:
        return np.arange(self._lengths[example])


class Examples:
    """One split in memory, an example at a time.

    A row that is longer than a model reads makes several examples, which are neighbours.

    ``inputs``: ``input_ids`` and, where the model tells two texts apart, ``token_type_ids``, of
    every example. ``reads``: positions within each example of the tokens that the head reads, or
    None where it reads the first alone. ``labels``: of every example, as its kind of task has them:
    ``[n]`` numbers, ``[n, 2]`` positions, or one number per token that is read. ``row`` ``[n]``:
    the number of each example's row.
    """

    def __init__(self, split: datasets.Dataset, reads: Reads = "first"):
        self._split = split.with_format(None)
        columns = split.select_columns(
            [name for name in split.column_names if name in NUMBERS]
        ).with_format("numpy")[:]

        def lists(name: str) -> list[np.ndarray]:
            return [np.asarray(values) for values in columns[name]]

        self.inputs = {
            name: lists(name) for name in ("input_ids", "token_type_ids") if name in columns
        }
        self.reads: Sequence[np.ndarray] | None = None
        if reads == "marked":
            self.reads = lists("reads")
        elif reads == "all":
            self.reads = AllPositions(self.lengths)
        self.labels = lists("label") if reads == "marked" else np.asarray(columns["label"])
        self.row = np.asarray(columns.get("row", np.arange(len(self))))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each example."""
        return np.array([len(example) for example in self.inputs["input_ids"]])

    @cached_property
    def read_counts(self) -> np.ndarray:
        """How many tokens of each example the head reads."""
        if self.reads is None:
            return np.ones(len(self), dtype=np.int64)
        return np.array([len(positions) for positions in self.reads])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.row[-1]) + 1

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the examples of some rows, in the rows' order."""
        first, behind = (np.searchsorted(self.row, rows, side) for side in ("left", "right"))
        counts = behind - first
        starts = (first - counts.cumsum() + counts).repeat(counts)
        return starts + np.arange(counts.sum())

    def units(self, index: np.ndarray) -> int:
        """How many losses some examples have: one each, or one for each of their words."""
        if isinstance(self.labels, list):
            return sum(len(self.labels[example]) for example in index)
        return len(index)

    def column(self, name: str) -> list:
        """What else is known of every example."""
        return self._split[name][:]
