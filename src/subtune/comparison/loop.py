"""The loop of a comparison: workers train what comes next, until everything is recorded or time is
up. `subtune.comparison.next_runs` decides what comes next.
"""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from subtune.comparison.first_configuration import EXPERIMENT
from subtune.comparison.next_runs import FULL, Method, Progress, next_runs
from subtune.comparison.recorded_results import AnswerSoFar, find_answer_so_far, write_results
from subtune.comparison.workers import LONGEST_WAIT, Ended, Workers, end_in_words
from subtune.core.errors import SubtuneError, listed
from subtune.core.ids import content_id
from subtune.core.process import stop_requests
from subtune.plan.cost import Cost
from subtune.runs.records import list_run_ids, read_outcome
from subtune.runs.spec import Fit, PlannedRun
from subtune.steps import dataset, fisher, model, ranking, tokens
from subtune.steps.context import Context
from subtune.steps.jobs import Job, files

SECONDS_BETWEEN_LINES = 30
# The most seconds for a worker's last step and its checkpoint.
SECONDS_TO_STOP = 10
# The time that is kept for tables, figures and the report: a multiple of the slowest answer so far
# or, before the first one, a share of the call. It has a minimum in seconds and a maximum share.
TIMES_AN_ANSWER, LEAST_SECONDS, MOST_SHARE, FIRST_SHARE = 4, 8, 0.2, 0.12
NO_ANSWER = AnswerSoFar("", set())


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
class Loop:
    """What a call knows of its runs.

    Attributes:
        context: the plan.
        clock: the times at which the call began and must end.
        scores: the score of each recorded run, by id; NaN if it diverged.
        left_out: the methods that failed.
        ended_early: the ids of jobs whose worker ended, which are done once more.
        answer: the answer so far.
        seconds_of_answer: how long the slowest answer so far took; 0 before the first.
    """

    context: Context
    clock: Clock
    scores: dict[str, float] = field(default_factory=dict)
    left_out: set[Method] = field(default_factory=set)
    ended_early: set[str] = field(default_factory=set)
    answer: AnswerSoFar = NO_ANSWER
    seconds_of_answer: float = 0

    @cached_property
    def planned(self) -> list[PlannedRun]:
        """The planned runs."""
        return [run for runs in self.context.plan.experiments.values() for run in runs]

    @property
    def progress(self) -> Progress:
        """The plan, and what is recorded of it."""
        return Progress(self.planned, self.context.plan.searches, self.scores, self.left_out)

    @property
    def seconds_of_training(self) -> float:
        """The seconds after which no job trains, so that there is time for tables."""
        seconds = self.clock.seconds
        kept = FIRST_SHARE * seconds
        if self.seconds_of_answer:
            kept = TIMES_AN_ANSWER * self.seconds_of_answer
        return seconds - max(LEAST_SECONDS, min(kept, MOST_SHARE * seconds))

    @cached_property
    def makers(self) -> dict[str, Job]:
        """The job that makes each file that training reads, by its path."""
        steps = (dataset, model, tokens, fisher, ranking)
        made = chain(*(step.jobs(self.context) for step in steps))
        return {path: job for job in made for path in files(job.outputs)}

    def log(self, *parts: str) -> Path:
        """Return the path of a log."""
        return Path(self.context.paths.log(*parts))

    def read_scores(self) -> None:
        """Read the scores of the runs that have been recorded since the last time."""
        store, task = Path(self.context.paths.records()), self.planned[0].spec.tokens.data.task
        for run_id in {*list_run_ids(store)} - self.scores.keys():
            outcome = read_outcome(store, run_id)
            of_split = outcome["scores"].get(task.evaluation[0], {})
            self.scores[run_id] = of_split.get(task.metrics[0], math.nan)

    def next_jobs(self, running: Iterable[Job] = ()) -> Iterator[Job]:
        """Yield jobs that can start, the most useful first.

        Each trains runs that share steps, or makes a file that training reads.
        """
        on_gpu, makers = self.context.config.assumptions.on_gpu, self.makers
        ranked = self.context.plan.ranked
        started = {run.spec.id for job in running for run in _runs_of(job)}
        for _, runs in next_runs(self.progress, self.answer.unlikely):
            groups: dict[Hashable, list[PlannedRun]] = {}
            for run in runs:
                # Each regression is a job.
                is_fit = isinstance(run.spec.recipe, Fit)
                shared = run.spec.id if is_fit else run.spec.step_key(ranked, on_gpu)
                if run.spec.id not in started:
                    groups.setdefault(shared, []).append(run)
            for group in groups.values():
                yield from _without_missing_inputs(self._training_job(group), makers)

    def _training_job(self, runs: list[PlannedRun]) -> Job:
        """Return a job that trains runs, and has no outputs beside their records."""
        name = content_id([run.spec.id for run in runs])
        inputs = self.context.training_inputs(runs)
        needed = self.context.training_resources(runs, Cost(), name)
        spec = {"runs": [run.written() for run in runs]}
        return Job("train", name, spec, inputs | {"searches": []}, {}, needed)

    def methods_needing(self, job: Job) -> set[Method]:
        """Return the methods that need a job, as names of model and method."""
        runs = _runs_of(job)
        if job.step != "train":
            runs = [run for run in self.planned if job in self._makers_for(run)]
        return {(run.model_name, run.method) for run in runs}

    def _makers_for(self, run: PlannedRun) -> list[Job]:
        """Return the jobs that make what a run reads."""
        jobs = list[Job]()
        paths = files(self.context.training_inputs([run]))
        while paths:
            made = [self.makers[path] for path in paths]
            jobs += made
            paths = [path for job in made for path in files(job.inputs)]
        return jobs


