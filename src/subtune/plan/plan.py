"""The plan: the values of all jobs of all experiments, and the division of runs into jobs.

It does not depend on run records.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from subtune.config.schema import Config
from subtune.core.files import hash_text
from subtune.core.ids import content_id
from subtune.methods.selection import WholeTensors, Work, require_whole
from subtune.plan.grid import Grid
from subtune.plan.inputs import (
    choose_labels,
    find_model,
    find_tokens,
    make_data_spec,
    make_tokens_spec,
)
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
# Training on this many examples takes less time than starting a job.
FEW_EXAMPLES = 100_000
# The largest sum of `Plan.weighted_examples` in a job of several runs. Four runs that train
# matrices on all of MNLI for 20 epochs are one job.
MOST_WEIGHT = 200_000_000
# The number of whole runs that a search for a learning rate trains on average.
RUNS_OF_A_SEARCH = 4
# The fields of the recipe in which runs of one job may differ.
VARYING = {"learning_rate", "epochs", "fold"}


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
        experiment_fishers: Fisher information by experiment and task. Experiments that read it have
            one model; of all others this is the last model's.
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
    def needed_by(self) -> dict[str, frozenset[str]]:
        """The names of the experiments that need each run, by the run's key."""
        found: dict[str, set[str]] = {}
        for name, runs in self.experiments.items():
            for run in runs:
                found.setdefault(run.key, set()).add(name)
        return {key: frozenset(names) for key, names in found.items()}

    @cached_property
    def ranked(self) -> dict[str, WholeTensors]:
        """The tensors that each ranking ranks, by the ranking's id."""
        return {id: ranking.of for id, ranking in self.rankings.items()}

    @cached_property
    def weighted_examples(self) -> dict[str, int]:
        """Each run's number of training examples over all epochs, by key; matrices weigh more."""
        return {
            key: run.train_rows
            * self.examples_per_row(run.spec.tokens)
            * run.spec.recipe.epochs
            * (WEIGHT_OF_MATRICES if run.spec.work(self.ranked).trains_matrices else 1)
            for key, run in self.runs.items()
        }

    @cached_property
    def sweeps(self) -> dict[str, list[PlannedRun]]:
        """The runs of each job that trains, by the job's key.

        Runs that differ only in selection, seed and `VARYING` are a group, which is split into
        jobs. Unless a group takes less time than starting a job, runs of different experiments are
        in different jobs, so that an experiment never trains another's runs.

        With `jobs_at_once`, a job has runs that share steps, so that a run is done soon after its
        job begins. Regressions on embeddings are one job.
        """
        sweeps = {}
        for group in _group(self.runs.values(), _job_key):
            parts = [group]
            if sum(self.weighted_examples[run.key] for run in group) > FEW_EXAMPLES:
                parts = _group(group, lambda run: self.needed_by[run.key])
            for part in parts:
                if self.config.jobs_at_once:
                    jobs = _group(
                        part,
                        lambda run: (
                            None if isinstance(run.spec.recipe, Fit) else self.step_key(run)
                        ),
                    )
                else:
                    jobs = self._split_within_limits(part)
                for job in jobs:
                    content = {"runs": [run.key for run in job], "task": job[0].task_name}
                    sweeps[f"{job[0].task_name}-{content_id(content)}"] = job
        return sweeps

    @cached_property
    def search_jobs(self) -> dict[str, tuple[str, ...]]:
        """The ids of each job's searches, by the job's key.

        Searches whose runs have the same data and experiments are a group, which is split into
        jobs. With `jobs_at_once`, each search is a job.
        """
        first_runs: dict[str, PlannedRun] = {}
        for run in self.runs.values():
            if run.search:
                first_runs.setdefault(run.search, run)
        if self.config.jobs_at_once:
            jobs = [[run] for run in first_runs.values()]
        else:
            groups = _group(
                first_runs.values(), lambda run: (_job_key(run), self.needed_by[run.key])
            )
            jobs = [
                job
                for group in groups
                for job in self._split_within_limits(group, RUNS_OF_A_SEARCH)
            ]
        found = [tuple(run.search for run in job if run.search) for job in jobs]
        return {ids[0] if len(ids) == 1 else hash_text(" ".join(ids)): ids for ids in found}

    def _split_within_limits(
        self, runs: list[PlannedRun], times: int = 1
    ) -> list[list[PlannedRun]]:
        """Return jobs within the limits `runs_per_job` and `MOST_WEIGHT`.

        If one job cannot have all runs, runs that share steps stay together where the limits allow
        it.

        Args:
            times: how often each run trains; a search trains it at several learning rates.
        """

        def is_too_large(job: list[PlannedRun]) -> bool:
            weight = times * sum(self.weighted_examples[run.key] for run in job)
            return times * len(job) > self.config.runs_per_job or weight > MOST_WEIGHT

        groups = _group(runs, self.step_key) if is_too_large(runs) else [runs]
        jobs: list[list[PlannedRun]] = [[]]
        # Small groups fill the last jobs.
        for group in sorted(groups, key=len, reverse=True):
            if jobs[-1] and is_too_large([*jobs[-1], *group]):
                jobs.append([])
            for run in group:
                if jobs[-1] and is_too_large([*jobs[-1], run]):
                    jobs.append([])
                jobs[-1].append(run)
        return jobs

    def task_size(self, tokens: TokensSpec, fold: Fold | None = None) -> TaskSize:
        """Return the size of a task for a run that is scored on a fold, or on dev rows."""
        return _divide(self.sizes[tokens.data.key], tokens, fold)

    def examples_per_row(self, tokens: TokensSpec) -> int:
        """Return the number of examples of an average row."""
        return self.task_size(tokens).examples_per_row(tokens.max_length, tokens.doc_stride)

    def step_key(self, run: PlannedRun) -> Hashable:
        """Return the `RunSpec.step_key` of a run."""
        return run.spec.step_key(self.ranked, self.config.assumptions.on_gpu)

    def find_sweeps(self, experiment: str) -> list[str]:
        """Return the keys of the sweeps with an experiment's runs."""
        return [
            key
            for key, sweep in self.sweeps.items()
            if any(experiment in self.needed_by[run.key] for run in sweep)
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
                    rows = make_data_spec(config, task, task.test)
                    tests[tokens.key] = make_tokens_spec(rows, experiment, model)
                    known[tests[tokens.key].data.key] = known[tokens.data.key]
                fold = experiment.find_fold(experiment.seeds[0])
                size = _divide(known[tokens.data.key], tokens, fold)
                grid = Grid(config, experiment, model_name, task_name, fishers, size)
                rankings |= {ranking.id: ranking for ranking in grid.rankings.values()}
                for run, search in grid.list_runs():
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
        tokens=find_tokens(config, sizes, name, model, task),
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
