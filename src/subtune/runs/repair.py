"""Repair of results: damaged records are found and set aside, so that they are trained again."""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.runs import records

RUN_ID = re.compile("[0-9a-f]{12}")


class Damage(NamedTuple):
    """Lines about damaged records by run, and about damaged tables by sweep."""

    records: dict[str, list[str]]
    sweeps: dict[str, str]


def find_damage(layout: Layout) -> Damage:
    """Find every record that is missing or not what was recorded, and every damaged table.

    A record is missing if the table of a finished sweep names its run.
    """
    store = Path(layout.records())
    runs = set(records_in(layout))
    sweeps = {}
    for sweep, of_sweep in _sweeps(layout):
        runs |= set(of_sweep)
        if not of_sweep:
            sweeps[sweep] = f"{layout.sweep(sweep)} is not the whole table of a sweep's runs"
    problems = {run: records.problems_of(store, run) for run in sorted(runs)}
    return Damage({run: lines for run, lines in problems.items() if lines}, sweeps)


def records_in(layout: Layout) -> list[str]:
    """Return the runs of which something is in the store, whole or not."""
    store = Path(layout.records())
    return [path.name for path in sorted(store.glob("*")) if RUN_ID.fullmatch(path.name)]


def set_aside(layout: Layout, damaged: Damage) -> list[Path]:
    """Move damaged records out of the store, and write a repair for each of their sweeps.

    The repair is a newer input of the sweep. Snakemake's next call trains these runs again, and no
    others, if they are still in the configuration. Return the records' new places.

    Raises:
        SubtuneError: a directory cannot be written.
    """
    places, damaged_records = [], Path(layout.damaged())
    try:
        for run in damaged.records:
            path = Path(layout.records()) / run
            if os.path.lexists(path):
                damaged_records.mkdir(parents=True, exist_ok=True)
                # Records that were set aside before stay.
                names = itertools.chain([run], (f"{run}-{n}" for n in itertools.count(2)))
                free = (n for n in names if not os.path.lexists(damaged_records / n))
                places.append(path.rename(damaged_records / next(free)))
        for sweep, of_sweep in _sweeps(layout):
            again = [run for run in of_sweep if run in damaged.records]
            if again or sweep in damaged.sweeps:
                repair = Path(layout.repair(sweep))
                repair.parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame({"run": again}).to_csv(repair, index=False)
    except OSError as error:
        raise SubtuneError(f"{error.filename} cannot be written: {error.strerror}") from None
    return places


def _sweeps(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """Yield each finished sweep with its runs, or with none if its table is damaged."""
    for path in sorted(Path(layout.sweep("*")).parent.glob("*.csv")):
        yield path.stem, _runs_in(path)


def _runs_in(table: Path) -> list[str]:
    if not table.is_file():  # such as a pipe, which would be waited for
        return []
    try:
        rows = pd.read_csv(table, dtype=str, keep_default_na=False)
        runs = rows["run"].tolist()
        # Tables of earlier versions do not say how many runs they have.
        counts = set(rows.get("runs_of_sweep", pd.Series(str(len(runs)), rows.index)))
    except (OSError, ValueError, KeyError):
        return []
    is_whole = counts == {str(len(runs))} and all(map(RUN_ID.fullmatch, runs))
    return runs if is_whole else []
