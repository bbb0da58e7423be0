"""Draw a dev set from a user's tables, or a sample that is small enough for a time limit."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.files import write_text
from subtune.data.table_files import PLACE_KEY
from subtune.tasks import TaskSpec
from subtune.tasks.row_sets import SET
from subtune.tasks.task_kind import Columns, PlacedRow

# The file in a sample's directory that describes the table from which the sample was drawn.
WHOLE = "drawn_from.json"


def draw_rows(task: TaskSpec, columns: Columns, number: int, among: np.ndarray) -> np.ndarray:
    """Draw ``number`` rows with indices in ``among``, stratified by label or by quantile bin.

    Rows with equal texts or the same group need not be drawn together, because the remaining rows
    are not used. Each label keeps at least one row. The drawn indices are in ascending order.
    """
    if number >= len(among):
        return among
    rows = pd.DataFrame({"stratum": task.of_kind.strata(np.array(columns["label"]))}).loc[among]
    by_stratum = rows.sample(frac=1, random_state=0).groupby("stratum")["stratum"]
    wanted = by_stratum.transform("size") * number / len(among)
    return np.sort(wanted.index[by_stratum.cumcount() < wanted.round().clip(lower=1)])


def draw_dev_set(task: TaskSpec, columns: Columns, share: float) -> dict[str, np.ndarray]:
    """Split a training set into a training and a dev set, and return the indices of their rows.

    The dev set receives ``share`` of the rows, stratified like the sample of `draw_rows`. Rows with
    equal texts or the same group stay together (`subtune.tasks.row_sets`), so the size of the dev
    set can differ from ``share``.
    """
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


def write_drawn_rows(
    tables: Mapping[str, Sequence[PlacedRow]], drawn: Mapping[str, Iterable[int]], folder: Path
) -> dict[str, str]:
    """Write the drawn rows of each split to a JSON-lines file, with their places in the table.

    ``drawn`` maps each split to the indices of its rows; the result maps each split to its file.
    """
    files = {}
    for split, rows in tables.items():
        chosen = (
            {PLACE_KEY: place} | dict(cells) for place, cells in map(rows.__getitem__, drawn[split])
        )
        lines = (json.dumps(row, ensure_ascii=False, default=str) for row in chosen)
        files[split] = str(folder / f"{split}.jsonl")
        write_text(Path(files[split]), "".join(f"{line}\n" for line in lines))
    return files