def _runs_of(job: Job) -> list[PlannedRun]:
    """Return the runs that a job trains."""
    return [PlannedRun.model_validate(run) for run in job.spec.get("runs", ())]


def _without_missing_inputs(job: Job, makers: Mapping[str, Job]) -> Iterator[Job]:
    """Yield a job, or the jobs that make those of its inputs that are not there."""
    missing = [path for path in files(job.inputs) if not Path(path).exists()]
    if not missing:
        yield job
    for path in missing:
        yield from _without_missing_inputs(makers[path], makers)


def train_and_judge(context: Context, clock: Clock, workers: Workers) -> None:
    """Train the runs of a comparison within the clock's time, and write its tables.

    At the end of the time, or after an interrupt, workers write checkpoints, from which the next
    call continues, and the runs that are recorded give the answer.

    Raises:
        SubtuneError: full fine-tuning failed, fewer than two methods are left, or no run is
            recorded at the end of the time.
        KeyboardInterrupt: this is the second interrupt, or no run is recorded.
    """
    state = Loop(context, clock)
    state.read_scores()
    if not [*state.next_jobs()]:
        _say(f"all {len(state.planned)} runs were recorded before")
    # An interrupt in the middle of an import would be another error.
    is_main = threading.current_thread() is threading.main_thread()
    with stop_requests() if is_main else nullcontext(lambda: None) as stopping:
        _train(state, workers, stopping)
        interrupted = bool(stopping())
    if interrupted:
        _say("stopping: what is there is judged; another interrupt ends this at once")
    workers.stop(SECONDS_TO_STOP)
    state.read_scores()
    if not state.progress.find_recorded():
        if interrupted:
            raise KeyboardInterrupt
        raise SubtuneError(
            "--minutes: the time is over before a method has a run; the same call with more "
            "minutes goes on from here"
        )
    write_results(context, state.progress, state.log("tables"))


