"""The plan: the values of all stages of all experiments. It does not depend on run records."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from subtune.config import Config
from subtune.core.ids import content_id
from subtune.methods.selection import Work, require_whole
from subtune.plan.grid import Grid, Planned
from subtune.plan.inputs import labels_of, model_and_location, test_tokens, train_tokens
from subtune.plan.jobs import Load, Sweep, split_runs, split_searches
from subtune.runs.spec import (
    DataSpec,
    FisherSpec,
    Fit,
    Fold,
    ModelSpec,
    PlannedRun,
    RankingSpec,
    RunSpec,
    SearchSpec,
    TokensSpec,
)
from subtune.tasks.task import TaskSize


@dataclass
class Plan:
    """The values of all stages. Properties follow from the fields.

    Attributes:
        sizes: sizes of tasks by the keys of their rows.
        on_gpu: whether jobs and costs are those of a GPU.
        locations: repositories on the hub or local directories, by model id.
        tests: token ids of test rows that the GLUE server scores, by the key of the training rows'
            token ids.
        rankings: rankings by Fisher information, by id.
        searches: searches for learning rates, by id.
        search_jobs: the ids of each job's searches, by key.
        experiments: runs by experiment.
        experiment_fishers: Fisher information by experiment and task.
        sweeps: each job's runs, by key.
    """

    sizes: dict[str, TaskSize]
    on_gpu: bool
    locations: dict[str, str] = field(default_factory=dict)
    tests: dict[str, TokensSpec] = field(default_factory=dict)
    rankings: dict[str, RankingSpec] = field(default_factory=dict)
    searches: dict[str, SearchSpec] = field(default_factory=dict)
    search_jobs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    experiments: dict[str, list[Planned]] = field(default_factory=dict)
    experiment_fishers: dict[str, dict[str, FisherSpec]] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        """Runs by key."""
        return {p.key: p.of for planned in self.experiments.values() for p in planned}

    @cached_property
    def fishers(self) -> dict[str, FisherSpec]:
        """Fisher information by key."""
        return {f.key: f for by_task in self.experiment_fishers.values() for f in by_task.values()}

    @cached_property
    def tokens(self) -> dict[str, TokensSpec]:
        """Token ids by key."""
        read = [fisher.tokens for fisher in self.fishers.values()]
        read += [planned.run.tokens for planned in self.runs.values()]
        every = [*read, *self.tests.values()]
        return {tokens.key: tokens for tokens in every}

    @cached_property
    def datasets(self) -> dict[str, DataSpec]:
        """Rows of tasks by key."""
        return {tokens.data.key: tokens.data for tokens in self.tokens.values()}

    @cached_property
    def models(self) -> dict[str, ModelSpec]:
        """Models by id."""
        return {planned.run.model.id: planned.run.model for planned in self.runs.values()}

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """Ids of models by their names in the configuration."""
        return {p.model: p.run.model.id for planned in self.experiments.values() for p in planned}

    def size_of(self, tokens: TokensSpec, fold: Fold | None = None) -> TaskSize:
        """Return the size of a task for a run that is scored on a fold, or on dev rows."""
        size = self.sizes[tokens.data.key]
        if fold is None:
            return size
        others = size.evaluation_rows if len(tokens.data.task.evaluation) > 1 else 0
        return size.for_cv_fold(fold.of, others, fold.rows)

    def rows_of(self, run: str) -> int:
        """Return the number of a run's training rows."""
        tokens, recipe = self.runs[run].run.tokens, self.runs[run].run.recipe
        return self.size_of(tokens, recipe.fold).limit_train_rows(recipe.train_rows)

    def examples_of_a_row(self, tokens: TokensSpec) -> int:
        """Return the number of examples of an average row."""
        return self.size_of(tokens).examples_per_row(tokens.max_length, tokens.doc_stride)

    def work(self, run: str) -> Work:
        """Return a run's work, by which its cost is estimated."""
        selection = self.runs[run].run.selection
        ranking = selection.ranking
        return (self.rankings[ranking].of if ranking else selection).work()

    @cached_property
    def loads(self) -> dict[str, Load]:
        """The load of each run, by key."""
        experiments: dict[str, set[str]] = {}
        for name, runs in self.experiments.items():
            for planned in runs:
                experiments.setdefault(planned.key, set()).add(name)
        loads = {}
        for key, of in self.runs.items():
            spec = of.run
            rows = self.rows_of(key) * spec.recipe.epochs
            examples = self.examples_of_a_row(spec.tokens) * rows
            names = frozenset(experiments[key])
            loads[key] = Load(key, spec, self.work(key), examples, names)
        return loads

    def step_key(self, run: str) -> Hashable:
        """Return the `RunSpec.step_key` of a run."""
        return self.runs[run].run.step_key(self.work(run), self.on_gpu)

    def sweeps_of(self, experiment: str, **names: str) -> list[str]:
        """Return the keys of the sweeps with an experiment's runs.

        ``names``: a model, a task or a method; only sweeps with such runs are returned.
        """
        runs = {
            planned.key
            for planned in self.experiments[experiment]
            if all(getattr(planned, key) == name for key, name in names.items())
        }
        return [key for key, sweep in self.sweeps.items() if not runs.isdisjoint(sweep.runs)]

    def first_run(self, sweep: str) -> RunSpec:
        """Return one run of a sweep. All its runs share model and tokens."""
        return self.runs[self.sweeps[sweep].runs[0]].run

    def rankings_of(self, sweep: str) -> list[str]:
        """Return the ids of the rankings of a sweep's masks."""
        rankings = {self.runs[run].run.selection.ranking for run in self.sweeps[sweep].runs}
        return sorted(filter(None, rankings))

    def search_jobs_of(self, *sweeps: str) -> list[str]:
        """Return the keys of the jobs that search for the learning rates of sweeps."""
        runs = [self.runs[run] for sweep in sweeps for run in self.sweeps[sweep].runs]
        asked = {run.search for run in runs}
        return [key for key, job in self.search_jobs.items() if not asked.isdisjoint(job)]

    def runs_on(self, experiment: str, model: str, task: str) -> dict[str, str]:
        """Return the key of one run for each method that trains whole tensors, by method."""
        return {
            planned.method: planned.key
            for planned in self.experiments[experiment]
            if (planned.model, planned.task, planned.scope) == (model, task, None)
            and not isinstance(planned.run.recipe, Fit)
        }

    def on_most_rows(self, experiment: str) -> list[Planned]:
        """Return, for each model and task, an experiment's runs with the most training rows."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for planned in runs:
            key = planned.model, planned.task
            largest[key] = max(largest.get(key, 0), planned.train_rows)
        return [p for p in runs if p.train_rows == largest[p.model, p.task]]


def make_plan(config: Config, sizes: Mapping[str, TaskSize] | None = None) -> Plan:
    """Return the plan of every stage of every experiment.

    Args:
        sizes: sizes of tasks from an earlier plan; the rows of these tasks are not read again.

    Raises:
        SubtuneError: a local file is missing or wrong.
    """
    plan = Plan(sizes=dict(sizes or {}), on_gpu=config.assumptions.on_gpu)
    for name, experiment in config.experiments.items():
        planned: list[Planned] = []
        for model in experiment.models:
            fishers = _add_fishers(plan, config, name, model)
            for task in experiment.tasks:
                size = plan.size_of(fishers[task].tokens, experiment.fold_of(experiment.seeds[0]))
                found = fishers, size, plan.rankings, plan.searches
                planned += Grid(config, experiment, model, task, *found).runs()
        plan.experiments[name] = planned
    plan.sweeps = {sweep.key: sweep for sweep in split_runs(plan.loads.values(), config)}
    first_runs: dict[str, Load] = {}
    for key, run in plan.runs.items():
        if run.search:
            first_runs.setdefault(run.search, plan.loads[key])
    plan.search_jobs = {_key_of(job): job for job in split_searches(first_runs, config)}
    return plan


def _key_of(searches: tuple[str, ...]) -> str:
    """Return the key of a job of searches."""
    return searches[0] if len(searches) == 1 else content_id(" ".join(searches))


def _add_fishers(plan: Plan, config: Config, name: str, model: str) -> dict[str, FisherSpec]:
    """Add an experiment's Fisher information to the plan, and return it by task."""
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    spec, location = model_and_location(config, name, model)
    plan.locations[spec.id] = location
    in_full = None
    if experiment.fractions:
        ranked = require_whole(config.selection(experiment.fractions.of))
        in_full = ranked if ranked.work() is Work.MATRICES else None
    fishers = {}
    for task in experiment.tasks:
        tokens = train_tokens(config, plan.sizes, name, spec, all_tasks[task])
        if config.is_submitted(task):
            tests = plan.tests[tokens.key] = test_tokens(config, experiment, spec, all_tasks[task])
            plan.sizes[tests.data.key] = plan.sizes[tokens.data.key]
        fishers[task] = FisherSpec(
            model=spec,
            tokens=tokens,
            rows=experiment.fisher_rows,
            in_full=in_full,
            labels=labels_of(experiment, all_tasks[task]),
        )
    plan.experiment_fishers[name] = fishers
    return fishers
