"""The driver of a comparison: workers do its jobs until the answer is complete, or time is up."""

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from subtune.comparison.schedule import (
    FULL,
    Key,
    Schedule,
    can_be_judged,
    done_before,
    few_words,
    judging_jobs,
    key_of,
    next_jobs,
    recorded,
)
from subtune.comparison.workers import LONGEST_WAIT, Ended, Workers, end_in_words
from subtune.core.errors import SubtuneError, listed
from subtune.core.layout import Layout
from subtune.runs.search import recorded_scores, tried_scores
from subtune.steps.job import Job, files

SECONDS_BETWEEN_LINES = 30
# The most seconds for a worker's last step and its checkpoint.
SECONDS_TO_STOP = 10
# The time that is kept for the tables of an early answer: a multiple of the slowest answer so far,
# or, before the first answer, a share of the call. It has a minimum in seconds and a maximum share.
TIMES_AN_ANSWER, LEAST_SECONDS, MOST_SHARE, FIRST_SHARE = 4, 8, 0.2, 0.12


class Clock(NamedTuple):
    """The times of `time.monotonic` at which a call began, and at which it must end."""

    began: float
    ends: float

    @property
    def passed(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def seconds(self) -> float:
        """The seconds from the beginning to the end."""
        return self.ends - self.began


@dataclass
class Progress:
    """Which jobs of a schedule are done, and which methods have failed.

    Attributes:
        schedule: the jobs.
        results: the directory of the results.
        clock: the times at which the call began and must end.
        done: the jobs that are done.
        given_up: the methods that are left out.
        ended_early: the jobs whose worker ended, which are done once more.
        seconds_of_answer: how long the slowest answer so far took; 0 before the first.
    """

    schedule: Schedule
    results: Path
    clock: Clock
    done: set[Key]
    given_up: set[str] = field(default_factory=set)
    ended_early: set[Key] = field(default_factory=set)
    seconds_of_answer: float = 0

    @property
    def seconds_of_training(self) -> float:
        """The seconds after which no job trains, so that there is time for tables."""
        seconds = self.clock.seconds
        kept = FIRST_SHARE * seconds
        if self.seconds_of_answer:
            kept = TIMES_AN_ANSWER * self.seconds_of_answer
        return seconds - max(LEAST_SECONDS, min(kept, MOST_SHARE * seconds))

    @property
    def store(self) -> Path:
        """The directory of records."""
        return Path(Layout(str(self.results)).records())

    @property
    def is_complete(self) -> bool:
        """Whether every job is done."""
        return len(self.done) == len(self.schedule.jobs)


def answer(schedule: Schedule, results: Path, clock: Clock, at_once: int, lock: int) -> None:
    """Do the jobs of a comparison within the clock's time, and write its tables.

    At the end of the time, or after an interrupt, workers write checkpoints, from which the next
    call continues, and the runs that are recorded are judged.

    Args:
        at_once: the number of jobs that are done side by side.
        lock: a locked file's descriptor, which workers hold until they end.

    Raises:
        SubtuneError: full fine-tuning failed, or fewer than two methods can be compared.
        KeyboardInterrupt: this is the second interrupt, or nothing can be judged yet.
    """
    progress = Progress(schedule, results, clock, done_before(schedule))
    if progress.is_complete:
        _say(f"all {len(schedule.planned)} runs were recorded before")
        return
    workers, interrupt = Workers(at_once, results, results, lock), None
    try:
        try:
            _train(progress, workers)
        except KeyboardInterrupt as error:
            interrupt = error
            _say("stopping: what is there is judged; another interrupt ends this at once")
        if not progress.is_complete:
            _stop(progress, workers)
            _judge(progress, workers, interrupt)
    finally:
        workers.close()


def _train(progress: Progress, workers: Workers) -> None:
    """Do all jobs, or those for which there is time."""
    clock, next_line = progress.clock, SECONDS_BETWEEN_LINES
    while clock.passed < progress.seconds_of_training:
        _start(progress, workers)
        if not workers.running:
            return
        until = min(next_line, progress.seconds_of_training, clock.passed + LONGEST_WAIT)
        if ended := workers.next_end(until - clock.passed):
            _note(progress, ended)
        if clock.passed >= next_line:
            _say(_line(progress))
            next_line += SECONDS_BETWEEN_LINES


def _scores(progress: Progress) -> dict[str, dict[float, float]]:
    """Return each search's scores: from its file, or from its runs if it is not finished."""
    found = {}
    for id, spec in progress.schedule.searches.items():
        key = "search", id
        if key in progress.done:
            [path] = map(Path, files(progress.schedule.jobs[key].outputs))
            found[id] = tried_scores(json.loads(path.read_text(encoding="utf-8"))[id])
        else:
            found[id] = recorded_scores(spec, progress.store)
    return found


def _start(progress: Progress, workers: Workers) -> None:
    """Give a job to each free worker. A job whose worker ended before runs alone."""
    if not workers.free:
        return
    given_up, running = progress.given_up, workers.running
    jobs = next_jobs(progress.schedule, progress.done, _scores(progress), running, given_up)
    for job in jobs[: workers.free]:
        alone = any(key_of(one) in progress.ended_early for one in (job, *workers.running))
        if alone and workers.running:
            return
        workers.start(job, _log(progress, job))


def _log(progress: Progress, job: Job) -> Path:
    return Path(Layout(str(progress.results)).log(job.step, job.id))


def _note(progress: Progress, ended: Ended) -> None:
    """Note that a job is done, or that it failed."""
    job, key = ended.job, key_of(ended.job)
    if ended.exit_status is not None and key not in progress.ended_early:
        progress.ended_early.add(key)
        line = f"{_named(progress, job)}: {end_in_words(ended.exit_status)}"
        _say(f"{line}; tried again, with nothing beside it")
    elif ended.exit_status is not None:
        _give_up(progress, job, end_in_words(ended.exit_status))
    elif ended.error is not None:
        _give_up(progress, job, ended.error)
    elif not ended.stopped and key in progress.schedule.jobs:
        progress.done.add(key)


def _named(progress: Progress, job: Job) -> str:
    return listed(sorted(progress.schedule.methods_of(job)) or [job.step])


def _give_up(progress: Progress, job: Job, why: str) -> None:
    """Leave out the methods that need a job.

    Raises:
        SubtuneError: without them there is no comparison, or the job makes tables.
    """
    lost, methods = progress.schedule.methods_of(job), {*progress.schedule.methods.values()}
    if not lost or FULL in lost or len(methods - progress.given_up - lost) < 2:
        raise SubtuneError(why if lost == methods else f"{_named(progress, job)}: {why}")
    progress.given_up |= lost
    _say(f"without {_named(progress, job)}: {why}")


def _stop(progress: Progress, workers: Workers) -> None:
    """Stop all jobs."""
    for ended in workers.stop(SECONDS_TO_STOP):
        if ended.error is None and ended.exit_status is None:
            _note(progress, ended)


def _judge(progress: Progress, workers: Workers, interrupt: KeyboardInterrupt | None) -> None:
    """Make the tables of the runs that are recorded.

    Raises:
        SubtuneError: fewer than two methods can be compared, or a table cannot be made.
        KeyboardInterrupt: fewer than two methods can be compared, after an interrupt.
    """
    schedule, scores = progress.schedule, _scores(progress)
    runs = recorded(schedule, progress.store, scores)
    if not can_be_judged(schedule, runs):
        raise interrupt or SubtuneError(
            "minutes: the time is over before two methods have a run; the same call with more "
            "minutes goes on from here"
        )
    jobs = judging_jobs(schedule, progress.results, runs, scores, progress.given_up)
    tables = Schedule({key_of(job): job for job in jobs}, [])
    done: set[Key] = set()
    while len(done) < len(jobs):
        for job in next_jobs(tables, done, {}, workers.running)[: workers.free]:
            workers.start(job, _log(progress, job))
        if ended := workers.next_end(LONGEST_WAIT):
            if ended.exit_status is not None or ended.error is not None:
                raise SubtuneError(ended.error or end_in_words(ended.exit_status or 0))
            done.add(key_of(ended.job))
    for job in jobs:
        _make_older_than_configuration(job)


def _make_older_than_configuration(job: Job) -> None:
    """Date outputs before the configuration: the next call then makes them again."""
    seconds = Path(job.inputs["configuration"]).stat().st_mtime - 1
    for path in files(job.outputs):
        os.utime(path, (seconds, seconds))


def _line(progress: Progress) -> str:
    """Return a line about the time, the runs, and the answer so far."""
    schedule, scores = progress.schedule, _scores(progress)
    runs = recorded(schedule, progress.store, scores)
    words = _few_words(progress, runs, scores) if can_be_judged(schedule, runs) else ""
    times = map(tqdm.format_interval, (progress.clock.passed, progress.clock.seconds))
    line = f"{' of '.join(times)}  {len(runs)} of {len(schedule.planned)} runs"
    tried = {
        spec.run.with_learning_rate(rate).id
        for id, spec in schedule.searches.items()
        for rate in scores[id]
    } - {*runs.values()}
    if tried:
        line += f", and {len(tried)} with other learning rates"
    if words:
        line += f"; so far: {words}"
    return line


def _few_words(
    progress: Progress, runs: dict[str, str], scores: dict[str, dict[float, float]]
) -> str:
    """Return the answer so far, or an empty text. Note how long it takes."""
    # Importing it takes seconds, once.
    import subtune.exhibits.answer_tables  # noqa: F401

    before = time.monotonic()
    with contextlib.suppress(SubtuneError, OSError):
        given_up = progress.given_up
        words = few_words(progress.schedule, progress.results, runs, scores, given_up)
        seconds = time.monotonic() - before
        progress.seconds_of_answer = max(progress.seconds_of_answer, seconds)
        return words
    return ""


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
