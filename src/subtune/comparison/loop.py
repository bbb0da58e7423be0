"""The driver of a comparison: workers do its jobs until the answer is complete, or time is up."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from subtune.comparison.schedule import (
    FULL,
    TABLES,
    Key,
    Schedule,
    Scores,
    find_done_jobs,
    job_key,
    next_jobs,
)
from subtune.comparison.workers import LONGEST_WAIT, Ended, Workers, end_in_words
from subtune.core.errors import SubtuneError, listed
from subtune.core.files import Layout, write_text
from subtune.runs.learning_rates import best_rate, describe_search, recorded_scores
from subtune.runs.records import is_recorded
from subtune.steps.jobs import Job, Paths, files, run_job

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

    @property
    def so_far(self) -> Path:
        """The folder for the inputs of early tables."""
        return self.results / "so_far"

    def log(self, job: Job) -> Path:
        """Return the log of a job."""
        return Path(Layout(str(self.results)).log(job.step, job.id))

    def scores(self) -> dict[str, dict[float, float]]:
        """Return the scores of each search's recorded runs."""
        searches = self.schedule.searches.items()
        return {id: recorded_scores(spec, self.store) for id, spec in searches}

    def recorded_runs(self, scores: Scores) -> dict[str, str]:
        """Return the recorded run of each planned run that has one, by key.

        While a search is not finished, its runs are those at the best learning rate so far.
        """
        searches, runs = self.schedule.searches, {}
        rates = {id: best_rate(searches[id], tried) for id, tried in scores.items() if tried}
        for key, planned in self.schedule.planned.items():
            if planned.search is None or planned.search in rates:
                run = planned.with_found_rate(rates)
                if is_recorded(self.store, run.id):
                    runs[key] = run.id
        return runs

    def can_be_judged(self, runs: Mapping[str, str]) -> bool:
        """Return whether two methods have a run."""
        return len({self.schedule.planned[key].method for key in runs}) > 1

    def judging_jobs(self, runs: Mapping[str, str], scores: Scores) -> list[Job]:
        """Return the jobs that make tables, as if only the recorded runs were planned.

        They read files that this function writes, in place of the files of sweeps and searches.
        """
        table, searches = self.so_far / "runs.csv", []
        write_text(table, "".join(f"{key},{run}\n" for key, run in [("key", "run"), *runs.items()]))
        for id, spec in self.schedule.searches.items():
            if scores.get(id):
                searches.append(str(self.so_far / f"{id}.json"))
                write_text(Path(searches[-1]), json.dumps({id: describe_search(spec, scores[id])}))
        read: Paths = {"sweeps": [str(table)], "searches": searches}
        jobs = []
        for job in self.schedule.jobs.values():
            if job.step in TABLES:
                inputs = {name: read.get(name, paths) for name, paths in job.inputs.items()}
                jobs.append(job._replace(inputs=inputs))
        return jobs


def train_and_judge(
    schedule: Schedule, results: Path, clock: Clock, at_once: int, lock: int
) -> None:
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
    progress = Progress(schedule, results, clock, find_done_jobs(schedule))
    if progress.is_complete:
        _say(f"all {len(schedule.planned)} runs were recorded before")
        return
    workers, interrupt = Workers(at_once, results, lock), None
    try:
        try:
            _train(progress, workers)
        except KeyboardInterrupt as error:
            interrupt = error
            _say("stopping: what is there is judged; another interrupt ends this at once")
        if not progress.is_complete:
            for ended in workers.stop(SECONDS_TO_STOP):
                if ended.error is None and ended.exit_status is None:
                    _note(progress, ended)
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


def _start(progress: Progress, workers: Workers) -> None:
    """Give a job to each free worker. A job whose worker ended before runs alone."""
    if not workers.free:
        return
    given_up, running = progress.given_up, workers.running
    jobs = next_jobs(progress.schedule, progress.done, progress.scores(), running, given_up)
    for job in jobs[: workers.free]:
        alone = any(job_key(one) in progress.ended_early for one in (job, *workers.running))
        if alone and workers.running:
            return
        workers.start(job, progress.log(job))


