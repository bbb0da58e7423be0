"""Lines that say how far a call of Snakemake is, for where no progress bar is seen."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from subtune.planning.cost import in_words

SECONDS_BETWEEN_LINES = 30
SECONDS_BETWEEN_LOOKS = 1
PLANNED = 0.25


class Jobs(NamedTuple):
    """Numbers of jobs: those that are done, all, and those that failed."""

    done: int
    all: int
    failed: int


def say_progress(
    planned: Mapping[str, float],
    store: Path,
    at_once: int,
    look: Callable[[], Jobs],
    say: Callable[[str], object],
) -> None:
    """Say how far a call is until its last job is done.

    A line is said every half minute, and where training begins and ends.

    Args:
        planned: the call's runs to the seconds that they take by the plan.
        store: of the run records.
        at_once: how many jobs train at the same time.
        look: returns the call's jobs.
        say: is told the lines.
    """
    began = time.time()
    before = _names(store)
    new = {run: seconds for run, seconds in planned.items() if run not in before}
    trains = bool(new)
    next_line = began if trains else began + SECONDS_BETWEEN_LINES
    while (jobs := look()).done < jobs.all:
        now, names = time.time(), _names(store)
        missing = {run: seconds for run, seconds in new.items() if run not in names}
        if now >= next_line or (trains and not missing):
            left = seconds_left(new, missing, now - began, at_once)
            counts = len(planned) - len(missing), len(planned)
            is_measured = len(missing) < len(new)
            say(progress_line(now - began, jobs, *counts, left, is_measured=is_measured))
            trains, next_line = bool(missing), now + SECONDS_BETWEEN_LINES
        time.sleep(SECONDS_BETWEEN_LOOKS)


def seconds_left(
    planned: Mapping[str, float], missing: Mapping[str, float], seconds: float, at_once: int
) -> float:
    """Return the seconds until all runs are recorded, at the pace so far.

    The plan's pace counts as much as `PLANNED` of the work, because the first runs that are
    recorded say little: those that share steps are recorded together.

    Args:
        planned: the runs that were not recorded before, to their planned seconds.
        missing: those that are not recorded yet.
        seconds: since the start.
        at_once: how many jobs train at the same time.
    """
    if not missing:
        return 0
    if len(missing) == len(planned):
        seconds = 0
    by_plan, rest = sum(planned.values()) / at_once, sum(missing.values()) / at_once
    pace = (seconds + PLANNED * by_plan) / (by_plan - rest + PLANNED * by_plan)
    return pace * rest


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
