"""Progress of a plan's sweeps, from the events that their jobs have reported."""

import os
import shutil
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from subtune.core.layout import Layout
from subtune.planning.cost import Estimates
from subtune.planning.cost_table import measured
from subtune.planning.plan import Plan
from subtune.runs import events
from subtune.runs.records import is_recorded

DONE, STOPPED, FAILED = events.DONE, events.STOPPED, events.FAILED
RUNNING, LOST, WAITING = "running", "lost", "waiting"


class SweepProgress(NamedTuple):
    """One sweep: its state, the share of its epochs that is done, its log, its last report."""

    key: str
    state: str
    share: float
    log: Path
    last: str = ""
    silent_seconds: float = 0.0


def sweeps(layout: Layout, plan: Plan, slurm_jobs: Collection[str] | None) -> list[SweepProgress]:
    """Return the progress of every sweep of a plan.

    A ``stopped`` sweep goes on in another attempt. A ``lost`` one ended without a report.
    ``slurm_jobs`` are the ids of the jobs that wait or run in Slurm; None without Slurm.
    """
    return [_sweep(layout, plan, key, slurm_jobs) for key in plan.sweeps]


def _sweep(
    layout: Layout, plan: Plan, key: str, slurm_jobs: Collection[str] | None
) -> SweepProgress:
    log = Path(layout.log("train", key))
    table, repair = Path(layout.sweep(key)), Path(layout.repair(key))
    # A newer repair asks to train some of the runs again.
    if table.is_file() and not (
        repair.is_file() and repair.stat().st_mtime > table.stat().st_mtime
    ):
        return SweepProgress(key, DONE, 1.0, log)
    reported = events.read(Path(layout.progress(key)))
    share = _share(Path(layout.records()), plan, key, reported)
    if not reported or reported[-1]["event"] == events.DONE:
        return SweepProgress(key, WAITING, share, log)
    last = reported[-1]
    silent = datetime.now(UTC) - datetime.fromisoformat(last["time"])
    if last["event"] in (STOPPED, FAILED):
        state = last["event"]
    else:
        # On a full disk an attempt may have no start.
        starts = (event for event in reversed(reported) if event["event"] == events.STARTED)
        attempt: Mapping[str, Any] = next(starts, {})
        state = LOST if _is_lost(attempt, slurm_jobs) else RUNNING
    return SweepProgress(key, state, share, log, last["text"], silent.total_seconds())


def _is_lost(attempt: Mapping[str, Any], slurm_jobs: Collection[str] | None) -> bool:
    """Return whether an attempt is over, as far as Slurm or this machine can tell."""
    job = attempt.get("slurm_job")
    if job and slurm_jobs is not None and job not in slurm_jobs:
        return True
    if attempt.get("host") != socket.gethostname():
        return False
    try:
        os.kill(attempt["process"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # a process of another user
        pass
    return False


def _share(store: Path, plan: Plan, sweep: str, reported: Sequence[Mapping[str, Any]]) -> float:
    trained: dict[str, int] = {}
    for event in reported:
        if event["event"] == events.EPOCH:
            trained[event["run"]] = max(event["epoch"], trained.get(event["run"], 0))
        elif event["event"] == events.RECORDED:
            # The record counts from now on. Without it the run trains anew.
            trained.pop(event["run"], None)
    finished, planned = 0.0, 0.0
    for run in plan.sweeps[sweep].runs:
        spec = plan.runs[run]
        epochs = spec.recipe.epochs * spec.whole_runs
        # A search trains runs of one learning rate each.
        done = sum(
            spec.recipe.epochs if is_recorded(store, one) else trained.get(one, 0)
            for one in [run, *(spec.at(rate).id for rate in spec.recipe.searched)]
        )
        finished += epochs if is_recorded(store, run) else done
        planned += epochs
    return finished / planned


def seconds_left(
    layout: Layout, sweeps: Sequence[SweepProgress], estimates: Estimates
) -> float | None:
    """Return the seconds until all is done, with as many sweeps at once as now; None if none runs.

    Estimates are scaled by the time of the sweeps that are done.
    """
    running = sum(sweep.state == RUNNING for sweep in sweeps)
    if not running:
        return None
    past = measured(layout, [s.key for s in sweeps if s.state == DONE], estimates)
    scale = sum(took for _, took, _ in past) / sum(e for *_, e in past) if past else 1.0
    left = [(1 - s.share) * estimates.sweep(s.key).seconds * scale for s in sweeps]
    return max(sum(left) / running, max(left))


def jobs_in_slurm() -> set[str] | None:
    """Return the ids of this user's jobs that wait or run; None without Slurm."""
    if shutil.which("squeue") is None:
        return None
    asked = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True
    )
    return set(asked.stdout.split()) if asked.returncode == 0 else None
