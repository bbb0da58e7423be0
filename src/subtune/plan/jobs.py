"""Jobs: the division of runs into sweeps."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from subtune.config import Config
from subtune.core.ids import Value
from subtune.methods.selection import Work
from subtune.runs.spec import Fit, RunSpec

# The cost of a training example if matrices train, relative to one where many runs share them.
COST_OF_MATRICES = 6
# Training on this many examples takes less time than starting a job.
FEW_EXAMPLES = 100_000
# The number of whole runs that a search for a learning rate trains on average.
RUNS_OF_A_SEARCH = 4
# The fields of the recipe in which runs of one job may differ.
VARYING = {"learning_rate", "epochs", "fold"}


class Sweep(Value):
    """Runs that one job trains: same model, task, data and batches."""

    task: str
    runs: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.task}-{self.id}"


class Load(NamedTuple):
    """A run, and what decides in which job it trains.

    Attributes:
        key: the run's name in plans.
        run: the run, at any learning rate.
        work: what it trains, by which its cost is estimated.
        examples: the number of its training examples over all epochs.
        experiments: the names of the experiments that need it.
    """

    key: str
    run: RunSpec
    work: Work
    examples: int
    experiments: frozenset[str]

    @property
    def cost(self) -> int:
        """The number of examples, each of which counts more if matrices train."""
        return self.examples * (COST_OF_MATRICES if self.work.trains_matrices else 1)

    @property
    def data(self) -> Hashable:
        """The model, token ids and recipe, which are equal in all runs of a job."""
        recipe = self.run.recipe.model_dump_json(exclude=VARYING)
        return self.run.model.id, self.run.tokens.id, recipe


def split_runs(loads: Iterable[Load], config: Config) -> Iterator[Sweep]:
    """Yield the runs of each job.

    Runs that differ only in selection, seed and `VARYING` are a group, which is split into jobs.
    Unless a group takes less time than starting a job, runs of different experiments are in
    different jobs, so that an experiment never trains another's runs.
    """
    for group in _groups(loads, lambda load: load.data):
        parts = [group]
        if sum(load.cost for load in group) > FEW_EXAMPLES:
            parts = _groups(group, lambda load: load.experiments)
        for part in parts:
            jobs = _jobs_that_share_steps if config.jobs_at_once else _jobs_within_limits
            for job in jobs(part, config):
                task = job[0].run.tokens.data.task.name
                yield Sweep(task=task, runs=tuple(load.key for load in job))


def split_searches(loads: Mapping[str, Load], config: Config) -> Iterator[tuple[str, ...]]:
    """Yield the ids of each job's searches.

    Searches whose runs have the same data and experiments are a group, which is split into jobs.

    With `jobs_at_once`, each search is a job.

    Args:
        loads: the loads of the runs that searches train, by the searches' ids.
    """
    if config.jobs_at_once:
        yield from ((search,) for search in loads)
        return
    search_of = {load.key: search for search, load in loads.items()}
    for group in _groups(loads.values(), lambda load: (load.data, load.experiments)):
        for job in _jobs_within_limits(group, config, RUNS_OF_A_SEARCH):
            yield tuple(search_of[load.key] for load in job)


def _groups(loads: Iterable[Load], key: Callable[[Load], Hashable]) -> list[list[Load]]:
    """Return groups of runs with equal keys, in the order of the runs."""
    groups: dict[Hashable, list[Load]] = {}
    for load in loads:
        groups.setdefault(key(load), []).append(load)
    return list(groups.values())


def _jobs_that_share_steps(loads: list[Load], config: Config) -> list[list[Load]]:
    """Return jobs of runs that share steps, so that a run is done soon after its job begins.

    Regressions on embeddings are one job.
    """

    def shared(load: Load) -> Hashable:
        is_fit = isinstance(load.run.recipe, Fit)
        return None if is_fit else load.run.step_key(load.work, config.assumptions.on_gpu)

    return _groups(loads, shared)


def _jobs_within_limits(loads: list[Load], config: Config, times: int = 1) -> Iterator[list[Load]]:
    """Yield jobs within the configuration's limits of runs and examples.

    If one job cannot have all runs, runs that share steps stay together where the limits allow it.

    Args:
        times: how often each run trains; a search trains it at several learning rates.
    """

    def is_too_large(job: list[Load]) -> bool:
        most = 1e6 * config.million_examples_per_job
        cost = sum(load.cost for load in job)
        return times * len(job) > config.runs_per_job or times * cost > most

    groups = [loads]
    if is_too_large(loads):
        groups = _groups(
            loads, lambda load: load.run.step_key(load.work, config.assumptions.on_gpu)
        )
    job: list[Load] = []
    # Small groups fill the last jobs.
    for group in sorted(groups, key=len, reverse=True):
        if job and is_too_large([*job, *group]):
            yield job
            job = []
        for load in group:
            if job and is_too_large([*job, load]):
                yield job
                job = []
            job = [*job, load]
    yield job
