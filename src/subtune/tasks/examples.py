"""What a model reads of one split."""

from functools import cached_property
from typing import Literal

import datasets
import numpy as np

# The tokens whose last hidden states the head reads: each example's first, those that the column
# `reads` names, or all.
Reads = Literal["first", "marked", "all"]


class Examples:
    """One split in memory: what a model reads of it, an example at a time.

    A row that is longer than a model reads makes several examples, which are neighbours.

    ``inputs``: ``input_ids`` and, where the model tells two texts apart, ``token_type_ids``, of
    every example. ``reads``: positions within each example of the tokens that the head reads, or
    None where it reads the first alone. ``labels``: of every example, as its kind of task has them:
    ``[n]`` numbers, ``[n, 2]`` positions, or one number per token that is read. ``row`` ``[n]``:
    the number of each example's row. ``columns``: the other columns, by which predictions are
    judged.
    """

    def __init__(self, split: datasets.Dataset, reads: Reads = "first"):
        columns = split.with_format("numpy")[:]

        def lists(name: str) -> list[np.ndarray]:
            return [np.asarray(values) for values in columns[name]]

        self.inputs = {
            name: lists(name)
            for name in ("input_ids", "token_type_ids")
            if name in split.column_names
        }
        self.reads: list[np.ndarray] | None = None
        if reads == "marked":
            self.reads = lists("reads")
        elif reads == "all":
            self.reads = [np.arange(length) for length in self.lengths]
        self.labels = lists("label") if reads == "marked" else np.asarray(columns["label"])
        self.row = np.asarray(columns["idx"])

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each example."""
        return np.array([len(example) for example in self.inputs["input_ids"]])
