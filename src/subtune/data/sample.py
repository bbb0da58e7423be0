"""Draw a dev set from a user's tables, or a sample that is small enough for a time limit."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.core.files import write_text
from subtune.tasks import TaskSpec
from subtune.tasks.examples import GROUP
from subtune.tasks.task_kind import Columns

# In regression tasks, the strata are this number of ranges of the label, each with about the same
# number of rows.
RANGES = 10
# In the directory of a sample, this file describes the table from which the sample was drawn.
WHOLE = "drawn_from.json"


def draw_rows(task: TaskSpec, columns: Columns, number: int, among: np.ndarray) -> np.ndarray:
    """Draw a random sample of rows, stratified by label or by range of labels.

    Rows with equal texts are drawn together. In tasks with groups, the rows of a group are drawn
    together instead. Therefore the number of drawn rows may differ from ``number``.

    Args:
        columns: the columns of a split (`subtune.data.sources.read_columns`).
        among: the indices of the rows from which the sample is drawn.

    Returns:
        The indices of the drawn rows, in ascending order.
    """
    if number >= len(among):
        return among
    texts = [" ".join(" ".join(row).casefold().split()) for row in task.of_kind.texts(columns)]
    labels = np.array(columns["label"])
    if task.of_kind.has_numbers:
        strata = labels.argsort(kind="stable").argsort() * RANGES // len(labels)
    else:
        strata = task.of_kind.strata(labels)
    rows = pd.DataFrame({"stratum": strata, "set": columns.get(GROUP) or texts})
    rows = rows.loc[among].sample(frac=1, random_state=0)
    # A set of rows that are drawn together belongs to the stratum of its first row.
    sets = rows.groupby("set", sort=False).agg(stratum=("stratum", "first"), size=("set", "size"))
    before = sets.groupby("stratum")["size"].cumsum() - sets["size"]
    wanted = sets.groupby("stratum")["size"].transform("sum") * number / len(among)
    return np.sort(rows.index[rows["set"].isin(sets.index[before < wanted.round().clip(lower=1)])])


def draw_dev_set(task: TaskSpec, columns: Columns, share: float) -> dict[str, np.ndarray]:
    """Split a training set into a training and a dev set, and return the indices of their rows.

    Args:
        share: the share of the rows that the dev set receives.
    """
    every = np.arange(len(columns["label"]))
    dev = draw_rows(task, columns, round(share * len(every)), every)
    return {"train": np.setdiff1d(every, dev), "validation": dev}


class WholeTable(NamedTuple):
    """The table from which a sample was drawn.

    Attributes:
        path: the file with the training set.
        rows: the number of labelled rows that can be used for training.
        drawn: for each split, the indices of the drawn rows among the labelled rows, in the order
            of the sample.
    """

    path: str
    rows: int
    drawn: dict[str, list[int]]
    encoding: str | None
    sheet: str | None


def write_table_description(folder: Path, whole: WholeTable) -> None:
    """Write a description of the table from which a sample was drawn."""
    write_text(folder / WHOLE, f"{json.dumps(whole._asdict())}\n")


def read_table_description(folder: Path) -> WholeTable | None:
    """Read the description of the table from which the sample in a directory was drawn.

    Returns:
        The description, or None if the directory has none.
    """
    path = folder / WHOLE
    return WholeTable(**json.loads(path.read_text("utf-8"))) if path.is_file() else None


def write_drawn_rows(
    tables: Mapping[str, Sequence[Mapping]], drawn: Mapping[str, Iterable[int]], folder: Path
) -> dict[str, str]:
    """Write the drawn rows of each split to a JSON-lines file.

    Args:
        tables: the rows of each split. A row maps columns to cells.
        drawn: the indices of the drawn rows of each split.

    Returns:
        The file of each split.
    """
    files = {}
    for split, rows in tables.items():
        lines = (json.dumps(rows[n], ensure_ascii=False, default=str) for n in drawn[split])
        files[split] = str(folder / f"{split}.jsonl")
        write_text(Path(files[split]), "".join(f"{line}\n" for line in lines))
    return files