def _train(state: Loop, workers: Workers, stopping: Callable[[], str | None]) -> None:
    """Train all runs, or those for which there is time before ``stopping`` returns a signal."""
    clock, next_line, answered = state.clock, float(SECONDS_BETWEEN_LINES), 0
    while clock.passed < state.seconds_of_training and not stopping():
        _start(state, workers)
        if not workers.running:
            return
        until = min(next_line, state.seconds_of_training, clock.passed + LONGEST_WAIT)
        if ended := workers.next_end(until - clock.passed):
            _note(state, ended)
        state.read_scores()
        before, recorded = state.answer.line, len(state.progress.find_recorded())
        if recorded > answered:
            answered = recorded
            _find_answer(state)
        if state.answer.line != before or clock.passed >= next_line:
            _say(_line(state))
            next_line = clock.passed + SECONDS_BETWEEN_LINES


def _start(state: Loop, workers: Workers) -> None:
    """Give a job to each free worker.

    A job whose worker ended before runs alone. Files that training reads are made one after the
    other, which takes less time than the imports of another worker.
    """
    while workers.free:
        running = {job.id for job in workers.running}
        waiting = (job for job in state.next_jobs(workers.running) if job.id not in running)
        job = next(waiting, None)
        if job is None:
            return
        others = (other.step for other in workers.running if other.step != "train")
        if job.step != "train" and any(others):
            return
        if running and not state.ended_early.isdisjoint({job.id, *running}):
            return
        workers.start(job, state.log(job.step, job.id))


def _note(state: Loop, ended: Ended) -> None:
    """Note that a job failed, or that its worker ended."""
    job = ended.job
    if ended.exit_status is not None and job.id not in state.ended_early:
        state.ended_early.add(job.id)
        line = f"{_name_methods(state, job)}: {end_in_words(ended.exit_status)}"
        _say(f"{line}; tried again, with nothing beside it")
    elif ended.exit_status is not None:
        _leave_out(state, job, end_in_words(ended.exit_status))
    elif ended.error is not None:
        _leave_out(state, job, ended.error)


def _name_methods(state: Loop, job: Job) -> str:
    """Return the methods that need a job, or the model if these are all its methods."""
    needing = state.methods_needing(job)
    models = {run.model_name for run in state.planned}
    if len(models) == 1:
        return listed(sorted(method for _, method in needing))
    return listed(sorted(f"{method} of {model}" for model, method in needing))


def _leave_out(state: Loop, job: Job, why: str) -> None:
    """Leave out the methods that need a job, and a model without full fine-tuning.

    Raises:
        SubtuneError: no model is left with full fine-tuning and another method.
    """
    every = {(run.model_name, run.method) for run in state.planned}
    lost = state.methods_needing(job)
    left = every - state.left_out - lost
    kept = {model for model, method in left if method == FULL}
    left = {(model, method) for model, method in left if model in kept}
    if len(left) <= len(kept):
        raise SubtuneError(why if lost == every else f"{_name_methods(state, job)}: {why}")
    state.left_out = every - left
    gone = listed(sorted({model for model, _ in lost} - kept)) or _name_methods(state, job)
    _say(f"without {gone}: {why}")


def _find_answer(state: Loop) -> None:
    """Find the answer so far, and note how long this takes."""
    began = time.monotonic()
    with contextlib.suppress(SubtuneError, OSError):
        state.answer = find_answer_so_far(state.context, state.progress)
    seconds = time.monotonic() - began
    state.seconds_of_answer = max(state.seconds_of_answer, seconds)


def _line(state: Loop) -> str:
    """Return a line about the time, the runs, and the answer so far."""
    found = state.progress.find_recorded()
    recorded = {run.id for run in found.values()}
    times = map(tqdm.format_interval, (state.clock.passed, state.clock.seconds))
    # Floors on fewer rows are not counted.
    keys = {run.key for run in state.context.plan.runs_on_most_rows(EXPERIMENT)}
    line = f"{' of '.join(times)}  {len(keys & found.keys())} of {len(keys)} runs"
    tried = {
        search.run.with_learning_rate(rate).id
        for id, search in state.context.plan.searches.items()
        for rate in state.progress.tried_rates(id)
    }
    if others := len(tried - recorded):
        line += f", and {others} with other learning rates"
    return f"{line}; so far: {state.answer.line}" if state.answer.line else line


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
