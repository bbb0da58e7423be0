"""The plan: the specs of runs and of their inputs, and the division of runs into jobs."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from subtune.config.schema import Config
from subtune.core.files import hash_text
from subtune.core.ids import content_id
from subtune.methods.rules import DERIVATIVES
from subtune.methods.selection import TrainingCost, WholeTensors, require_whole
from subtune.plan.grid import Grid
from subtune.plan.inputs import (
    choose_labels,
    find_model,
    find_tokens,
    make_data_spec,
    make_tokens_spec,
    require_labels_in_folds,
)
from subtune.runs.spec import (
    DataSpec,
    FisherSpec,
    Fold,
    MaskSpec,
    ModelSpec,
    PlannedRun,
    SearchSpec,
    TokensSpec,
)
from subtune.tasks.task import TaskSize

# The weight of a training example in runs that train matrices. In all other runs, which share the
# frozen matrices, the weight is 1.
WEIGHT_OF_MATRICES = 6
# Training on at most this many examples takes less time than starting a job.
FEW_EXAMPLES = 100_000
# The maximum sum of `Plan.weighted_examples` in a job of several runs. With this maximum, a job can
# contain four runs that train matrices on all of MNLI for 20 epochs.
MOST_WEIGHT = 200_000_000
# The average number of runs that a learning-rate search trains.
RUNS_OF_A_SEARCH = 4
# The fields of the recipe in which runs of one job may differ.
VARYING = {"learning_rate", "epochs", "fold"}


@dataclass(frozen=True)
class Plan:
    """The specs of all runs and of their inputs, and the division of runs into jobs.

    A plan does not depend on which runs are recorded.

    Attributes:
        sizes: the size of each task, by the key of its `DataSpec`.
        locations: the hub repository or local directory of each model, by the model's id.
        tests: for tasks that the GLUE server scores, maps the key of a training set's token ids to
            the token ids of the test set.
        experiments: the runs of each experiment, by its name.
        experiment_fisher_specs: the Fisher information of each experiment's last model, by
            experiment and task. Only experiments with one model use it.
    """

    config: Config
    sizes: Mapping[str, TaskSize]
    locations: Mapping[str, str]
    tests: Mapping[str, TokensSpec]
    experiments: Mapping[str, list[PlannedRun]]
    experiment_fisher_specs: Mapping[str, Mapping[str, FisherSpec]]

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        """All runs, by key. The names of a run's model and method are from its last experiment."""
        return {run.key: run for runs in self.experiments.values() for run in runs}

    @cached_property
    def searches(self) -> dict[str, SearchSpec]:
        """The learning-rate searches, by id."""
        return {run.search.id: run.search for run in self.runs.values() if run.search}

    @cached_property
    def masks(self) -> dict[str, MaskSpec]:
        """All masks, by id."""
        return {mask.id: mask for run in self.runs.values() for mask in run.masks}

    def list_samples(self, need: str) -> dict[str, FisherSpec]:
        """The specs of an argument of rules, such as the Fisher information, by key."""
        masks = self.masks.values()
        return {sample.key: sample for mask in masks for sample in mask.list_samples(need)}

    @cached_property
    def gradient_specs(self) -> dict[str, FisherSpec]:
        """All specs of the derivatives that rules need, by key."""
        return {key: spec for need in DERIVATIVES for key, spec in self.list_samples(need).items()}

    @cached_property
    def fisher_specs(self) -> dict[str, FisherSpec]:
        """All specs of Fisher information, by key."""
        by_experiment = self.experiment_fisher_specs.values()
        specs = (fisher for by_task in by_experiment for fisher in by_task.values())
        return {fisher.key: fisher for fisher in specs} | self.list_samples("fisher")

    @cached_property
    def tokens(self) -> dict[str, TokensSpec]:
        """The specs of all tokenized data, by key."""
        specs = [fisher.tokens for fisher in self.fisher_specs.values()]
        specs += [run.spec.tokens for run in self.runs.values()]
        specs += self.tests.values()
        return {tokens.key: tokens for tokens in specs}

    @cached_property
    def datasets(self) -> dict[str, DataSpec]:
        """All dataset specs, by key."""
        return {tokens.data.key: tokens.data for tokens in self.tokens.values()}

    @cached_property
    def models(self) -> dict[str, ModelSpec]:
        """All model specs, by id."""
        return {run.spec.model.id: run.spec.model for run in self.runs.values()}

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """The id of each model, by its name in the configuration."""
        return {r.model_name: r.spec.model.id for runs in self.experiments.values() for r in runs}

    @cached_property
    def experiments_by_run(self) -> dict[str, frozenset[str]]:
        """Maps the key of each run to the names of the experiments that need the run."""
        experiments: dict[str, set[str]] = {}
        for name, runs in self.experiments.items():
            for run in runs:
                experiments.setdefault(run.key, set()).add(name)
        return {key: frozenset(names) for key, names in experiments.items()}

    @cached_property
    def masked_tensors(self) -> dict[str, WholeTensors]:
        """Maps the name of each mask to the tensors whose entries are scored."""
        masked = [run for run in self.runs.values() if run.masks]
        names = ((run.spec.selection.mask_name, run.masks[0]) for run in masked)
        return {name: mask.top.tensors for name, mask in names if name}

    @cached_property
    def weighted_examples(self) -> dict[str, int]:
        """Maps each run's key to its examples in all epochs, weighted if it trains matrices."""
        return {
            key: run.train_rows
            * self.examples_per_row(run.spec.tokens)
            * run.spec.recipe.epochs
            * (WEIGHT_OF_MATRICES if run.spec.work(self.masked_tensors).trains_matrices else 1)
            for key, run in self.runs.items()
        }

    @cached_property
    def sweeps(self) -> dict[str, list[PlannedRun]]:
        """The runs of each training job, by the key of the job.

        Runs that differ only in their selection, their seed or a field in `VARYING` can be in one
        job. They are split by experiment, so that a job for one experiment trains no run of
        another, unless they take less time than starting a job. With the setting ``jobs_at_once``,
        a job contains only runs that share steps, so that a run ends soon after its job has
        started. All baselines are in one job.
        """
        sweeps = {}
        for group in _group_by_key(self.runs.values(), _job_key):
            parts = [group]
            if sum(self.weighted_examples[run.key] for run in group) > FEW_EXAMPLES:
                parts = _group_by_key(group, lambda run: self.experiments_by_run[run.key])
            for part in parts:
                if not self.config.jobs_at_once:
                    jobs = self._split_within_limits(part)
                else:
                    is_fit = part[0].spec.is_baseline
                    jobs = [part] if is_fit else self.group_runs(part)
                for job in jobs:
                    content = {"runs": [run.key for run in job], "task": job[0].task_name}
                    sweeps[f"{job[0].task_name}-{content_id(content)}"] = job
        return sweeps

    @cached_property
    def search_jobs(self) -> dict[str, tuple[str, ...]]:
        """Maps the key of each search job to the ids of its searches.

        Searches whose runs have the same model, data, recipe and experiments are in one job, unless
        the job would be too large. With the setting ``jobs_at_once``, each search is a job.
        """
        first_runs: dict[str, PlannedRun] = {}
        for run in self.runs.values():
            if run.search:
                first_runs.setdefault(run.search.id, run)
        jobs = [[run] for run in first_runs.values()]
        if not self.config.jobs_at_once:
            groups = _group_by_key(
                first_runs.values(), lambda run: (_job_key(run), self.experiments_by_run[run.key])
            )
            split = (self._split_within_limits(group, RUNS_OF_A_SEARCH) for group in groups)
            jobs = [*chain.from_iterable(split)]
        searches = [tuple(run.search.id for run in job if run.search) for job in jobs]
        return {ids[0] if len(ids) == 1 else hash_text(" ".join(ids)): ids for ids in searches}

    def _split_within_limits(
        self, runs: list[PlannedRun], times: int = 1
    ) -> list[list[PlannedRun]]:
        """Split runs, each trained ``times`` times, by ``runs_per_job`` and `MOST_WEIGHT`.

        Runs that share steps stay together if the limits allow it.
        """

        def is_too_large(job: list[PlannedRun]) -> bool:
            weight = times * sum(self.weighted_examples[run.key] for run in job)
            return times * len(job) > self.config.runs_per_job or weight > MOST_WEIGHT

        groups = self.group_runs(runs) if is_too_large(runs) else [runs]
        jobs: list[list[PlannedRun]] = [[]]
        # Small groups come last, to fill the remaining space in jobs.
        for group in sorted(groups, key=len, reverse=True):
            if jobs[-1] and is_too_large([*jobs[-1], *group]):
                jobs.append([])
            for run in group:
                if jobs[-1] and is_too_large([*jobs[-1], run]):
                    jobs.append([])
                jobs[-1].append(run)
        return jobs

    def task_size(self, tokens: TokensSpec, fold: Fold | None = None) -> TaskSize:
        """Return the size of a task for a run that is scored on ``fold``, if given."""
        return _task_size_with_fold(self.sizes[tokens.data.key], tokens, fold)

    def examples_per_row(self, tokens: TokensSpec) -> int:
        """Return the mean number of examples per row of the dataset."""
        return self.task_size(tokens).examples_per_row(tokens.max_length, tokens.doc_stride)

    def group_runs(self, runs: Iterable[PlannedRun]) -> list[list[PlannedRun]]:
        """Group the runs that share steps: those with the same `RunSpec.sharing_key`."""
        on_gpu = self.config.assumptions.on_gpu
        return _group_by_key(runs, lambda run: run.spec.sharing_key(self.masked_tensors, on_gpu))

    def find_sweeps(self, experiment: str) -> list[str]:
        return [
            key
            for key, sweep in self.sweeps.items()
            if any(experiment in self.experiments_by_run[run.key] for run in sweep)
        ]

    def find_search_jobs(self, *sweeps: str) -> list[str]:
        """Find the keys of the search jobs that choose learning rates for the runs of sweeps."""
        runs = (run for sweep in sweeps for run in self.sweeps[sweep])
        needed = {run.search.id for run in runs if run.search}
        return [key for key, job in self.search_jobs.items() if not needed.isdisjoint(job)]

    def run_keys_by_method(
        self, experiment: str, model_name: str, task_name: str
    ) -> dict[str, str]:
        """Map each method to the key of one run. Runs with masks and baselines are left out."""
        return {
            run.method: run.key
            for run in self.experiments[experiment]
            if (run.model_name, run.task_name, run.scope) == (model_name, task_name, None)
            and not run.spec.is_baseline
        }

    def runs_on_most_rows(self, experiment: str) -> list[PlannedRun]:
        """Return the runs on the largest training set of each model and task."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for run in runs:
            key = run.model_name, run.task_name
            largest[key] = max(largest.get(key, 0), run.train_rows)
        return [run for run in runs if run.train_rows == largest[run.model_name, run.task_name]]


def make_plan(config: Config, sizes: Mapping[str, TaskSize] | None = None) -> Plan:
    """Make the plan of all experiments in a configuration.

    The datasets of tasks in ``sizes`` (by the key of their `DataSpec`) are not read again. A
    missing or invalid local file raises a `SubtuneError`.
    """
    known = dict(sizes or {})
    locations: dict[str, str] = {}
    tests: dict[str, TokensSpec] = {}
    experiments: dict[str, list[PlannedRun]] = {}
    experiment_fisher_specs: dict[str, dict[str, FisherSpec]] = {}
    for name, experiment in config.experiments.items():
        experiments[name] = []
        for model_name in experiment.models:
            model, location = find_model(config, name, model_name)
            locations[model.id] = location
            fishers = {
                task: _plan_fisher(config, name, model, task, known) for task in experiment.tasks
            }
            experiment_fisher_specs[name] = fishers
            for task_name, fisher in fishers.items():
                tokens = fisher.tokens
                if config.is_submitted(task_name):
                    task = config.all_tasks()[task_name]
                    rows = make_data_spec(config, task, task.test)
                    tests[tokens.key] = make_tokens_spec(rows, experiment, model)
                    known[tests[tokens.key].data.key] = known[tokens.data.key]
                fold = experiment.find_fold(experiment.seeds[0])
                size = _task_size_with_fold(known[tokens.data.key], tokens, fold)
                grid = Grid(config, experiment, model_name, task_name, fishers, size)
                folds = set[Fold]()
                for run in grid.list_runs():
                    experiments[name].append(run)
                    for spec in (run.spec, run.search.run if run.search else run.spec):
                        folds |= {spec.recipe.fold} if spec.recipe.fold else set()
                require_labels_in_folds(config, name, tokens.data, folds)
    return Plan(config, known, locations, tests, experiments, experiment_fisher_specs)


def _plan_fisher(
    config: Config, name: str, model: ModelSpec, task_name: str, sizes: dict[str, TaskSize]
) -> FisherSpec:
    """Make the spec of Fisher information on a task, and add the task to ``sizes`` if missing."""
    experiment, task = config.experiments[name], config.all_tasks()[task_name]
    in_full = None
    if experiment.fractions:
        ranked = require_whole(config.selection(experiment.fractions.of))
        in_full = ranked if ranked.work() is TrainingCost.MATRICES else None
    return FisherSpec(
        model=model,
        tokens=find_tokens(config, sizes, name, model, task),
        rows=experiment.fisher_rows,
        in_full=in_full,
        labels=choose_labels(experiment, task),
    )


def _task_size_with_fold(size: TaskSize, tokens: TokensSpec, fold: Fold | None) -> TaskSize:
    """Return the size of a task, with its first evaluation split replaced by ``fold``, if given."""
    if fold is None:
        return size
    others = size.evaluation_rows if len(tokens.data.task.evaluation) > 1 else 0
    return size.for_cv_fold(fold.of, others, fold.rows)


def _job_key(run: PlannedRun) -> Hashable:
    """Return a key that is equal for runs of one job."""
    spec = run.spec
    return spec.model.id, spec.tokens.id, spec.recipe.model_dump_json(exclude=VARYING)


def _group_by_key(
    runs: Iterable[PlannedRun], key: Callable[[PlannedRun], Hashable]
) -> list[list[PlannedRun]]:
    groups: dict[Hashable, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())
