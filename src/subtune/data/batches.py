"""Batches of a split's examples, and folds of the training rows."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from subtune.core.errors import one_line
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs.spec import Fold
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples

# The approximate number of tokens of a batch in evaluation. On a GPU, small batches mostly wait for
# kernels to start.
EVALUATION_TOKENS = 2048
GPU_EVALUATION_TOKENS = 16384
# The largest product of a batch's tokens and the runs in a pass. More would take much memory.
GPU_EVALUATION_TOKENS_OF_RUNS = 65536
# The tokens in a training pass that keep a CPU busy. More tokens take memory and save little time.
CPU_TRAINING_TOKENS = 3000
# The largest number of label bins by which folds of a regression are stratified.
BINS = 10


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
    others = np.setdiff1d(np.arange(train.n_rows), judging)
    if fold.rows is not None:
        judging = np.sort(np.random.default_rng(fold.partition).permutation(judging)[: fold.rows])
    return train.select(train.indices_of_rows(others)), train.select(train.indices_of_rows(judging))


# Dividing many rows takes a minute, and the runs of a job ask for every fold.
@lru_cache(maxsize=4)
def fold_rows(train: Examples, task: TaskSpec, folds: int, partition: int) -> list[np.ndarray]:
    """Return the indices of each fold's rows in the training split, in ascending order.

    Rows with the same token ids are in the same fold. Every fold has about the same share of each
    label, or of small, medium and large numbers.
    """
    # Importing scikit-learn takes a second.
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    settings = {"n_splits": folds, "shuffle": True, "random_state": partition}
    texts, places = _texts(train), np.arange(train.n_rows)
    if task.of_kind.head != SEQUENCE_CLASSIFICATION:
        parts = GroupKFold(**settings).split(places, groups=texts)
    else:
        labels = task.of_kind.strata(train.row_labels)
        if task.of_kind.has_numbers:
            # A bin needs a row for each fold.
            bins = min(BINS, len(labels) // folds)
            labels = labels.argsort(kind="stable").argsort() * bins // len(labels)
        parts = StratifiedGroupKFold(**settings).split(places, labels, texts)
    # Texts that differ only in unknown tokens have the same token ids.
    with one_line(
        f"task {task.name!r}: found too few texts with different tokens for {folds} folds"
    ):
        return [judging for _, judging in parts]


def _texts(train: Examples) -> np.ndarray:
    """Return a number for each row's text; equal texts have the same number."""
    import pandas as pd

    ids = pd.Series([ids.tobytes() for ids in train.inputs["input_ids"]])
    return ids.groupby(train.row).agg(tuple).factorize()[0]
