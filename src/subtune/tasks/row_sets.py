"""Sets of rows that stay together, and the division of a training set into folds.

Two rows are in the same set if their texts or their groups are equal, apart from capitals, spaces
and the Unicode form of letters, or if both are in a set with a third row. Sets are a property of
the data, so all methods, models and tokenizers have the same folds.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from subtune.core.errors import convert_errors

if TYPE_CHECKING:
    from subtune.tasks import TaskSpec

# The column of a split with the set of each row: the index of the first row of the set.
SET = "set"


def _normalise(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def find_sets(texts: Iterable[Sequence[str]], groups: Iterable[str | None]) -> list[int]:
    """Return the index of the first row in each row's set, given the rows' texts and groups."""
    parents: list[int] = []
    first_rows: dict[Hashable, int] = {}

    def find_first(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    for row, (parts, group) in enumerate(zip(texts, groups, strict=True)):
        parents.append(row)
        for key in (tuple(map(_normalise, parts)), *filter(None, [_normalise(group or "")])):
            one, other = find_first(first_rows.setdefault(key, row)), find_first(row)
            parents[max(one, other)] = min(one, other)
    return [*map(find_first, range(len(parents)))]


def divide_rows(
    task: TaskSpec, sets: np.ndarray, labels: np.ndarray, folds: int, partition: int
) -> list[np.ndarray]:
    """Divide the rows of a training set into folds, and return their indices in ascending order.

    Folds are stratified by label or, in regression, by quantile bins of the labels. For token
    classification and question answering, folds are not stratified, and ``labels`` is unused. All
    rows of a set (`find_sets`) are in the same fold. ``partition`` is the seed.
    """
    # Importing this module takes a second.
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    settings = {"n_splits": folds, "shuffle": True, "random_state": partition}
    if task.of_kind.head != "sequence_classification":
        parts = GroupKFold(**settings).split(sets, groups=sets)
    else:
        # At most 10 quantile bins, with at least one row per fold in each bin.
        strata = task.of_kind.strata(labels, min(10, len(labels) // folds))
        parts = StratifiedGroupKFold(**settings).split(sets, strata, sets)
    # Plans check this number, except for tasks that are read after planning.
    with convert_errors(f"task {task.name!r}: found too few different texts for {folds} folds"):
        return [scored for _, scored in parts]
