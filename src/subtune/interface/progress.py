"""Lines that say how far a call of Snakemake is, for where no progress bar is seen."""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from subtune.planning.cost import Estimates, in_words, seconds_of_jobs
from subtune.planning.plan import Plan

SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_LOOKS = 1


class Jobs(NamedTuple):
    """How many jobs are done, there are and failed; and the sweeps whose jobs run."""

    done: int
    all: int
    failed: int
    sweeps: Collection[str]


def say_progress(
    plan: Plan,
    estimates: Estimates,
    sweeps: Collection[str],
    store: Path,
    at_once: int,
    look: Callable[[], Jobs],
    say: Callable[[str], object],
) -> None:
    """Say how far a call is until its last job is done.

    A line is said every half minute, and where training begins and ends.

    Args:
        sweeps: those that the call needs, also if they are done.
        store: of the run records.
        at_once: how many jobs train at the same time.
        look: returns the call's jobs.
        say: is told the lines.
    """
    began = time.time()
    runs = {run for sweep in sweeps for run in plan.sweeps[sweep].runs}
    before = runs & _names(store)
    planned = {
        sweep: {run: estimates.run(run).seconds + estimates.start.seconds / len(new) for run in new}
        for sweep in sweeps
        if (new := {*plan.sweeps[sweep].runs} - before)
    }
    started: dict[str, float] = {}
    recorded: dict[str, float] = {}
    trains = bool(planned)
    next_line = began if trains else began + SECONDS_BETWEEN_LINES
    while (jobs := look()).done < jobs.all:
        now = time.time()
        for sweep in jobs.sweeps:
            started.setdefault(sweep, now)
        for run in (runs & _names(store)) - before - {*recorded}:
            recorded[run] = (store / run).stat().st_mtime
        missing = len(runs - before) - len(recorded)
        if now >= next_line or (trains and not missing):
            left = seconds_left(planned, started, recorded, now, at_once)
            counts = len(runs) - missing, len(runs)
            say(progress_line(now - began, jobs, *counts, left, is_measured=bool(recorded)))
            trains, next_line = bool(missing), now + SECONDS_BETWEEN_LINES
        time.sleep(SECONDS_BETWEEN_LOOKS)


def seconds_left(
    planned: Mapping[str, Mapping[str, float]],
    started: Mapping[str, float],
    recorded: Mapping[str, float],
    now: float,
    at_once: int,
) -> float:
    """Return the seconds until all runs are recorded: those of the plan, at the pace so far.

    Before a run is recorded they are those of the plan.

    Args:
        planned: sweep to the planned seconds of its runs.
        started: sweep to the time at which its job started.
        recorded: run to the time at which it was recorded.
        now: the time.
        at_once: how many jobs train at the same time.
    """
    if not recorded:
        return seconds_of_jobs([sum(runs.values()) for runs in planned.values()], at_once)
    took = expected = 0.0
    rest = []
    for sweep, runs in planned.items():
        start = started.get(sweep, now)
        last = max((recorded[run] for run in runs if run in recorded), default=start)
        missing = sum(seconds for run, seconds in runs.items() if run not in recorded)
        # A job may have begun and recorded between two looks.
        took += max(last - start, 0)
        expected += sum(runs.values()) - missing
        rest.append((missing, now - last))
    pace = took / expected
    left = [max(pace * missing - since, 0) for missing, since in rest if missing]
    return seconds_of_jobs(left, at_once)


def progress_line(
    seconds: float, jobs: Jobs, recorded: int, runs: int, left: float, is_measured: bool
) -> str:
    """Return how far a call is after some seconds, with the seconds of training that are left.

    They are measured once a run has told how fast training is.
    """
    parts = [f"{jobs.done} of {jobs.all} jobs"]
    if jobs.failed:
        parts.append(f"{jobs.failed} failed")
    if runs:
        parts.append(f"{recorded} of {runs} runs")
    if recorded < runs and not jobs.failed:
        time_left = f"about {in_words(left)}" if left >= 55 else "less than a minute"
        parts.append(f"{time_left} of training {'left' if is_measured else 'by the plan'}")
    return f"{tqdm.format_interval(seconds)}  {', '.join(parts)}"


def _names(store: Path) -> set[str]:
    return {path.name for path in store.iterdir()} if store.is_dir() else set()
