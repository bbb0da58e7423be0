"""What a comparison does about jobs that fail, and about workers that end."""

import signal

import pytest

from subtune.comparison import loop
from subtune.comparison.loop import Clock, Progress
from subtune.comparison.schedule import next_jobs
from subtune.comparison.workers import Ended
from subtune.core.errors import SubtuneError
from tests.helpers.jobs import comparison


@pytest.fixture
def lines(monkeypatch) -> list[str]:
    """The lines that a call says."""
    found: list[str] = []
    monkeypatch.setattr(loop, "_say", found.append)
    return found


@pytest.fixture
def progress(tmp_path, lines):
    """The progress of a call that has the tokens."""
    return Progress(comparison(), tmp_path, Clock(0, 60), {("tokens", "t")})


@pytest.fixture
def jobs(progress):
    """The next job of some methods."""
    found = next_jobs(progress.schedule, progress.done, {})
    return {"+".join(sorted(progress.schedule.methods_needing(job))): job for job in found}


def test_a_method_that_fails_is_left_out_with_one_line(progress, jobs, lines):
    loop._note(progress, Ended(jobs["bitfit+layernorm"], error="no rows"))
    assert lines == ["without bitfit, layernorm: no rows"]
    assert progress.given_up == {"bitfit", "layernorm"}


def test_without_full_or_a_second_method_there_is_no_comparison(progress, jobs):
    with pytest.raises(SubtuneError, match=r"^full: no rows$"):
        loop._note(progress, Ended(jobs["full"], error="no rows"))
    loop._note(progress, Ended(jobs["embeddings"], error="no embeddings"))
    with pytest.raises(SubtuneError, match=r"^bitfit, layernorm: no rows$"):
        loop._note(progress, Ended(jobs["bitfit+layernorm"], error="no rows"))


def test_a_failing_table_ends_the_call_and_failing_rows_end_all_methods(progress):
    by_id = progress.schedule.jobs
    with pytest.raises(SubtuneError, match=r"^scores: no scores$"):
        loop._note(progress, Ended(by_id["scores", "mine"], error="no scores"))
    with pytest.raises(SubtuneError, match=r"^no tokens$"):
        loop._note(progress, Ended(by_id["tokens", "t"], error="no tokens"))


def test_a_job_whose_worker_ended_is_done_once_more_by_itself(progress, jobs, lines):
    end = Ended(jobs["embeddings"], exit_status=-signal.SIGKILL)
    loop._note(progress, end)
    assert not progress.given_up
    loop._note(progress, end)
    killed = "its process was killed, as if there were too little memory"
    assert lines == [
        f"embeddings: {killed}; tried again, with nothing beside it",
        f"without embeddings: {killed}",
    ]


def test_a_job_that_was_stopped_is_not_done(progress, jobs):
    loop._note(progress, Ended(jobs["embeddings"], stopped=True))
    assert progress.done == {("tokens", "t")}


def test_a_second_interrupt_ends_the_call(tmp_path, monkeypatch, lines):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_train", interrupt)
    monkeypatch.setattr(loop, "_judge", interrupt)
    with pytest.raises(KeyboardInterrupt):
        loop.train_and_judge(comparison(), tmp_path, Clock(0, 60), at_once=1, lock=0)
    assert lines == ["stopping: what is there is judged; another interrupt ends this at once"]


def test_time_is_kept_for_tables(progress):
    assert progress.seconds_of_training == 52
    progress.seconds_of_answer = 5
    assert progress.seconds_of_training == 48
