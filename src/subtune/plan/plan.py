"""The plan: the values of all jobs of all experiments. It does not depend on run records."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from subtune.config import Config
from subtune.methods.selection import Work, require_whole
from subtune.plan.grid import Grid
from subtune.plan.inputs import choose_labels, find_model, test_tokens, train_tokens
from subtune.plan.jobs import split_runs, split_searches
from subtune.runs.spec import (
    DataSpec,
    FisherSpec,
    Fit,
    Fold,
    ModelSpec,
    PlannedRun,
    RankingSpec,
    SearchSpec,
    TokensSpec,
)
from subtune.tasks.task import TaskSize

# The weight of a training example if matrices train, relative to one where many runs share them.
WEIGHT_OF_MATRICES = 6


@dataclass(frozen=True)
class Plan:
    """The values of all jobs. Properties follow from the fields.

    Attributes:
        sizes: sizes of tasks by the keys of their rows.
        locations: repositories on the hub or local directories, by model id.
        tests: token ids of test rows that the GLUE server scores, by the key of the training rows'
            token ids.
        rankings: rankings by Fisher information, by id.
        searches: searches for learning rates, by id.
        experiments: runs by experiment.
        experiment_fishers: Fisher information by experiment and task.
    """

    config: Config
    sizes: Mapping[str, TaskSize]
    locations: Mapping[str, str]
    tests: Mapping[str, TokensSpec]
    rankings: Mapping[str, RankingSpec]
    searches: Mapping[str, SearchSpec]
    experiments: Mapping[str, list[PlannedRun]]
    experiment_fishers: Mapping[str, Mapping[str, FisherSpec]]

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        """Runs by key. A run of several experiments has the names of the last one."""
        return {run.key: run for runs in self.experiments.values() for run in runs}

    @cached_property
    def fishers(self) -> dict[str, FisherSpec]:
        """Fisher information by key."""
        return {f.key: f for by_task in self.experiment_fishers.values() for f in by_task.values()}

    @cached_property
    def tokens(self) -> dict[str, TokensSpec]:
        """Token ids by key."""
        read = [fisher.tokens for fisher in self.fishers.values()]
        read += [run.spec.tokens for run in self.runs.values()]
        every = [*read, *self.tests.values()]
        return {tokens.key: tokens for tokens in every}

    @cached_property
    def datasets(self) -> dict[str, DataSpec]:
        """Rows of tasks by key."""
        return {tokens.data.key: tokens.data for tokens in self.tokens.values()}

    @cached_property
    def models(self) -> dict[str, ModelSpec]:
        """Models by id."""
        return {run.spec.model.id: run.spec.model for run in self.runs.values()}

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """Ids of models by their names in the configuration."""
        return {r.model_name: r.spec.model.id for runs in self.experiments.values() for r in runs}

    @cached_property
    def users(self) -> dict[str, frozenset[str]]:
        """The names of the experiments that need each run, by the run's key."""
        found: dict[str, set[str]] = {}
        for name, runs in self.experiments.items():
            for run in runs:
                found.setdefault(run.key, set()).add(name)
        return {key: frozenset(names) for key, names in found.items()}

    @cached_property
    def weights(self) -> dict[str, int]:
        """Each run's number of training examples over all epochs, by key; matrices weigh more."""
        return {
            key: run.train_rows
            * self.examples_per_row(run.spec.tokens)
            * run.spec.recipe.epochs
            * (WEIGHT_OF_MATRICES if self.work(run).trains_matrices else 1)
            for key, run in self.runs.items()
        }

    @cached_property
    def sweeps(self) -> dict[str, list[PlannedRun]]:
        """The runs of each job that trains, by the job's key."""
        return split_runs(self)

    @cached_property
    def search_jobs(self) -> dict[str, tuple[str, ...]]:
        """The ids of each job's searches, by the job's key."""
        return split_searches(self)

    def task_size(self, tokens: TokensSpec, fold: Fold | None = None) -> TaskSize:
        """Return the size of a task for a run that is scored on a fold, or on dev rows."""
        return _divide(self.sizes[tokens.data.key], tokens, fold)

    def examples_per_row(self, tokens: TokensSpec) -> int:
        """Return the number of examples of an average row."""
        return self.task_size(tokens).examples_per_row(tokens.max_length, tokens.doc_stride)

    def work(self, run: PlannedRun) -> Work:
        """Return the kind of what a run trains. A mask is of the kind of the ranked entries."""
        selection = run.spec.selection
        ranking = selection.ranking
        return (self.rankings[ranking].of if ranking else selection).work()

    def step_key(self, run: PlannedRun) -> Hashable:
        """Return the `RunSpec.step_key` of a run."""
        return run.spec.step_key(self.work(run), self.config.assumptions.on_gpu)

    def find_sweeps(self, experiment: str) -> list[str]:
        """Return the keys of the sweeps with an experiment's runs."""
        return [
            key
            for key, sweep in self.sweeps.items()
            if any(experiment in self.users[run.key] for run in sweep)
        ]

    def find_search_jobs(self, *sweeps: str) -> list[str]:
        """Return the keys of the jobs that search for the learning rates of sweeps."""
        asked = {run.search for sweep in sweeps for run in self.sweeps[sweep]}
        return [key for key, job in self.search_jobs.items() if not asked.isdisjoint(job)]

    def runs_by_method(self, experiment: str, model_name: str, task_name: str) -> dict[str, str]:
        """Return the key of one run for each method that trains whole tensors."""
        return {
            run.method: run.key
            for run in self.experiments[experiment]
            if (run.model_name, run.task_name, run.scope) == (model_name, task_name, None)
            and not isinstance(run.spec.recipe, Fit)
        }

    def runs_on_most_rows(self, experiment: str) -> list[PlannedRun]:
        """Return, for each model and task, an experiment's runs with the most training rows."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for run in runs:
            key = run.model_name, run.task_name
            largest[key] = max(largest.get(key, 0), run.train_rows)
        return [run for run in runs if run.train_rows == largest[run.model_name, run.task_name]]


def make_plan(config: Config, sizes: Mapping[str, TaskSize] | None = None) -> Plan:
    """Return the plan of every job of every experiment.

    Args:
        sizes: sizes of tasks from an earlier plan; the rows of these tasks are not read again.

    Raises:
        SubtuneError: a local file is missing or wrong.
    """
    known = dict(sizes or {})
    locations: dict[str, str] = {}
    tests: dict[str, TokensSpec] = {}
    rankings: dict[str, RankingSpec] = {}
    searches: dict[str, SearchSpec] = {}
    experiments: dict[str, list[PlannedRun]] = {}
    experiment_fishers: dict[str, dict[str, FisherSpec]] = {}
    for name, experiment in config.experiments.items():
        experiments[name] = []
        for model_name in experiment.models:
            model, location = find_model(config, name, model_name)
            locations[model.id] = location
            fishers = {
                task: _plan_fisher(config, name, model, task, known) for task in experiment.tasks
            }
            experiment_fishers[name] = fishers
            for task_name, fisher in fishers.items():
                tokens = fisher.tokens
                if config.is_submitted(task_name):
                    task = config.all_tasks()[task_name]
                    tests[tokens.key] = test_tokens(config, experiment, model, task)
                    known[tests[tokens.key].data.key] = known[tokens.data.key]
                fold = experiment.find_fold(experiment.seeds[0])
                size = _divide(known[tokens.data.key], tokens, fold)
                grid = Grid(config, experiment, model_name, task_name, fishers, size)
                rankings |= {ranking.id: ranking for ranking in grid.rankings.values()}
                for run, search in grid.rows():
                    experiments[name].append(run)
                    searches |= {search.id: search} if search else {}
    return Plan(
        config, known, locations, tests, rankings, searches, experiments, experiment_fishers
    )


def _plan_fisher(
    config: Config, name: str, model: ModelSpec, task_name: str, sizes: dict[str, TaskSize]
) -> FisherSpec:
    """Return a task's Fisher information in the experiment ``name``; add its size to ``sizes``."""
    experiment, task = config.experiments[name], config.all_tasks()[task_name]
    in_full = None
    if experiment.fractions:
        ranked = require_whole(config.selection(experiment.fractions.of))
        in_full = ranked if ranked.work() is Work.MATRICES else None
    return FisherSpec(
        model=model,
        tokens=train_tokens(config, sizes, name, model, task),
        rows=experiment.fisher_rows,
        in_full=in_full,
        labels=choose_labels(experiment, task),
    )


def _divide(size: TaskSize, tokens: TokensSpec, fold: Fold | None) -> TaskSize:
    """Return a task's size if a fold of its training rows replaces its first evaluation split."""
    if fold is None:
        return size
    others = size.evaluation_rows if len(tokens.data.task.evaluation) > 1 else 0
    return size.for_cv_fold(fold.of, others, fold.rows)