def _note(progress: Progress, ended: Ended) -> None:
    """Note that a job is done, or that it failed."""
    job, key = ended.job, job_key(ended.job)
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
    return listed(sorted(progress.schedule.methods_needing(job)) or [job.step])


def _give_up(progress: Progress, job: Job, why: str) -> None:
    """Leave out the methods that need a job.

    Raises:
        SubtuneError: without them there is no comparison, or the job makes tables.
    """
    lost = progress.schedule.methods_needing(job)
    methods = {run.method for run in progress.schedule.planned.values()}
    if not lost or FULL in lost or len(methods - progress.given_up - lost) < 2:
        raise SubtuneError(why if lost == methods else f"{_named(progress, job)}: {why}")
    progress.given_up |= lost
    _say(f"without {_named(progress, job)}: {why}")


def _judge(progress: Progress, workers: Workers, interrupt: KeyboardInterrupt | None) -> None:
    """Make the tables of the runs that are recorded.

    Raises:
        SubtuneError: fewer than two methods can be compared, or a table cannot be made.
        KeyboardInterrupt: fewer than two methods can be compared, after an interrupt.
    """
    scores = progress.scores()
    runs = progress.recorded_runs(scores)
    if not progress.can_be_judged(runs):
        raise interrupt or SubtuneError(
            "--minutes: the time is over before two methods have a run; the same call with more "
            "minutes goes on from here"
        )
    jobs = progress.judging_jobs(runs, scores)
    tables = Schedule({job_key(job): job for job in jobs})
    done: set[Key] = set()
    while len(done) < len(jobs):
        for job in next_jobs(tables, done, {}, workers.running)[: workers.free]:
            workers.start(job, progress.log(job))
        if ended := workers.next_end(LONGEST_WAIT):
            if ended.exit_status is not None or ended.error is not None:
                raise SubtuneError(ended.error or end_in_words(ended.exit_status or 0))
            done.add(job_key(ended.job))
    for job in jobs:
        # Outputs that are older than the configuration are made again by the next call.
        seconds = Path(job.inputs["configuration"]).stat().st_mtime - 1
        for path in files(job.outputs):
            os.utime(path, (seconds, seconds))


def _line(progress: Progress) -> str:
    """Return a line about the time, the runs, and the answer so far."""
    schedule, scores = progress.schedule, progress.scores()
    runs = progress.recorded_runs(scores)
    times = map(tqdm.format_interval, (progress.clock.passed, progress.clock.seconds))
    line = f"{' of '.join(times)}  {len(runs)} of {len(schedule.planned)} runs"
    tried = {
        spec.run.with_learning_rate(rate).id
        for id, spec in schedule.searches.items()
        for rate in scores[id]
    } - {*runs.values()}
    if tried:
        line += f", and {len(tried)} with other learning rates"
    if progress.can_be_judged(runs) and (answer := _answer_so_far(progress, runs, scores)):
        line += f"; so far: {answer}"
    return line


def _answer_so_far(progress: Progress, runs: Mapping[str, str], scores: Scores) -> str:
    """Return the answer so far in a few words, or an empty text. Note how long it takes."""
    # Importing them takes seconds, once.
    from subtune.analysis.answer import find_answers, short_answer
    from subtune.analysis.run_scores import read_row_scores
    from subtune.analysis.tables import read_table

    began, found = time.monotonic(), []
    with contextlib.suppress(SubtuneError, OSError):
        for job in progress.judging_jobs(runs, scores):
            if job.step == "scores":
                made: dict[str, Any] = {
                    name: str(progress.so_far / job.id / Path(str(path)).name)
                    for name, path in job.outputs.items()
                }
                run_job(job._replace(outputs=made))
                chosen = read_table(made["chosen"])
                row_scores = read_row_scores([made["row_scores"]])
                found += find_answers(chosen, row_scores)
        seconds = time.monotonic() - began
        progress.seconds_of_answer = max(progress.seconds_of_answer, seconds)
    return "; ".join(map(short_answer, found))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
