"""Sweeps: how runs are split over jobs."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator

from subtune.config import Config
from subtune.core.content_ids import Value
from subtune.planning.inputs import Grid
from subtune.selections.kind import Work
from subtune.selections.specs import RunSpec

# One training example of a run that shares no steps costs as much as this many of one that does.
COST_WITHOUT_SHARING = 6
# Starting a job takes longer than training on so few examples.
FEW_EXAMPLES = 100_000
# Runs of one job may differ in these fields of the recipe.
VARYING = {"learning_rate", "epochs", "search_seed", "search_folds", "trial", "tie", "fold"}


class Sweep(Value):
    """Runs that one job trains: same model, task, data and batches."""

    task: str
    runs: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.task}-{self.id}"


def split_runs(grid: Grid, config: Config) -> list[Sweep]:
    """Group runs that share all but selection, seed and `VARYING`, and cut groups into jobs.

    They are grouped by the experiments that need them, too, so that asking for one experiment
    trains no run of another, unless all of them take less time than it takes to start a job.
    """
    users: dict[str, set[str]] = {run: set() for run in grid.runs}
    for name, runs in grid.experiments.items():
        for planned in runs:
            users[planned.run.id].add(name)
    groups: dict[tuple, list[str]] = {}
    for run, spec in grid.runs.items():
        shared = spec.recipe.model_dump_json(exclude=VARYING)
        groups.setdefault((spec.model.id, spec.tokens.id, shared), []).append(run)
    parts: list[list[str]] = []
    for group in groups.values():
        by_users: dict[tuple[str, ...], list[str]] = {}
        for run in group:
            by_users.setdefault(tuple(sorted(users[run])), []).append(run)
        is_small = sum(_cost(grid, run) for run in group) <= FEW_EXAMPLES
        parts += [group] if is_small else by_users.values()
    return [
        Sweep(task=grid.runs[runs[0]].tokens.data.task.name, runs=tuple(runs))
        for part in parts
        for runs in (
            _jobs_of_equal_work(grid, part, config.jobs_at_once)
            if config.jobs_at_once
            else _jobs(grid, part, config)
        )
    ]


def _jobs_of_equal_work(grid: Grid, runs: list[str], jobs: int) -> Iterable[list[str]]:
    """Return at most so many jobs of about the same work: the largest parts are dealt first."""
    work_of = {run: _examples(grid, run) * work(grid, run).value for run in runs}
    # Learning rates of one selection and seed share steps.
    parts = _together(grid, runs, lambda spec: (spec.selection.canonical(), spec.seed))

    def load(job: list[str]) -> float:
        return sum(work_of[run] for run in job)

    dealt: list[list[str]] = [[] for _ in range(jobs)]
    for part in sorted(parts, key=load, reverse=True):
        min(dealt, key=load).extend(part)
    return filter(None, dealt)


def _jobs(grid: Grid, runs: list[str], config: Config) -> Iterator[list[str]]:
    """Yield the jobs of one group.

    A group that is too large for one job is cut first into runs that train alone and runs that
    share their steps, because sharing pays more the more runs there are.
    """
    max_examples = 1e6 * config.million_examples_per_job
    examples = {run: _cost(grid, run) for run in runs}
    parts = [runs]
    if len(runs) > config.runs_per_job or sum(examples.values()) > max_examples:
        parts = [
            [run for run in runs if trains_alone(grid, run) is alone] for alone in (True, False)
        ]
    for part in parts:
        job: list[str] = []
        total = 0
        for together in _together(grid, part, lambda spec: spec.id):
            cost = sum(examples[run] for run in together)
            full = len(job) + len(together) > config.runs_per_job or total + cost > max_examples
            if job and full:
                yield job
                job, total = [], 0
            job += together
            total += cost
        if job:
            yield job


def _together(
    grid: Grid, runs: list[str], of_others: Callable[[RunSpec], Hashable]
) -> list[list[str]]:
    """Return runs in their order; those that share a search stand together.

    ``of_others`` returns what else runs that stand together have in common.
    """
    parts: dict[Hashable, list[str]] = {}
    for run in runs:
        spec = grid.runs[run]
        search = (spec.selection.canonical(), spec.recipe.replaced(fold=None).canonical())
        parts.setdefault(search if spec.recipe.searched else of_others(spec), []).append(run)
    return list(parts.values())


def _cost(grid: Grid, run: str) -> int:
    """Return a run's examples, as many more as it costs without steps that others share."""
    return _examples(grid, run) * (COST_WITHOUT_SHARING if trains_alone(grid, run) else 1)


def _examples(grid: Grid, run: str) -> int:
    """Return how many examples a run trains on, over all epochs and with its search."""
    spec, tokens = grid.runs[run], grid.runs[run].tokens
    size = grid.size_of(tokens, spec.recipe.fold)
    of_a_row = size.examples_of_a_row(tokens.max_length, tokens.doc_stride)
    rows = size.rows_within(spec.recipe.train_rows) * spec.recipe.epochs
    return math.ceil(of_a_row * rows * spec.whole_runs)


def trains_alone(grid: Grid, run: str) -> bool:
    """Return whether a run trains entries of matrices, and so shares no steps with others."""
    return work(grid, run) in (Work.ENTRIES, Work.MATRICES, Work.DIFFERENCES)


def work(grid: Grid, run: str) -> Work:
    """Return what a run trains."""
    selection = grid.runs[run].selection
    ranked = grid.rankings[selection.ranking].of if selection.ranking else None
    return selection.work(ranked)
