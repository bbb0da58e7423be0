"""Events of training jobs, for programs: a file of JSON lines, one per event.

Every line has ``time`` (UTC), ``event``, and ``text`` for people. Events are::

    started    an attempt of the job: ``host``, ``process``, and ``slurm_job`` where Slurm runs it
    to_train   ids of the runs without a record: ``runs``
    resumed    runs go on from a checkpoint: ``run`` (one of them), ``step``, ``steps``
    epoch      a run's epoch: ``run``, ``epoch`` (from 1), ``epochs``, ``train_loss``, ``metric``,
               ``score``, ``seconds``
    diverged   a run's loss or a prediction is not finite: ``run``
    recorded   a run is on record: ``run``
    one_by_one runs train one by one, for the reason in ``text``
    without_padding  every batch has texts of one length, for the reason in ``text``
    note       a line of the log without a meaning for programs
    stopped    the attempt was asked to stop
    failed     the attempt ended in an error
    done       all runs are on record

Attempts follow one another in the same file. A killed attempt has no last event.
"""

import contextlib
import json
import math
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from subtune.core import logs
from subtune.core.stopping import StoppedError
from subtune.training.reports import Report

STARTED, EPOCH, RECORDED, STOPPED, FAILED, DONE = (
    "started", "epoch", "recorded", "stopped", "failed", "done",
)  # fmt: skip


class Events:
    """A writer of a job's events."""

    def __init__(self, path: Path):
        self._path = path

    def report(self, report: Report) -> None:
        """Write an event, and its text to the job's log."""
        logs.report(report.text)
        self.write(report)

    def write(self, report: Report) -> None:
        """Append an event. If it cannot be written, training goes on: no result needs it."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {name: finite_or_none(value) for name, value in report.facts.items()}
        event = {"time": time, "event": report.event} | facts | {"text": report.text}
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


def finite_or_none(value: Any) -> Any:
    """Return the value, or None for a number that JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def attempt(path: str | Path) -> Iterator[Events]:
    """Give the writer of an attempt's events, and write its start and end."""
    path = Path(path)
    events = Events(path)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and not path.read_bytes().endswith(b"\n"):
            # The half line of a killed attempt stays a line of its own.
            with path.open("ab") as file:
                file.write(b"\n")
    job = {"slurm_job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}
    about = {"host": socket.gethostname(), "process": os.getpid()}
    events.write(Report(logs.place(), STARTED, about | job))
    try:
        yield events
    except BaseException as error:
        kind = STOPPED if isinstance(error, StoppedError) else FAILED
        foreseen = logs.message_of(error)
        events.write(Report(foreseen or f"{type(error).__name__}: {error}".strip(": "), kind))
        raise
    events.write(Report("done", DONE))


def read(path: Path) -> list[dict[str, Any]]:
    """Return all events of a file, in order. Half lines are left out."""
    if not path.is_file():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return events
