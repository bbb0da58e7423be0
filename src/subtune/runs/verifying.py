"""Whether records are what was recorded, and how those that are not come to be trained again."""

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
    """What is wrong with records, by their runs, and with tables of sweeps, by the sweeps."""

    records: dict[str, list[str]]
    sweeps: dict[str, str]


def damage(layout: Layout) -> Damage:
    """Every record that is not what was recorded, or is gone, and every table that is no table.

    A record is gone where a sweep that is done names its run.
    """
    store = Path(layout.records())
    runs = set(records_in(layout))
    sweeps = {}
    for sweep, of_sweep in _sweeps(layout):
        if of_sweep:
            runs |= set(of_sweep)
        else:
            sweeps[sweep] = f"{layout.sweep(sweep)} is no table of a sweep's runs"
    problems = {run: records.problems_of(store, run) for run in sorted(runs)}
    return Damage({run: lines for run, lines in problems.items() if lines}, sweeps)


def records_in(layout: Layout) -> list[str]:
    """The runs of which something is in the store, whole or not."""
    store = Path(layout.records())
    return [path.name for path in sorted(store.glob("*")) if RUN_ID.fullmatch(path.name)]


def set_aside(layout: Layout, damaged: Damage) -> list[Path]:
    """Move records out of the store, and leave their sweeps a repair, an input newer than they are.

    Snakemake's next call trains these runs again, and no others, where they are still asked for.

    Returns:
        Where the records are now.

    Raises:
        SubtuneError: a directory cannot be written.
    """
    places = []
    try:
        for run in damaged.records:
            path = Path(layout.records()) / run
            if os.path.lexists(path):
                place = _free(Path(layout.damaged()) / run)
                place.parent.mkdir(parents=True, exist_ok=True)
                places.append(path.rename(place))
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
    """The sweeps that are done, each with its runs; none of one whose table cannot be read."""
    for path in sorted(Path(layout.sweep("*")).parent.glob("*.csv")):
        yield path.stem, _runs_in(path)


def _runs_in(table: Path) -> list[str]:
    if not table.is_file():  # nor waits for a reader, as a pipe does
        return []
    try:
        runs = pd.read_csv(table, dtype=str, usecols=["run"], keep_default_na=False)["run"]
    except (OSError, ValueError):
        return []
    return runs.tolist() if all(map(RUN_ID.fullmatch, runs)) else []


def _free(place: Path) -> Path:
    """This place, or where something is there already the next with a number."""
    number = 1
    free = place
    while os.path.lexists(free):
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free
