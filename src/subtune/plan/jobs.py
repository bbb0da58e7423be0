"""Jobs: the division of runs into sweeps, and of searches for learning rates into jobs."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from subtune.core.files import hash_text
from subtune.core.ids import canonical_json
from subtune.runs.spec import Fit, PlannedRun

if TYPE_CHECKING:
    from subtune.plan.plan import Plan

# Training on this many examples takes less time than starting a job.
FEW_EXAMPLES = 100_000
# The largest sum of `Plan.weights` in a job of several runs. Four runs that train matrices on all
# of MNLI for 20 epochs are one job.
MOST_WEIGHT = 200_000_000
# The number of whole runs that a search for a learning rate trains on average.
RUNS_OF_A_SEARCH = 4
# The fields of the recipe in which runs of one job may differ.
VARYING = {"learning_rate", "epochs", "fold"}


def split_runs(plan: "Plan") -> dict[str, list[PlannedRun]]:
    """Return the runs of each job, by the job's key.

    Runs that differ only in selection, seed and `VARYING` are a group, which is split into jobs.
    Unless a group takes less time than starting a job, runs of different experiments are in
    different jobs, so that an experiment never trains another's runs.
    """
    split = _split_by_steps if plan.config.jobs_at_once else _split_within_limits
    sweeps = {}
    for group in _group(plan.runs.values(), _job_key):
        parts = [group]
        if sum(plan.weights[run.key] for run in group) > FEW_EXAMPLES:
            parts = _group(group, lambda run: plan.users[run.key])
        for part in parts:
            for job in split(part, plan):
                content = {"runs": [run.key for run in job], "task": job[0].task_name}
                sweeps[f"{job[0].task_name}-{hash_text(canonical_json(content))}"] = job
    return sweeps


def split_searches(plan: "Plan") -> dict[str, tuple[str, ...]]:
    """Return the ids of each job's searches, by the job's key.

    Searches whose runs have the same data and experiments are a group, which is split into jobs.
    With `jobs_at_once`, each search is a job.
    """
    first_runs: dict[str, PlannedRun] = {}
    for run in plan.runs.values():
        if run.search:
            first_runs.setdefault(run.search, run)
    if plan.config.jobs_at_once:
        jobs = [[run] for run in first_runs.values()]
    else:
        groups = _group(first_runs.values(), lambda run: (_job_key(run), plan.users[run.key]))
        jobs = [
            job for group in groups for job in _split_within_limits(group, plan, RUNS_OF_A_SEARCH)
        ]
    found = [tuple(run.search for run in job if run.search) for job in jobs]
    return {ids[0] if len(ids) == 1 else hash_text(" ".join(ids)): ids for ids in found}


def _job_key(run: PlannedRun) -> Hashable:
    """Return what is equal in all runs of a job: the model, the token ids and the recipe."""
    spec = run.spec
    return spec.model.id, spec.tokens.id, spec.recipe.model_dump_json(exclude=VARYING)


def _group(
    runs: Iterable[PlannedRun], key: Callable[[PlannedRun], Hashable]
) -> list[list[PlannedRun]]:
    """Return groups of runs with equal keys, in the order of the runs."""
    groups: dict[Hashable, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _split_by_steps(runs: list[PlannedRun], plan: "Plan") -> list[list[PlannedRun]]:
    """Return jobs of runs that share steps, so that a run is done soon after its job begins.

    Regressions on embeddings are one job.
    """
    return _group(
        runs, lambda run: None if isinstance(run.spec.recipe, Fit) else plan.step_key(run)
    )


def _split_within_limits(
    runs: list[PlannedRun], plan: "Plan", times: int = 1
) -> Iterator[list[PlannedRun]]:
    """Yield jobs within the limits `runs_per_job` and `MOST_WEIGHT`.

    If one job cannot have all runs, runs that share steps stay together where the limits allow it.

    Args:
        times: how often each run trains; a search trains it at several learning rates.
    """

    def is_too_large(job: list[PlannedRun]) -> bool:
        weight = times * sum(plan.weights[run.key] for run in job)
        return times * len(job) > plan.config.runs_per_job or weight > MOST_WEIGHT

    groups = _group(runs, plan.step_key) if is_too_large(runs) else [runs]
    job: list[PlannedRun] = []
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
