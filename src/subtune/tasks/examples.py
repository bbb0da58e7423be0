"""Examples of one split, as a model reads them, their batches, and folds of training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from subtune.core.errors import one_line

if TYPE_CHECKING:
    import datasets

    from subtune.runs.spec import Fold
    from subtune.tasks import TaskSpec

# The tokens whose last hidden states the head reads. "marked": those at the positions in the column
# `reads`.
Reads = Literal["first", "last", "marked", "all"]
# The label of a token that fills up a batch, and counts in no loss.
IGNORED = -100
# The column with each row's group, if a task has groups.
GROUP = "group"
# The approximate number of tokens of a batch in evaluation. On a GPU, small batches mostly wait for
# kernels to start.
EVALUATION_TOKENS = 2048
GPU_EVALUATION_TOKENS = 16384
# The largest product of a batch's tokens and the runs in a pass. More would take much memory.
GPU_EVALUATION_TOKENS_OF_RUNS = 65536
# The tokens in a training pass that keep a CPU busy. More tokens take memory and save little time.
CPU_TRAINING_TOKENS = 3000


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
            name: _read_lists(arrow[name][:])
            for name in ("input_ids", "token_type_ids")
            if name in split.column_names
        }
        self.reads: Sequence[np.ndarray] | None = None
        if reads == "marked":
            self.reads = _read_lists(arrow["reads"][:])
        elif reads == "last":
            self.reads = [*(self.lengths - 1)[:, None]]
        elif reads == "all":
            # Views of one array.
            positions = np.arange(self.lengths.max(initial=0))
            self.reads = [positions[:length] for length in self.lengths]
        marked = reads == "marked"
        self.labels = _read_lists(arrow["label"][:]) if marked else np.asarray(numpy["label"][:])
        has_rows = "row" in split.column_names
        self.row = np.asarray(numpy["row"][:]) if has_rows else np.arange(len(split))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each example."""
        return np.array([len(ids) for ids in self.inputs["input_ids"]], dtype=np.int64)

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
    def row_groups(self) -> np.ndarray | None:
        """The group of each row, or None if the task has no groups."""
        if GROUP not in self._split.column_names:
            return None
        return np.array(self.column(GROUP))[np.searchsorted(self.row, self.row_numbers)]

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


def _read_lists(column: Any) -> list[np.ndarray]:
    """Return the lists of numbers in an Arrow column, which are views of one array."""
    lists = column.combine_chunks()
    numbers = lists.flatten().to_numpy().astype(np.int64)
    # Behind the last list nothing is left.
    return np.split(numbers, lists.value_lengths().to_numpy().cumsum())[:-1]


def shuffled_batches(n: int, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Return one epoch's batches, in random order. The last one may be smaller."""
    order = generator.permutation(n)
    return [order[start : start + batch_size] for start in range(0, n, batch_size)]


def sort_by_length(index: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return a batch's examples sorted by length. Their order affects only the padding."""
    return index[np.argsort(lengths[index], kind="stable")]


def evaluation_batches(
    lengths: np.ndarray, tokens: int = EVALUATION_TOKENS
) -> Iterator[np.ndarray]:
    """Yield batches for evaluation, sorted by length, of about ``tokens`` tokens each."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and lengths[order[end]] * (end + 1 - start) <= tokens:
            end += 1
        yield order[start:end]
        start = end


def split_fold(train: Examples, task: TaskSpec, fold: Fold) -> tuple[Examples, Examples]:
    """Return the training examples outside a fold, and the fold's examples, which are scored."""
    judging = fold_rows(train, task, fold.of, fold.partition)[fold.number]
    others = np.setdiff1d(np.arange(len(train.row_numbers)), judging)
    if fold.rows is not None:
        judging = np.sort(np.random.default_rng(fold.partition).permutation(judging)[: fold.rows])
    return train.select(train.indices_of_rows(others)), train.select(train.indices_of_rows(judging))


# Dividing many rows takes a minute, and the runs of a job ask for every fold.
@lru_cache(maxsize=4)
def fold_rows(train: Examples, task: TaskSpec, folds: int, partition: int) -> list[np.ndarray]:
    """Return the indices of each fold's rows in the training split, in ascending order.

    Rows with the same token ids are in the same fold or, if the task has groups, rows of the same
    group. Every fold has about the same share of each label, or of small, medium and large numbers.
    """
    # Importing these takes a second.
    import pandas as pd
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    settings = {"n_splits": folds, "shuffle": True, "random_state": partition}
    ids = pd.Series([ids.tobytes() for ids in train.inputs["input_ids"]])
    # The number of each row's text, or of its group.
    sets = ids.groupby(train.row).agg(tuple) if train.row_groups is None else train.row_groups
    texts = pd.Series(sets).factorize()[0]
    if task.of_kind.head != "sequence_classification":
        parts = GroupKFold(**settings).split(texts, groups=texts)
    else:
        labels = task.of_kind.strata(train.row_labels)
        if task.of_kind.has_numbers:
            # At most 10 bins, each with a row for each fold.
            bins = min(10, len(labels) // folds)
            labels = labels.argsort(kind="stable").argsort() * bins // len(labels)
        parts = StratifiedGroupKFold(**settings).split(texts, labels, texts)
    # Texts that differ only in unknown tokens have the same token ids.
    with one_line(
        f"task {task.name!r}: found too few texts with different tokens for {folds} folds"
    ):
        return [judging for _, judging in parts]
