"""Results are written in time, from the planned runs that are recorded so far."""

import threading
import time

import pytest

from subtune.comparison import recorded_results
from subtune.comparison.next_runs import Progress
from subtune.comparison.recorded_results import ResultsWriter
from subtune.core.errors import SubtuneError


@pytest.fixture
def written(monkeypatch) -> list[int]:
    """The number of runs in each of the results, which take as many tenths of a second."""
    found: list[int] = []

    def write(context, progress):
        time.sleep(len(progress.scores) / 10)
        found.append(len(progress.scores))

    monkeypatch.setattr(recorded_results, "write_answers", write)
    monkeypatch.setattr(recorded_results, "write_report", lambda context: None)
    monkeypatch.setattr(recorded_results, "LIBRARIES", ())
    return found


def recorded(count: int) -> Progress:
    return Progress([], {}, {str(number): 0.5 for number in range(count)}, set())


def wait(writer: ResultsWriter) -> None:
    writer._thread.join()


def test_results_are_written_early_when_the_time_has_doubled_and_measured(written):
    writer = ResultsWriter(None)
    wait(writer)
    for runs, now in ((1, 10), (1, 30), (2, 19), (2, 20), (3, 30), (3, 40)):
        writer.write_early(recorded(runs), now)
        wait(writer)
    assert written == [1, 2, 3]
    assert 0.3 <= writer.seconds < 1


def test_runs_that_are_recorded_while_results_are_written_are_added_at_the_end(written):
    writer, progress = ResultsWriter(None), recorded(1)
    wait(writer)
    writer.write_early(progress, 10)
    progress.scores["new"] = 0.5
    assert writer.finish(progress, 10) and written == [1, 2]
    # Nothing has changed.
    assert writer.finish(progress, 10) and written == [1, 2]


def test_without_time_earlier_results_have_to_do(written):
    writer = ResultsWriter(None)
    wait(writer)
    writer.write_early(recorded(2), 10)
    wait(writer)
    for seconds in (0, 0.15):
        start = time.monotonic()
        assert not writer.finish(recorded(20), seconds)
        assert time.monotonic() - start < 1
    wait(writer)


def test_without_time_and_results_one_line_says_so(written):
    start = time.monotonic()
    with pytest.raises(SubtuneError, match=r"^--minutes: the time ran out before the answer was"):
        ResultsWriter(None).finish(recorded(10), 0.1)
    assert time.monotonic() - start < 1


def test_answers_in_time_have_to_do_without_a_report(written, monkeypatch):
    monkeypatch.setattr(recorded_results, "write_report", lambda context: time.sleep(5))
    start = time.monotonic()
    assert not ResultsWriter(None).finish(recorded(1), 0.5) and written == [1]
    assert time.monotonic() - start < 2


def test_an_error_of_early_results_is_raised_only_if_it_remains(written, monkeypatch):
    def fail(context, progress):
        raise SubtuneError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(recorded_results, "write_answers", fail)
        writer = ResultsWriter(None)
        wait(writer)
        writer.write_early(recorded(1), 10)
        wait(writer)
        with pytest.raises(SubtuneError, match="disk is full"):
            writer.finish(recorded(1), 10)
    assert writer.finish(recorded(1), threading.TIMEOUT_MAX) and written == [1]
