"""Whether records are what was recorded, and how those that are not come to be trained again."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from subtune.errors import SubtuneError
from subtune.layout import Layout
from subtune.runs import records

RUN_ID = "[0-9a-f]" * 12


def damaged_records(layout: Layout) -> dict[str, list[str]]:
    """Every record that is not what was recorded, or is gone: its run to what is wrong with it.

    A record is gone where a sweep that is done names its run.
    """
    store = Path(layout.records())
    present = {path.name for path in store.glob(RUN_ID)}
    trained = {run for _, runs in _sweeps(layout) for run in runs}
    problems = {run: records.problems_of(store, run) for run in sorted(present | trained)}
    return {run: lines for run, lines in problems.items() if lines}


class SetAside(NamedTuple):
    """Where damaged records are now, and the tables of the sweeps that trained them."""

    places: list[Path]
    sweeps: list[Path]


def set_aside(layout: Layout, runs: Iterable[str]) -> SetAside:
    """Move records out of the store.

    Where snakemake is forced to make the tables of their sweeps, it trains these runs again, and no
    others.

    Raises:
        SubtuneError: a directory cannot be written.
    """
    runs = set(runs)
    aside = SetAside([], [])
    try:
        for run in sorted(runs):
            path = Path(layout.records()) / run
            if path.exists():
                place = _free(Path(layout.damaged()) / run)
                place.parent.mkdir(parents=True, exist_ok=True)
                aside.places.append(path.rename(place))
        for table, of_sweep in _sweeps(layout):
            if not runs.isdisjoint(of_sweep):
                aside.sweeps.append(table)
    except OSError as error:
        raise SubtuneError(f"{error.filename} cannot be moved: {error.strerror}") from None
    return aside


def _sweeps(layout: Layout) -> Iterator[tuple[Path, list[str]]]:
    """The tables of sweeps that are done, each with its runs; none of one that cannot be read."""
    for path in sorted(Path(layout.sweep("*")).parent.glob("*.csv")):
        try:
            yield path, pd.read_csv(path, dtype={"run": str}, usecols=["run"])["run"].tolist()
        except (OSError, ValueError):
            yield path, []


def _free(place: Path) -> Path:
    """This place, or where something is there already the next with a number."""
    number = 1
    free = place
    while free.exists():
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free
