"""Train the runs of a comparison in worker processes until the end or the time limit."""

import contextlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, takewhile
from pathlib import Path
from typing import NamedTuple, Self

from tqdm import tqdm

from subtune.comparison import DEFAULTS
from subtune.comparison.first_configuration import EXPERIMENT
from subtune.comparison.next_runs import Method, Progress, Stage, rank_missing_runs
from subtune.comparison.recorded_results import ResultsWriter, find_answer_so_far
from subtune.comparison.settings import OTHER_SECONDS, bound_total_seconds
from subtune.comparison.workers import LONGEST_WAIT, EndedJob, Workers
from subtune.core.errors import SubtuneError, format_count, join_names
from subtune.core.ids import content_id
from subtune.core.process import print_line, process_age, stop_requests
from subtune.methods import FULL
from subtune.plan.cost import Cost
from subtune.runs import records
from subtune.runs.learning_rates import complete_runs, follow_search
from subtune.runs.spec import PlannedRun, Recipe
from subtune.steps import dataset, fisher, gradient, mask, model, tokens
from subtune.steps.context import Context
from subtune.steps.jobs import Job, Paths, list_files

# The shortest time limit. Reading tables and measuring the machine may take half of it.
LEAST_MINUTES = 0.5
# The maximum time between two lines that report the progress.
SECONDS_BETWEEN_LINES = 30
# After an interrupt, workers have this time to end their current training step and to write a
# checkpoint. At the deadline, they may do this while the results are written.
SECONDS_TO_STOP = 10
# The time that is reserved for the results: `SECONDS_TO_EXIT`, and `TIMES_THE_RESULTS` times the
# seconds that the last results took. Results may exceed the time limit by `SECONDS_LATE`.
SECONDS_TO_EXIT, TIMES_THE_RESULTS, SECONDS_LATE = 1.5, 1.3, 3
# The last line of a call says what this many further minutes would add.
MORE_MINUTES = 10


class TimeLimit(NamedTuple):
    """The start of a call, as a value of `time.monotonic`, and its time limit in seconds.

    If ``is_process``, the process runs nothing but this call, so it may be ended.
    """

    start: float
    time_limit: float
    is_process: bool = False

    @classmethod
    def start_now(cls, minutes: float, is_process: bool = False) -> Self:
        """Start the time limit now or, if ``is_process``, at the start of the process."""
        start = time.monotonic() - (process_age() if is_process else 0)
        return cls(start, 60 * max(minutes, LEAST_MINUTES), is_process)

    @property
    def elapsed_seconds(self) -> float:
        return time.monotonic() - self.start

    @property
    def remaining_seconds(self) -> float:
        """The seconds until the deadline. They are negative afterwards."""
        return self.time_limit - self.elapsed_seconds


