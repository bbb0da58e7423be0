"""Jobs: the division of runs into sweeps, and the zips and the form for the GLUE server."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from subtune.config import Config, Experiment
from subtune.core.content_ids import Value
from subtune.selections.added import Embeddings
from subtune.selections.kind import Work
from subtune.selections.specs import Fit, RunSpec
from subtune.tasks.task import columns_of

if TYPE_CHECKING:
    from subtune.planning.plan import Plan

# The cost of a training example if matrices train, relative to one where many runs share them.
COST_OF_MATRICES = 6
# Training on this many examples takes less time than starting a job.
FEW_EXAMPLES = 100_000
# The number of whole runs that a search for a learning rate trains on average.
RUNS_OF_A_SEARCH = 4
# The fields of the recipe in which runs of one job may differ.
VARYING = {"learning_rate", "epochs", "fold"}
# Columns of the form in which users enter the server's scores.
NAMES = ["experiment", "model", "method", "task"]
FORM = [*NAMES, "metric", "score"]


class Sweep(Value):
    """Runs that one job trains: same model, task, data and batches."""

    task: str
    runs: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.task}-{self.id}"


def part_of_shared_steps(spec: RunSpec, work: Work, on_gpu: bool) -> Hashable:
    """Return what runs that share steps have in common beside rows, seed and epochs.

    On a GPU they train the same matrices. On a CPU a run that trains matrices shares no steps, and
    Diff pruning shares none anywhere: its runs have their own initial values.
    """
    if work is Work.DIFFERENCES or (work.trains_matrices and not on_gpu):
        return spec.id
    return spec.selection if on_gpu and work not in (Work.NOTHING, Work.VECTORS) else None


def split_runs(plan: "Plan", config: Config) -> Iterator[Sweep]:
    """Group runs that differ only in selection, seed and `VARYING`, and split groups into jobs.

    Unless a group takes less time than starting a job, runs of different experiments are in
    different jobs, so that an experiment never trains another's runs.
    """
    users = _users(plan)
    for group in _groups(plan.runs, lambda run: _shared(plan, run)):
        parts = [group]
        if sum(_cost(plan, run) for run in group) > FEW_EXAMPLES:
            parts = _groups(group, lambda run: frozenset(users[run]))
        for part in parts:
            jobs = _jobs_that_share_steps if config.jobs_at_once else _jobs_within_limits
            for job in jobs(plan, part, config):
                yield Sweep(task=plan.runs[job[0]].run.tokens.data.task.name, runs=tuple(job))


def split_searches(plan: "Plan", config: Config) -> Iterator[tuple[str, ...]]:
    """Group searches whose runs have the same model, data, batches and experiments, and split
    groups into jobs.

    With `jobs_at_once`, each search is a job.
    """
    search_of: dict[str, str] = {}
    for run, planned in plan.runs.items():
        if planned.search and planned.search not in search_of.values():
            search_of[run] = planned.search
    users = _users(plan)

    def shared(run: str) -> Hashable:
        if config.jobs_at_once:
            return run
        return _shared(plan, run), frozenset(users[run])

    for group in _groups(search_of, shared):
        for job in _jobs_within_limits(plan, group, config, RUNS_OF_A_SEARCH):
            yield tuple(search_of[run] for run in job)


def _users(plan: "Plan") -> dict[str, set[str]]:
    """Return the experiments of each run."""
    users: dict[str, set[str]] = {run: set() for run in plan.runs}
    for name, runs in plan.experiments.items():
        for planned in runs:
            users[planned.key].add(name)
    return users


def _shared(plan: "Plan", run: str) -> Hashable:
    """Return what the runs of one job have in common."""
    spec = plan.runs[run].run
    return spec.model.id, spec.tokens.id, spec.recipe.model_dump_json(exclude=VARYING)


def _groups(runs: Iterable[str], key: Callable[[str], Hashable]) -> list[list[str]]:
    """Return groups of runs with equal keys, in the order of the runs."""
    groups: dict[Hashable, list[str]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _jobs_that_share_steps(plan: "Plan", runs: list[str], config: Config) -> list[list[str]]:
    """Return jobs of runs that share steps, so that a run is done soon after its job begins.

    Regressions on embeddings are one job.
    """

    def shared(run: str) -> Hashable:
        spec = plan.runs[run].run
        if isinstance(spec.recipe, Fit):
            return None
        part = part_of_shared_steps(spec, plan.work(run), plan.on_gpu)
        return spec.seed, spec.recipe.fold, spec.recipe.epochs, part

    return _groups(runs, shared)


def _jobs_within_limits(
    plan: "Plan", runs: list[str], config: Config, times: int = 1
) -> Iterator[list[str]]:
    """Yield jobs within the configuration's limits of runs and examples.

    Each run trains several ``times``. If one job cannot have all runs, runs that share steps stay
    together where the limits allow it.
    """
    examples = {run: times * _cost(plan, run) for run in runs}

    def is_too_large(job: list[str]) -> bool:
        most = 1e6 * config.million_examples_per_job
        return times * len(job) > config.runs_per_job or sum(examples[run] for run in job) > most

    groups = _groups(runs, plan.shared_steps) if is_too_large(runs) else [runs]
    job: list[str] = []
    # Small groups fill the last jobs.
    for group in sorted(groups, key=len, reverse=True):
        if job and is_too_large([*job, *group]):
            yield job
            job = []
        for run in group:
            if job and is_too_large([*job, run]):
                yield job
                job = []
            job = [*job, run]
    yield job


def _cost(plan: "Plan", run: str) -> int:
    """Return a run's weighted number of examples; examples count more if matrices train."""
    return _examples(plan, run) * (COST_OF_MATRICES if plan.work(run).trains_matrices else 1)


def _examples(plan: "Plan", run: str) -> int:
    """Return the number of examples of a run over all epochs."""
    spec = plan.runs[run].run
    rows = plan.rows_of(run) * spec.recipe.epochs
    return math.ceil(plan.examples_of_a_row(spec.tokens) * rows)


class Submission(NamedTuple):
    """One method's predictions with one model."""

    model: str
    method: str


def submissions(config: Config, experiment: Experiment) -> dict[str, Submission]:
    """Return an experiment's zip files by name, one per method that trains; none without GLUE's
    rows.

    If there are several models, each has a directory.
    """
    if not any(map(config.is_submitted, experiment.tasks)):
        return {}
    several = len(experiment.models) > 1
    return {
        f"{model}/{method}" if several else method: Submission(model, method)
        for model in experiment.models
        for method in experiment.methods_of(model)
        if not isinstance(config.selection(method, model), Embeddings)
    }


def form(config: Config, name: str, metrics: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of `FORM`, one per score that the server returns for an experiment.

    ``metrics`` names the metric that is shown, for tasks where it is not the first.
    """
    experiment, tasks = config.experiments[name], config.all_tasks()
    columns = columns_of([tasks[t] for t in experiment.tasks if config.is_submitted(t)], metrics)
    return [
        dict(zip(FORM, (name, model, method, column.key, column.metric, None), strict=True))
        for model, method in submissions(config, experiment).values()
        for column in columns
    ]
