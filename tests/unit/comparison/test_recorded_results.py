"""Results are written in time, from the planned runs that are recorded so far."""

import threading
import time
from types import SimpleNamespace

import pytest

from subtune.comparison import recorded_results
from subtune.comparison.recorded_results import ResultsWriter
from subtune.core.errors import SubtuneError

# The number of recorded runs.
STORE = SimpleNamespace(runs=0)


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """The number of runs in each of the results, which take as many tenths of a second."""
    found: list[int] = []

    def write(context):
        runs = context.runs
        time.sleep(runs / 10)
        found.append(runs)

    monkeypatch.setattr(recorded_results, "write_answers", write)
    monkeypatch.setattr(recorded_results, "write_report", lambda context: None)
    monkeypatch.setattr(recorded_results, "LIBRARIES", ())
    return found


def write_early(writer: ResultsWriter, runs: int, now: float = 10) -> None:
    """Write results when so many runs are recorded, after another thread has ended."""
    writer._thread.join()
    STORE.runs = runs
    writer.write_early(runs, now)


def test_results_are_written_early_when_the_time_has_doubled_and_measured(written):
    writer = ResultsWriter(STORE)
    for runs, now in ((1, 10), (1, 30), (2, 19), (2, 20), (3, 30), (3, 40)):
        write_early(writer, runs, now)
    writer._thread.join()
    assert written == [1, 2, 3]
    assert 0.3 <= writer.seconds < 1


def test_runs_that_are_recorded_while_results_are_written_are_added_at_the_end(written):
    writer = ResultsWriter(STORE)
    write_early(writer, 1)
    time.sleep(0.05)
    STORE.runs = 2
    assert writer.finish(2, 10) and written == [1, 2]
    # Nothing has changed.
    assert writer.finish(2, 10) and written == [1, 2]


def test_without_time_earlier_results_have_to_do(written):
    writer = ResultsWriter(STORE)
    write_early(writer, 2)
    writer._thread.join()
    STORE.runs = 20
    for seconds in (0, 0.15):
        start = time.monotonic()
        assert not writer.finish(20, seconds)
        assert time.monotonic() - start < 1
    writer._thread.join()


def test_without_time_and_results_one_line_says_so(written):
    STORE.runs, start = 10, time.monotonic()
    with pytest.raises(SubtuneError, match=r"^--minutes: the time ran out before the answer was"):
        ResultsWriter(STORE).finish(10, 0.1)
    assert time.monotonic() - start < 1


def test_answers_in_time_have_to_do_without_a_report(written, monkeypatch):
    monkeypatch.setattr(recorded_results, "write_report", lambda context: time.sleep(5))
    STORE.runs, start = 1, time.monotonic()
    assert not ResultsWriter(STORE).finish(1, 0.5) and written == [1]
    assert time.monotonic() - start < 2


def test_an_error_of_early_results_is_raised_only_if_it_remains(written, monkeypatch):
    def fail(context):
        raise SubtuneError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(recorded_results, "write_answers", fail)
        writer = ResultsWriter(STORE)
        write_early(writer, 1)
        writer._thread.join()
        with pytest.raises(SubtuneError, match="disk is full"):
            writer.finish(1, 10)
    assert writer.finish(1, threading.TIMEOUT_MAX) and written == [1]
