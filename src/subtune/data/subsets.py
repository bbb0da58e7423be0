"""Subsets of a task's rows: sets of rows that stay together, folds, dev sets and samples.

Two rows are in the same set if their texts or their groups are equal, apart from capitals, spaces
and the Unicode form of letters, or if both are in a set with a third row. Sets are a property of
the data, so all methods, models and tokenizers have the same folds.
"""

import json
import unicodedata
import warnings
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from subtune.core.errors import SubtuneError, convert_errors
from subtune.core.files import write_text
from subtune.runs.spec import Fold
from subtune.tasks import TaskSpec
from subtune.tasks.examples import SET, Examples
from subtune.tasks.task_kind import Columns

# The file in a sample's directory that describes the table from which the sample was drawn.
WHOLE = "drawn_from.json"


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
    few = f"task {task.name!r}: found too few different texts for {folds} folds"
    # scikit-learn warns of labels that are rarer than folds.
    with convert_errors(few), warnings.catch_warnings(action="ignore"):
        return [scored for _, scored in parts]


def split_off_fold(train: Examples, task: TaskSpec, fold: Fold) -> tuple[Examples, Examples]:
    """Split the training set into the examples outside a fold and the examples of the fold."""
    others = train.select(find_others(train, task, fold))
    scored = fold_rows(train, task, fold.of, fold.partition)[fold.number]
    if fold.rows is not None and task.scorers:
        # Some scorers are undefined if a label is missing.
        scored = draw_rows(task, {"label": train.row_labels.tolist()}, fold.rows, scored)
    elif fold.rows is not None:
        scored = np.sort(np.random.default_rng(fold.partition).permutation(scored)[: fold.rows])
    return others, train.select(train.indices_of_rows(scored))


def find_others(train: Examples, task: TaskSpec, fold: Fold) -> np.ndarray:
    """Return the indices of the training examples outside a fold."""
    scored = fold_rows(train, task, fold.of, fold.partition)[fold.number]
    return train.indices_of_rows(np.setdiff1d(np.arange(len(train.row_indices)), scored))


# Without this cache, each run of a job would split the training set, which can take a minute.
@lru_cache(maxsize=4)
def fold_rows(train: Examples, task: TaskSpec, folds: int, partition: int) -> list[np.ndarray]:
    """Divide the rows of the training set into folds, as `divide_rows` does."""
    labels = train.row_labels if isinstance(train.labels, np.ndarray) else train.row_indices
    return divide_rows(task, train.row_sets, labels, folds, partition)


def draw_rows(task: TaskSpec, columns: Columns, number: int, among: np.ndarray) -> np.ndarray:
    """Draw ``number`` rows with indices in ``among``, stratified by label or by quantile bin.

    Rows with equal texts or the same group need not be drawn together, because the remaining rows
    are not used. Each label keeps at least one row. The drawn indices are in ascending order.
    """
    if number >= len(among):
        return among
    # Importing pandas is slow, and planning does not need it.
    import pandas as pd

    rows = pd.DataFrame({"stratum": task.of_kind.strata(np.array(columns["label"]))}).loc[among]
    by_stratum = rows.sample(frac=1, random_state=0).groupby("stratum")["stratum"]
    wanted = by_stratum.transform("size") * number / len(among)
    return np.sort(wanted.index[by_stratum.cumcount() < wanted.round().clip(lower=1)])


def draw_dev_set(task: TaskSpec, columns: Columns, share: float) -> dict[str, np.ndarray]:
    """Split a training set into a training and a dev set, and return the indices of their rows.

    The dev set receives ``share`` of the rows, stratified like the sample of `draw_rows`. Rows with
    equal texts or the same group stay together (`find_sets`), so the size of the dev set can differ
    from ``share``.
    """
    import pandas as pd

    strata = task.of_kind.strata(np.array(columns["label"]))
    rows = pd.DataFrame({"set": columns[SET], "stratum": strata})
    counts = rows.value_counts("stratum", sort=False)
    exact = counts * share
    missing = np.floor(exact)
    # The strata with the largest remainders get one more row. Each keeps at least one training row.
    added = max(1, round(share * len(rows))) - int(missing.sum())
    missing[(exact - missing).sort_values(ascending=False, kind="stable").index[:added]] += 1
    # The number of rows of each set in each stratum.
    contents = pd.crosstab(rows["set"], rows["stratum"])
    if len(contents) < 2:
        raise SubtuneError("all rows have the same text or group, so no dev set can be drawn")
    in_stratum = contents.to_numpy()
    wanted = missing.clip(upper=counts - 1)[contents.columns].to_numpy()
    room = wanted.sum()

    def distance_saved(number: int) -> int:
        """Return how much drawing a set decreases the squared distance to the wanted numbers."""
        return (in_stratum[number] * (2 * wanted - in_stratum[number])).sum()

    drawn, left = list[int](), list[int]()
    for number in np.random.default_rng(0).permutation(len(contents)).tolist():
        fits = in_stratum[number].sum() <= room and distance_saved(number) > 0
        (drawn if fits else left).append(number)
        if fits:
            room -= in_stratum[number].sum()
            wanted = wanted - in_stratum[number]
    # The last set may exceed the wanted size, if the dev set then comes closer to it.
    nearest = max(left, key=distance_saved)
    if not drawn or (distance_saved(nearest) > 0 and len(left) > 1):
        drawn.append(nearest)
    is_dev = rows["set"].isin(contents.index[drawn]).to_numpy()
    return {"train": np.flatnonzero(~is_dev), "validation": np.flatnonzero(is_dev)}


class WholeTable(NamedTuple):
    """The table from which a sample was drawn.

    Attributes:
        version: the hash of the file when the sample was drawn.
        rows: the number of labelled rows that can be used for training.
    """

    path: str
    version: str
    rows: int
    encoding: str | None
    sheet: str | None


def write_table_description(folder: Path, whole: WholeTable) -> None:
    """Write a description of the table from which a sample was drawn."""
    write_text(folder / WHOLE, f"{json.dumps(whole._asdict())}\n")


def read_table_description(folder: Path) -> WholeTable | None:
    """Read the description of the table from which the sample in a directory was drawn, if any."""
    path = folder / WHOLE
    return WholeTable(**json.loads(path.read_text("utf-8"))) if path.is_file() else None
