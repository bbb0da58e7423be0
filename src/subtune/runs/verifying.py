"""Whether records are what was recorded, and how those that are not come to be trained again."""

from collections.abc import Iterable, Iterator
from pathlib import Path

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


def set_aside(layout: Layout, runs: Iterable[str]) -> list[Path]:
    """Move records out of the store, and leave their sweeps a repair, an input newer than they are.

    Snakemake's next call trains these runs again, and no others, where it still needs them.

    Returns:
        Where the records are now.

    Raises:
        SubtuneError: a directory cannot be written.
    """
    runs = sorted(runs)
    places = []
    try:
        for run in runs:
            path = Path(layout.records()) / run
            if path.exists():
                place = _free(Path(layout.damaged()) / run)
                place.parent.mkdir(parents=True, exist_ok=True)
                places.append(path.rename(place))
        for sweep, of_sweep in _sweeps(layout):
            if again := [run for run in runs if run in of_sweep]:
                repair = Path(layout.repair(sweep))
                repair.parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame({"run": again}).to_csv(repair, index=False)
    except OSError as error:
        raise SubtuneError(f"{error.filename} cannot be written: {error.strerror}") from None
    return places


def _sweeps(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """The sweeps that are done, each with its runs; none of one whose table cannot be read."""
    for path in sorted(Path(layout.sweep("*")).parent.glob("*.csv")):
        try:
            yield path.stem, pd.read_csv(path, dtype={"run": str}, usecols=["run"])["run"].tolist()
        except (OSError, ValueError):
            yield path.stem, []


def _free(place: Path) -> Path:
    """This place, or where something is there already the next with a number."""
    number = 1
    free = place
    while free.exists():
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free
