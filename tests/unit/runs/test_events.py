"""Events of jobs, however they end."""

import contextlib
import errno
import json

import pytest

from subtune.core.errors import SubtuneError
from subtune.core.stopping import StoppedError
from subtune.runs import events
from subtune.training.reports import Report


@pytest.mark.parametrize(
    ("error", "event", "text"),
    [
        (None, "done", "done"),
        (StoppedError("stopped by SIGTERM"), "stopped", "stopped by SIGTERM"),
        (SubtuneError("no model here"), "failed", "no model here"),
        (OSError(errno.ENOSPC, "x"), "failed", "the disk is full (while writing): free some space"),
        (RuntimeError("CUDA out of memory"), "failed", "RuntimeError: CUDA out of memory"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
    ],
)
def test_the_last_event_says_how_an_attempt_ended(tmp_path, error, event, text):
    path = tmp_path / "progress" / "sweep.jsonl"
    with contextlib.suppress(type(error) if error else ()), events.attempt(path):
        if error:
            raise error
    started, ended = events.read(path)
    assert started["event"] == "started" and started["host"]
    assert (ended["event"], ended["text"]) == (event, text)


def test_attempts_follow_one_another_and_name_their_slurm_job(tmp_path, monkeypatch):
    for job in ("17", "18"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        with events.attempt(tmp_path / "sweep.jsonl"):
            pass
    written = events.read(tmp_path / "sweep.jsonl")
    assert [event.get("slurm_job") for event in written] == ["17", None, "18", None]


def test_every_line_is_json_even_of_a_run_that_diverged(tmp_path):
    log = events.Events(tmp_path / "sweep.jsonl")
    log.write(Report("epoch 1/2  loss nan", "epoch", {"train_loss": float("nan")}))
    [line] = (tmp_path / "sweep.jsonl").read_text().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["train_loss"] is None


def test_where_nothing_can_be_written_the_job_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    with events.attempt(tmp_path / "file" / "sweep.jsonl") as log:
        log.write(Report("a note"))
    assert events.read(tmp_path / "nowhere.jsonl") == []


def test_a_half_line_of_a_killed_attempt_is_left_out(tmp_path):
    path = tmp_path / "sweep.jsonl"
    path.write_text('{"event": "no')
    with events.attempt(path):
        pass
    assert [event["event"] for event in events.read(path)] == ["started", "done"]
