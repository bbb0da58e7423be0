"""Rows that are drawn from a user's tables: a dev set, and a sample that fits into the minutes."""

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

# Numbers are drawn from this many ranges with about as many rows.
RANGES = 10
# The file beside a sample that names the table from which it was drawn.
WHOLE = "drawn_from.json"


def draw_rows(task: TaskSpec, columns: Columns, number: int, among: np.ndarray) -> np.ndarray:
    """Draw rows so that each label, or range of numbers, keeps its share.

    Rows with equal texts or, if the task has groups, of the same group are drawn together, so the
    number of rows may differ by the size of such a set.

    Args:
        task: the task.
        columns: the columns of a split (`subtune.data.sources.read_columns`).
        number: the number of rows to draw.
        among: the numbers of the rows from which they are drawn.

    Returns:
        The numbers of the drawn rows, in ascending order.
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
    # A set counts for the stratum of its first row.
    sets = rows.groupby("set", sort=False).agg(stratum=("stratum", "first"), size=("set", "size"))
    before = sets.groupby("stratum")["size"].cumsum() - sets["size"]
    wanted = sets.groupby("stratum")["size"].transform("sum") * number / len(among)
    return np.sort(rows.index[rows["set"].isin(sets.index[before < wanted.round().clip(lower=1)])])


def draw_dev_set(task: TaskSpec, columns: Columns, share: float) -> dict[str, np.ndarray]:
    """Return the numbers of the rows to train on, and of a drawn share as the dev set."""
    every = np.arange(len(columns["label"]))
    dev = draw_rows(task, columns, round(share * len(every)), every)
    return {"train": np.setdiff1d(every, dev), "validation": dev}


class WholeTable(NamedTuple):
    """The table from which the rows of some results were drawn.

    Attributes:
        path: the file with its training rows.
        rows: the number of its labelled rows that may train.
        drawn: the numbers of the drawn rows of each split among its labelled rows, in the order of
            the sample.
        encoding: the encoding of a text file.
        sheet: the sheet of an Excel file.
    """

    path: str
    rows: int
    drawn: dict[str, list[int]]
    encoding: str | None
    sheet: str | None


def write_whole_table(folder: Path, whole: WholeTable) -> None:
    """Note the table from which a sample was drawn."""
    write_text(folder / WHOLE, f"{json.dumps(whole._asdict())}\n")


def read_whole_table(folder: Path) -> WholeTable | None:
    """Return the table from which the rows in a folder were drawn; None if they were not drawn."""
    path = folder / WHOLE
    return WholeTable(**json.loads(path.read_text("utf-8"))) if path.is_file() else None


def write_drawn_rows(
    tables: Mapping[str, Sequence[Mapping]], drawn: Mapping[str, Iterable[int]], folder: Path
) -> dict[str, str]:
    """Write the drawn rows of each split as JSON lines, and return the files.

    Args:
        tables: the rows of each split: cells by column.
        drawn: the numbers of the rows that are written.
        folder: the folder for the files.
    """
    files = {}
    for split, rows in tables.items():
        lines = (json.dumps(rows[n], ensure_ascii=False, default=str) for n in drawn[split])
        files[split] = str(folder / f"{split}.jsonl")
        write_text(Path(files[split]), "".join(f"{line}\n" for line in lines))
    return files