@dataclass
class Loop:
    """The state of a comparison while its runs are trained.

    Attributes:
        crashed: the ids of runs, and of jobs without runs, that are repeated because their worker
            process crashed.
        answer: the answer from the runs recorded so far, as one line.
        unlikely: the methods that are unlikely to be the answer.
        lacks_memory: whether a job had to wait because memory was used up.
        masks: the files of the masks with which ``progress`` is completed.
    """

    context: Context
    clock: TimeLimit
    crashed: set[str] = field(default_factory=set)
    answer: str = ""
    unlikely: set[Method] = field(default_factory=set)
    lacks_memory: bool = False
    masks: set[str] = field(default_factory=set)

    @cached_property
    def writer(self) -> ResultsWriter:
        """The writer of the results. When it is created, it begins to import libraries."""
        return ResultsWriter(self.context)

    @cached_property
    def progress(self) -> Progress:
        """The planned runs and searches, the scores of the recorded runs, and failed methods."""
        return Progress([*chain(*self.context.plan.experiments.values())], {}, set())

    @property
    def seconds_of_training(self) -> float:
        """The seconds available for training. The remaining time is for the results.

        Until results are written for the first time, it is unknown how long this takes. The first
        results are started as soon as a run is recorded. If no time is left to write them again,
        they are the final results.
        """
        reserved = SECONDS_TO_EXIT + TIMES_THE_RESULTS * self.writer.seconds
        return self.clock.time_limit - reserved

    @cached_property
    def jobs_by_output(self) -> dict[str, Job]:
        """A mapping from each file that training needs to the job that writes the file."""
        steps = (dataset, model, tokens, fisher, gradient, mask)
        jobs = chain(*(step.jobs(self.context) for step in steps))
        return {path: job for job in jobs for path in list_files(job.outputs)}

    def read_scores(self) -> None:
        """Read the scores of the runs that were recorded since the last call to this method."""
        store, scores = Path(self.context.layout.records()), self.progress.scores
        task = self.progress.planned[0].spec.tokens.data.task
        masks = {*filter(os.path.exists, self.context.list_masks(self.progress.planned))}
        if masks - self.masks:
            runs = complete_runs(self.progress.planned, masks)
            self.masks, self.progress = masks, self.progress._replace(planned=runs)
        for run_id in {*records.list_run_ids(store)} - scores.keys():
            scores[run_id] = records.first_score(records.read_outcome(store, run_id), task)

    def find_answer(self) -> None:
        """Update ``answer`` and ``unlikely`` from the recorded runs, unless a file is missing."""
        with contextlib.suppress(SubtuneError, OSError):
            self.answer, self.unlikely = find_answer_so_far(self.context, self.progress)

    def sum_recorded_seconds(self, runs: Iterable[str]) -> float:
        store = Path(self.context.layout.records())
        return sum(records.total_seconds(records.read_epochs(store, run)) for run in runs)

    def report_progress(self) -> None:
        print_line(_format_progress(self))

    def next_jobs(self, running: Iterable[Job] = ()) -> Iterator[Job]:
        """Yield the jobs that can start now alongside ``running`` jobs, the most useful first."""
        started = {run.spec.id for job in running for run in _read_runs(job)}
        for _, runs in rank_missing_runs(self.progress, self.unlikely):
            waiting = (run for run in runs if run.spec.id not in started)
            for group in self.context.plan.group_runs(waiting):
                yield from _jobs_that_can_start(self._make_training_job(group), self.jobs_by_output)

    def _make_training_job(self, runs: list[PlannedRun]) -> Job:
        """Build a job that trains some runs, and writes nothing but their records."""
        name = content_id([run.spec.id for run in runs])
        inputs = self.context.training_inputs(runs)
        needed = self.context.training_resources(runs, Cost())
        is_fit = runs[0].spec.is_baseline
        needed["memory_kind"] = f"{runs[0].model_name} {'fit' if is_fit else 'train'}"
        spec = {"runs": [run.json_types for run in runs]}
        return Job("train", name, spec, inputs | {"searches": []}, {}, needed)

    def methods_needing(self, job: Job) -> set[Method]:
        """Return the methods that depend on a job, as pairs of a model name and a method name."""
        runs = _read_runs(job)
        if job.step != "train":
            inputs_of = self.context.training_inputs
            runs = [run for run in self.progress.planned if self._needs(inputs_of([run]), job)]
        return {(run.model_name, run.method) for run in runs}

    def _needs(self, inputs: Paths, job: Job) -> bool:
        """Return whether a job directly or indirectly writes one of the input files."""
        # The user's own files are not written by jobs.
        paths = filter(self.jobs_by_output.__contains__, list_files(inputs))
        writers = map(self.jobs_by_output.__getitem__, paths)
        return any(writer == job or self._needs(writer.inputs, job) for writer in writers)


def _read_runs(job: Job) -> list[PlannedRun]:
    """Parse the runs in the spec of a training job. Other jobs have no runs."""
    return [PlannedRun.model_validate(run) for run in job.spec.get("runs", ())]


def _list_run_or_job_ids(*jobs: Job) -> set[str]:
    """Return the ids of the runs that jobs train, and the ids of jobs that train no runs."""
    return {id for job in jobs for id in [run.spec.id for run in _read_runs(job)] or [job.id]}


def _jobs_that_can_start(job: Job, jobs_by_output: Mapping[str, Job]) -> Iterator[Job]:
    """Yield a job if its inputs exist; otherwise, the jobs that must run first and can start."""
    missing = [path for path in list_files(job.inputs) if not Path(path).exists()]
    writers = [jobs_by_output[path] for path in missing if path in jobs_by_output]
    if not writers:
        yield job
    for writer in writers:
        yield from _jobs_that_can_start(writer, jobs_by_output)


