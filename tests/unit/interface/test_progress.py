"""Lines that say how far a call is."""

from types import SimpleNamespace

import pytest

from subtune.interface import progress
from subtune.interface.progress import Jobs, progress_line, say_progress, seconds_left

PLANNED = {"a": 60.0, "b": 60.0, "c": 60.0, "d": 60.0}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            (90, Jobs(18, 52, 0), 24, 83, 250, True),
            "01:30  18 of 52 jobs, 24 of 83 runs, about 4 minutes of training left",
        ),
        (
            (3700, Jobs(18, 52, 0), 82, 83, 20, True),
            "1:01:40  18 of 52 jobs, 82 of 83 runs, less than a minute of training left",
        ),
        (
            (90, Jobs(18, 52, 1), 24, 83, 250, True),
            "01:30  18 of 52 jobs, 1 failed, 24 of 83 runs",
        ),
        ((90, Jobs(40, 52, 0), 83, 83, 0, True), "01:30  40 of 52 jobs, 83 of 83 runs"),
        ((90, Jobs(1, 2, 0), 0, 0, 0, False), "01:30  1 of 2 jobs"),
    ],
)
def test_a_line_says_jobs_runs_and_the_time_that_training_takes(arguments, line):
    assert progress_line(*arguments) == line


@pytest.mark.parametrize(
    ("missing", "seconds", "left"),
    [
        # By the plan, two jobs at once.
        ("abcd", 30, 120),
        # One of four runs took 90 seconds; the plan counts as one more run, of 30 seconds.
        ("bcd", 90, 180),
        ("d", 90, 30),
        ("", 90, 0),
    ],
)
def test_the_time_left_is_that_of_the_plan_at_the_pace_of_the_runs(missing, seconds, left):
    rest = {run: PLANNED[run] for run in missing}
    assert seconds_left(PLANNED, rest, seconds, at_once=2) == pytest.approx(left)


@pytest.fixture
def said(tmp_path, monkeypatch):
    """A function that returns the lines of a call whose runs are recorded at these seconds."""
    clock = SimpleNamespace(now=0)
    monkeypatch.setattr(progress.time, "time", lambda: clock.now)
    monkeypatch.setattr(progress.time, "sleep", lambda seconds: tick(seconds))
    recorded_at: dict[str, int] = {}

    def tick(seconds):
        clock.now += seconds
        for run, time in recorded_at.items():
            if time <= clock.now:
                (tmp_path / run).mkdir(exist_ok=True)

    def called(recorded: dict[str, int], end: int) -> list[str]:
        recorded_at.update(recorded)
        tick(0)
        lines: list[str] = []

        def look() -> Jobs:
            return Jobs(3 if clock.now >= end else 1, 3, 0)

        say_progress({"a": 70, "b": 70}, tmp_path, 2, look, lines.append)
        return lines

    return called


def test_lines_come_every_half_minute_and_when_training_ends(said):
    times = [line.split(", ", 1) for line in said({"a": 40, "b": 75}, 110)]
    assert [(begin[:5], runs[:11]) for begin, runs in times] == [
        ("00:00", "0 of 2 runs"),
        ("00:30", "0 of 2 runs"),
        ("01:00", "1 of 2 runs"),
        ("01:15", "2 of 2 runs"),
        ("01:45", "2 of 2 runs"),
    ]


def test_a_resumed_call_counts_the_runs_that_are_recorded(said):
    assert said({"a": 0, "b": 500}, 10) == [
        "00:00  1 of 3 jobs, 1 of 2 runs, less than a minute of training by the plan"
    ]


def test_a_short_call_that_trains_nothing_says_nothing(said):
    assert not said({"a": 0, "b": 0}, 29)


def test_a_long_call_that_trains_nothing_says_its_jobs(said):
    assert said({"a": 0, "b": 0}, 40) == ["00:30  1 of 3 jobs, 2 of 2 runs"]
