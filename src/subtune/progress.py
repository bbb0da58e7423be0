"""How far a plan's sweeps are, read from what they have written."""

import re
import shutil
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from subtune.cost import Estimates
from subtune.cost_table import measured
from subtune.logs import SLURM_JOB
from subtune.plan import Plan
from subtune.runs.records import is_recorded

EPOCH = re.compile(r"  run (\d+)  epoch (\d+)/\d+  ")
ERROR = re.compile(r"  error: (.*)")
JOB = re.compile(SLURM_JOB + r" (\d+)")
DONE, RUNNING, STOPPED, FAILED, LOST, WAITING = (
    "done", "running", "stopped", "failed", "lost", "waiting",
)  # fmt: skip


class Sweep(NamedTuple):
    """One sweep: its state, which share of its epochs is done, its log and the log's last line."""

    key: str
    state: str
    share: float
    log: Path
    last: str
    silent_seconds: float


def sweeps(results: Path, plan: Plan, slurm_jobs: Collection[str] | None) -> list[Sweep]:
    """Every sweep of a plan.

    ``stopped`` ones go on in another attempt; ``lost`` ones were cut off without a word.

    Args:
        results: the results directory.
        plan: the plan.
        slurm_jobs: ids of the jobs that Slurm knows to wait or run; None without Slurm.
    """
    return [_sweep(results, plan, key, slurm_jobs) for key in plan.sweeps]


def _sweep(results: Path, plan: Plan, key: str, slurm_jobs: Collection[str] | None) -> Sweep:
    log = results / "logs" / "train" / f"{key}.log"
    if (results / "sweeps" / f"{key}.csv").is_file():
        return Sweep(key, DONE, 1.0, log, "", 0.0)
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    share = _share(results, plan, key, text)
    if not log.is_file():
        return Sweep(key, WAITING, share, log, "", 0.0)
    last = (text.strip().splitlines() or [""])[-1]
    silent = time.time() - log.stat().st_mtime
    error, job = ERROR.search(last), JOB.search(text)
    if error:
        state = STOPPED if "stopped by" in error[1] else FAILED
    elif slurm_jobs is not None and job and job[1] not in slurm_jobs:
        state = LOST
    else:
        state = FAILED if last.startswith(" ") or "Error" in last else RUNNING
    return Sweep(key, state, share, log, last, silent)


def _share(results: Path, plan: Plan, key: str, log: str) -> float:
    runs = plan.sweeps[key].runs
    epochs = [plan.runs[run].recipe.epochs for run in runs]
    done = [
        all_of_them if is_recorded(results / "runs", run) else 0
        for run, all_of_them in zip(runs, epochs, strict=True)
    ]
    missing = [place for place, count in enumerate(done) if not count]
    for number, epoch in EPOCH.findall(log):
        if int(number) <= len(missing):
            place = missing[int(number) - 1]
            done[place] = max(done[place], int(epoch))
    return sum(done) / sum(epochs)


def seconds_left(
    results: Path, plan: Plan, estimates: Estimates, found: list[Sweep]
) -> float | None:
    """Seconds until all is done, if as many sweeps go on running as do now; None if none runs.

    Estimates are scaled by what the sweeps that are done took.
    """
    running = sum(sweep.state == RUNNING for sweep in found)
    if not running:
        return None
    past = measured(results, [s.key for s in found if s.state == DONE], estimates)
    scale = sum(took for _, took, _ in past) / sum(e for *_, e in past) if past else 1.0
    left = [(1 - s.share) * estimates.sweep(s.key).seconds * scale for s in found]
    return max(sum(left) / running, max(left))


def jobs_in_slurm() -> set[str] | None:
    """Ids of this user's jobs that wait or run; None where there is no Slurm to ask."""
    if shutil.which("squeue") is None:
        return None
    asked = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True
    )
    return set(asked.stdout.split()) if asked.returncode == 0 else None