def train_within_time_limit(context: Context, clock: TimeLimit, workers: Workers) -> None:
    """Train the runs of a comparison until the deadline, and write tables, figures and the report.

    At the deadline, or after an interrupt, the answer is computed from the recorded runs. In the
    meantime, workers write checkpoints of unfinished runs, from which the next call continues.
    Workers that do not stop in time are killed.

    Raises:
        SubtuneError: full fine-tuning failed, fewer than two methods are left, or no run is
            recorded at the deadline.
        KeyboardInterrupt: a second interrupt, or an interrupt before any run is recorded.
    """
    state = Loop(context, clock)
    state.read_scores()
    is_complete = not [*state.next_jobs()]
    if is_complete:
        print_line(f"all {len(state.progress.planned)} runs are already recorded")
    # Interrupts are caught, because an interrupt during an import may raise an error other than
    # KeyboardInterrupt.
    is_main = threading.current_thread() is threading.main_thread()
    with stop_requests() if is_main else nullcontext(lambda: None) as stopping:
        train_until_stopped(state, workers, stopping)
        interrupted = bool(stopping())
    if interrupted:
        print_line(
            "stopping: computing the answer from the recorded runs; to end at once, interrupt again"
        )
    state.read_scores()
    # If nothing was left to train, the call only writes results.
    seconds = max(clock.remaining_seconds + SECONDS_LATE, 0)
    seconds = threading.TIMEOUT_MAX if is_complete else min(seconds, threading.TIMEOUT_MAX)
    if not state.progress.join_recorded_runs():
        workers.stop(min(SECONDS_TO_STOP, seconds))
        if interrupted:
            raise KeyboardInterrupt
        raise SubtuneError(
            "--minutes: the time ran out before any run was recorded; to continue, run the "
            "comparison again with more minutes"
        )
    stop = threading.Thread(target=workers.stop, args=[min(SECONDS_TO_STOP, seconds)], daemon=True)
    stop.start()
    recorded = len(state.progress.scores)
    if not state.writer.finish(recorded, seconds):
        is_old = state.writer.answered < recorded
        lacking = "the answer below and report.html lack" if is_old else "report.html may lack"
        print_line(
            f"the time is up: {lacking} the last recorded runs; to update them, run the comparison "
            "again"
        )
        if is_old and state.answer:
            print_line(f"the newest answer: {state.answer}")
    stop.join()
    if not (is_complete or interrupted):
        for line in _describe_runs(state, workers.number):
            print_line(line)


def train_until_stopped(state: Loop, workers: Workers, stopping: Callable[[], str | None]) -> None:
    """Train runs until all are recorded, the time is up, or ``stopping`` returns a signal."""
    clock, next_line = state.clock, float(SECONDS_BETWEEN_LINES)
    answered, seconds_of_answer = set[str](), 0.0
    while clock.elapsed_seconds < state.seconds_of_training and not stopping():
        # Methods that are unlikely to be the answer start last, even if this is known from the
        # runs of an earlier call.
        # A better learning rate replaces runs, so their number may stay the same.
        before = state.answer
        recorded = {row["run"] for row in state.progress.join_recorded_runs()}
        start = clock.elapsed_seconds
        if recorded != answered and start < state.seconds_of_training - seconds_of_answer:
            state.find_answer()
            answered, seconds_of_answer = recorded, clock.elapsed_seconds - start
        if state.answer != before or clock.elapsed_seconds >= next_line:
            state.report_progress()
            next_line = clock.elapsed_seconds + SECONDS_BETWEEN_LINES
        _start_jobs(state, workers)
        if not workers.running:
            return
        if recorded:
            state.writer.write_early(len(state.progress.scores), clock.elapsed_seconds)
        until = min(next_line, state.seconds_of_training, clock.elapsed_seconds + LONGEST_WAIT)
        if ended := workers.next_end(until - clock.elapsed_seconds):
            _handle_ended_job(state, ended)
        state.read_scores()


def _start_jobs(state: Loop, workers: Workers) -> None:
    """Start a job in each free worker.

    A job waits if it may not fit into memory alongside the running jobs. Runs whose worker process
    crashed are repeated while no other job is running. Jobs without training run one at a time,
    because each takes less time than the imports of a new worker.
    """
    while len(workers.running) < workers.number:
        running = {job.id for job in workers.running}
        waiting = (job for job in state.next_jobs(workers.running) if job.id not in running)
        job = next(waiting, None)
        if job is None:
            return
        if job.step != "train" and any(other.step != "train" for other in workers.running):
            return
        if running and not state.crashed.isdisjoint(_list_run_or_job_ids(job, *workers.running)):
            return
        if lack := workers.find_lack_of_memory(job):
            if not state.lacks_memory:
                print_line(lack)
            state.lacks_memory = True
            return
        workers.start(job, Path(state.context.layout.log(job.step, job.id)))


def _handle_ended_job(state: Loop, ended: EndedJob) -> None:
    """Repeat a job once if its worker process crashed. If a job failed, leave out its methods."""
    job, error = ended.job, ended.error
    if ended.has_crashed and state.crashed.isdisjoint(_list_run_or_job_ids(job)):
        state.crashed |= _list_run_or_job_ids(job)
        line = f"{_name_methods(state, job)}: {error}"
        print_line(f"{line}; the job will be repeated when no other job is running")
    elif error is not None:
        _leave_out(state, job, error)


def _name_methods(state: Loop, job: Job) -> str:
    """Format the methods that depend on a job, with their models if several models are compared."""
    needing = state.methods_needing(job)
    models = {run.model_name for run in state.progress.planned}
    if len(models) == 1:
        return join_names(sorted(method for _, method in needing))
    return join_names(sorted(f"{method} of {model}" for model, method in needing))


def _leave_out(state: Loop, job: Job, why: str) -> None:
    """Leave out the methods that depend on a failed job.

    A model is left out completely if its full fine-tuning is left out. TF-IDF belongs to no model.
    If no model is left with full fine-tuning and another method, a `SubtuneError` is raised.
    """
    planned, left_out = state.progress.planned, state.progress.left_out
    every = {(run.model_name, run.method) for run in planned}
    of_texts = {(run.model_name, run.method) for run in planned if run.spec.reads_texts}
    failed = state.methods_needing(job)
    kept = every - left_out - failed
    kept_models = {model for model, method in kept if method == FULL}
    kept = {each for each in kept if each[0] in kept_models or each in of_texts}
    if len(kept) <= len(kept_models):
        raise SubtuneError(why if failed == every else f"{_name_methods(state, job)}: {why}")
    left_out.update(every - kept)
    lost_models = join_names(sorted({model for model, _ in failed} - kept_models))
    print_line(f"left out {lost_models or _name_methods(state, job)}: {why}")


def _format_progress(state: Loop) -> str:
    """Format the elapsed time, the number of recorded runs, and the answer so far as one line."""
    rows = state.progress.join_recorded_runs()
    recorded, recorded_keys = {row["run"] for row in rows}, {row["key"] for row in rows}
    times = map(tqdm.format_interval, (state.clock.elapsed_seconds, state.clock.time_limit))
    # Runs of learning curves, which are fitted on fewer examples, are not counted.
    keys = {run.key for run in state.context.plan.runs_on_most_rows(EXPERIMENT)}
    line = f"{' of '.join(times)}  {len(keys & recorded_keys)} of {len(keys)} runs"
    tried = {row["key"]: row["tried"] for row in rows}
    with_rates = {
        run.spec.with_learning_rate(rate["learning_rate"]).id
        for run in state.progress.planned
        for rate in tried.get(run.key, ())
    } | {rate["run"] for rates in tried.values() for rate in rates}
    if others := len((with_rates & state.progress.scores.keys()) - recorded):
        line += f", and {format_count(others, 'run')} with other learning rates"
    return f"{line}; so far: {state.answer}" if state.answer else line


def _describe_runs(state: Loop, workers: int) -> Iterator[str]:
    """Yield lines about the runs that were trained, and about what more minutes would add."""
    progress, costs = state.progress, state.context.estimates.run_costs
    tuning = [run for run in progress.planned if isinstance(run.spec.recipe, Recipe)]
    planned = Counter((run.model_name, run.method) for run in tuning)
    every = progress.join_recorded_runs()
    rows = [row for row in every if (row["model"], row["method"]) in planned]
    trained = Counter((row["model"], row["method"]) for row in rows)
    # Estimates are scaled to the recorded times. They are rough for models that were downloaded.
    measured = state.sum_recorded_seconds(row["run"] for row in rows)
    factor = measured / sum(costs[row["key"]].seconds for row in rows) if rows else 1
    seconds = {run.setting: factor * costs[run.key].seconds for run in tuning}
    full = [method for method in planned if method[1] == FULL]
    if not full:
        return
    unit = "folds" if tuning[0].spec.recipe.fold else "seeds"
    most, fewest = planned[full[0]], min(DEFAULTS.fewest_seeds, planned[full[0]])
    if all(trained[method] < fewest for method in full):
        needed = bound_total_seconds(fewest * [*seconds.values()], workers)
        minutes = math.ceil((OTHER_SECONDS + needed) / 60)
        yield (
            f"fine-tuning was not tried in earnest: full fine-tuning has fewer than {fewest} "
            f"{unit}; those of all methods take about {format_count(minutes, 'more minute')}"
        )
    if trained:
        searches = {run.search.id: run.search for run in tuning if run.search}
        ended = [s for s in searches.values() if not follow_search(s, progress.score)[1]]
        rates = f"searched for {format_count(len(ended), 'method')}" if ended else "as recommended"
        yield (
            f"trained: {len(trained)} of {format_count(len(planned), 'method')}, at least "
            f"{min(trained.values())} of {most} {unit} each; learning rates {rates}"
        )
    ranked = rank_missing_runs(progress, state.unlikely)
    left = [(rank.stage, run) for rank, runs in ranked for run in runs]
    missing = [(stage, run) for stage, run in left if run.setting in seconds]
    ends = accumulate(seconds[run.setting] for _, run in missing)
    possible = takewhile(lambda end: end < 60 * MORE_MINUTES * workers, ends)
    added = Counter(stage is Stage.RATES for (stage, _), _ in zip(missing, possible, strict=False))
    kinds = {f"other {unit}": added[False], "other learning rates": added[True]}
    if added:
        parts = [f"{format_count(n, 'run')} with {kind}" for kind, n in kinds.items() if n]
        yield f"{MORE_MINUTES} more minutes would train about {' and '.join(parts)}"
