"""From a configuration to the values of every stage: datasets, tokens, Fisher, rankings, sweeps.

Nothing here looks at runs. What decides a result is its content: local data and model files are
hashed, and of what is on the hub the commit is taken, which `subtune.hub.commits` keeps.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from subtune.config import Config, Experiment, ModelSource
from subtune.config.schema import HUB_MODELS, each_trained
from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.data import builtin, files, official, tsv, versions
from subtune.data.repositories import OF_GLUE, repository_of
from subtune.data.sizes import size_of
from subtune.hub.commits import pinned
from subtune.models.configuration import longest_text, read_config
from subtune.models.dimensions import dimensions_of
from subtune.models.files import directory_of_package, version_of
from subtune.selections import Selection
from subtune.selections.kind import Work
from subtune.selections.ranked import Ranked, Top
from subtune.selections.rankings import Scope, fishers_in_scope
from subtune.selections.specs import (
    DataSpec,
    FisherSpec,
    ModelSpec,
    RankingSpec,
    Recipe,
    RunSpec,
    Searched,
    TokensSpec,
)
from subtune.selections.whole import WholeTensors, require_whole
from subtune.tasks import Task
from subtune.tasks.task_size import TaskSize

# What a pass over an example costs where a run shares no steps, to one that does.
COST_WITHOUT_SHARING = 6


class Sweep(Value):
    """The runs that one job trains: same model, task, data and shapes."""

    task: str
    runs: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.task}-{self.id}"


@dataclass(frozen=True)
class Planned:
    """A run and its place in an experiment's tables and figures.

    ``train_rows`` is how many rows train it.
    """

    run: RunSpec
    model: str
    task: str
    method: str
    train_rows: int
    fraction: float | None = None
    scope: Scope | None = None


@dataclass
class Plan:
    """All values of all stages by key, and each experiment's runs.

    ``model_ids`` are by the configuration's names, ``model_locations`` by id: the hub's repository
    or the local directory. ``files`` are those of a user's own tasks, split to path, by the key of
    their rows; ``directories`` those with the official files of others. ``sizes`` are those of the
    tasks, by the key of their rows. ``tests`` are the tokens of those test rows that the GLUE
    server scores, by the key of those that train.
    """

    models: dict[str, ModelSpec] = field(default_factory=dict)
    model_ids: dict[str, str] = field(default_factory=dict)
    model_locations: dict[str, str] = field(default_factory=dict)
    datasets: dict[str, DataSpec] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    directories: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, TokensSpec] = field(default_factory=dict)
    tests: dict[str, TokensSpec] = field(default_factory=dict)
    sizes: dict[str, TaskSize] = field(default_factory=dict)
    fishers: dict[str, FisherSpec] = field(default_factory=dict)
    rankings: dict[str, RankingSpec] = field(default_factory=dict)
    runs: dict[str, RunSpec] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    experiments: dict[str, list[Planned]] = field(default_factory=dict)
    experiment_fishers: dict[str, dict[str, FisherSpec]] = field(default_factory=dict)

    def sweeps_of(self, experiment: str) -> list[str]:
        """Keys of the sweeps that hold an experiment's runs."""
        runs = {planned.run.id for planned in self.experiments[experiment]}
        return [key for key, sweep in self.sweeps.items() if not runs.isdisjoint(sweep.runs)]

    def runs_on(self, experiment: str, model: str, task: str) -> dict[str, str]:
        """An experiment's whole methods on a task, each with the id of one of its runs."""
        return {
            planned.method: planned.run.id
            for planned in self.experiments[experiment]
            if (planned.model, planned.task, planned.scope) == (model, task, None)
        }

    def on_most_rows(self, experiment: str) -> list[Planned]:
        """An experiment's runs that have the most training rows of their model and task."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for planned in runs:
            key = planned.model, planned.task
            largest[key] = max(largest.get(key, 0), planned.train_rows)
        return [p for p in runs if p.train_rows == largest[p.model, p.task]]

    def rankings_of(self, sweep: str) -> list[str]:
        """Keys of the rankings that a sweep's masks are taken from."""
        rankings = {self.runs[run].selection.ranking for run in self.sweeps[sweep].runs}
        return sorted(ranking for ranking in rankings if ranking)


def plan(config: Config) -> Plan:
    """Lay out every stage of every experiment.

    Raises:
        SubtuneError: a local file that a run needs is missing or of the wrong kind.
    """
    plan = Plan()
    for name, experiment in config.experiments.items():
        plan.experiments[name] = _experiment(plan, config, name, experiment)
    users: dict[str, set[str]] = {}
    for name, runs in plan.experiments.items():
        for planned in runs:
            plan.runs.setdefault(planned.run.id, planned.run)
            users.setdefault(planned.run.id, set()).add(name)
    plan.sweeps = {sweep.key: sweep for sweep in _sweeps(plan, users, config)}
    return plan


class _Cell(NamedTuple):
    """What tells an experiment's runs of one model and task apart."""

    method: str
    selection: Selection
    learning_rate: float | Searched
    seed: int
    train_rows: int
    fraction: float | None = None
    scope: Scope | None = None


def _experiment(plan: Plan, config: Config, name: str, experiment: Experiment) -> list[Planned]:
    planned = []
    for model in experiment.models:
        source = config.all_models()[model]
        spec = model_spec(config, model, source)
        plan.models[spec.id] = spec
        plan.model_ids[model] = spec.id
        plan.model_locations[spec.id] = model_location(source)
        if not source.hub:
            _require_fit(name, experiment, model, model_location(source))
        _require_parameters(name, config, experiment, model, model_location(source))
        fishers = _fishers(plan, config, experiment, spec)
        plan.experiment_fishers[name] = fishers
        for task in experiment.tasks:
            tokens = fishers[task].tokens
            limits = experiment.limits_of_rows(plan.sizes[tokens.data.key].train_rows)
            cells = [
                cell
                for rows in limits
                for cell in _whole_methods(config, experiment, model, task, rows)
            ]
            cells += _top_fractions(plan, config, experiment, task, fishers, max(limits))
            for cell in cells:
                run = RunSpec(
                    model=spec,
                    tokens=tokens,
                    selection=cell.selection,
                    recipe=_recipe(experiment, task, cell.learning_rate, limits[cell.train_rows]),
                    seed=cell.seed,
                )
                place = cell.method, cell.train_rows, cell.fraction, cell.scope
                planned.append(Planned(run, model, task, *place))
    return planned


def _require_fit(name: str, experiment: Experiment, model: str, directory: str) -> None:
    """Check that a local model is what its name says, and takes texts of the experiment's length.

    Raises:
        SubtuneError: it has other dimensions than the papers' model of its name, or fewer positions
            than tokens.
    """
    if model in HUB_MODELS and dimensions_of(directory) != dimensions_of(HUB_MODELS[model]):
        raise SubtuneError(
            f"models.{model}: found a model of other dimensions in {directory!r}, expected "
            f"{HUB_MODELS[model]} under its name, or another name"
        )
    longest = longest_text(read_config(Path(directory)))
    for task in experiment.tasks:
        max_length = experiment.settings(task).max_length
        if max_length > longest:
            raise SubtuneError(
                f"experiments.{name}.max_length: found {max_length} for task {task!r}, expected at "
                f"most {longest}, the positions of model {model!r}"
            )


def _require_parameters(
    name: str, config: Config, experiment: Experiment, model: str, location: str
) -> None:
    """Check that a model of known dimensions has, with its tasks' heads, what methods select.

    Random draws are not made for it: they take seconds in a large model.

    Raises:
        SubtuneError: a method selects what the model has not.
    """
    dimensions = dimensions_of(location)
    if dimensions is None:
        return
    all_tasks = config.all_tasks()
    # Tasks with the same head have the same parameters beside the classifier.
    task_of_head = {all_tasks[task].of_kind.head: task for task in reversed(experiment.tasks)}
    selected = [("methods", method) for method in experiment.methods_of(model)]
    if experiment.fractions:
        selected.append(("fractions.of", experiment.fractions.of))
    for (head, task), (key, method) in product(task_of_head.items(), selected):
        selection = config.selection(method, model)
        if selection.work() is Work.ENTRIES:
            continue
        try:
            selection.resolve(dimensions.shapes(all_tasks[task].outputs, head), seed=0)
        except SubtuneError as error:
            raise SubtuneError(
                f"experiments.{name}.{key}: {method!r} of model {model!r} on task {task!r}: {error}"
            ) from None


def _fishers(
    plan: Plan, config: Config, experiment: Experiment, model: ModelSpec
) -> dict[str, FisherSpec]:
    """Each task's Fisher information, and into the plan with it what it is computed from."""
    fishers = {}
    in_full = _matrices_of_masks(config, experiment)
    all_tasks = config.all_tasks()
    for task in experiment.tasks:
        tokens = _tokens(plan, config, experiment, model, all_tasks[task])
        settings = experiment.fisher
        fisher = FisherSpec(
            model=model, tokens=tokens, rows=settings.rows, seed=settings.seed, in_full=in_full
        )
        plan.fishers[fisher.key] = fisher
        fishers[task] = fisher
    return fishers


def _tokens(
    plan: Plan, config: Config, experiment: Experiment, model: ModelSpec, task: Task
) -> TokensSpec:
    """A task's tokens that train and evaluate; into the plan with them those that are submitted."""
    users_files = config.tasks[task.name].files if task.name in config.tasks else {}
    rows = data_spec(config, task, task.labelled)
    directory = config.directories.get(task.name)
    # Counted once: a user's own files are read whole.
    size = plan.sizes.get(rows.key) or size_of(task, rows.source, users_files, directory)
    max_length = experiment.settings(task.name).max_length

    def of_rows(rows: DataSpec) -> TokensSpec:
        tokens = TokensSpec(
            data=rows,
            tokenizer=model.id,
            max_length=max_length,
            doc_stride=experiment.doc_stride if task.of_kind.overlaps else None,
        )
        plan.datasets[rows.key] = rows
        plan.tokens[tokens.key] = tokens
        plan.sizes[rows.key] = size
        return tokens

    tokens = of_rows(rows)
    if directory:
        plan.directories[rows.key] = directory
    if users_files:
        plan.files[rows.key] = {split: users_files[split] for split in rows.splits}
    if config.is_submitted(task.name):
        plan.tests[tokens.key] = of_rows(data_spec(config, task, task.test))
    return tokens


def _matrices_of_masks(config: Config, experiment: Experiment) -> WholeTensors | None:
    """What masks are taken of, where that holds matrices."""
    if experiment.fractions is None:
        return None
    base = require_whole(config.selection(experiment.fractions.of))
    return base if base.work() is Work.MATRICES else None


def _whole_methods(
    config: Config, experiment: Experiment, model: str, task: str, train_rows: int
) -> list[_Cell]:
    """Learning rates outermost, so that a new one at the end leaves earlier sweeps as they are."""
    of_task = experiment.settings(task).learning_rates
    cells = [
        (position, _Cell(method, config.selection(method, model), learning_rate, seed, train_rows))
        for method, of_method in experiment.methods_of(model).items()
        for position, learning_rate in enumerate(each_trained(of_method or of_task or ()))
        for seed in experiment.seeds
    ]
    return [cell for _, cell in sorted(cells, key=lambda row: row[0])]


def _top_fractions(
    plan: Plan,
    config: Config,
    experiment: Experiment,
    task: str,
    fishers: Mapping[str, FisherSpec],
    train_rows: int,
) -> list[_Cell]:
    """Fraction 1 is the whole selection, whatever the scope."""
    fractions = experiment.fractions
    if fractions is None:
        return []
    base = require_whole(config.selection(fractions.of))
    learning_rates = fractions.learning_rates or experiment.settings(task).learning_rates or ()
    cells = []
    for scope in fractions.scopes:
        ranking = RankingSpec(of=base, fishers=tuple(fishers_in_scope(scope, task, fishers)))
        plan.rankings[ranking.id] = ranking
        for learning_rate, seed, fraction in product(
            each_trained(learning_rates), experiment.seeds, fractions.values
        ):
            selection: Selection = base
            if fraction < 1:
                selection = Top(top=Ranked(ranking=ranking.id, fraction=fraction))
            cells.append(
                _Cell(fractions.of, selection, learning_rate, seed, train_rows, fraction, scope)
            )
    return cells


def _recipe(
    experiment: Experiment, task: str, learning_rate: float | Searched, limit_of_rows: int | None
) -> Recipe:
    settings = experiment.settings(task)
    return Recipe(
        learning_rate=learning_rate,
        batch_size=settings.batch_size,
        epochs=settings.epochs,
        schedule=experiment.schedule,
        warmup=experiment.warmup,
        weight_decay=experiment.weight_decay,
        max_grad_norm=experiment.max_grad_norm,
        precision=experiment.precision,
        train_rows=limit_of_rows,
    )


def _sweeps(plan: Plan, users: Mapping[str, set[str]], config: Config) -> list[Sweep]:
    """Group runs that share all but selection, learning rate and seed.

    Runs that several experiments need are grouped apart, so that no job trains what was not
    asked for.
    """
    groups: dict[tuple, list[str]] = {}
    for run, spec in plan.runs.items():
        shared = spec.recipe.model_dump_json(exclude={"learning_rate"})
        key = (spec.model.id, spec.tokens.id, shared, tuple(sorted(users[run])))
        groups.setdefault(key, []).append(run)
    return [
        Sweep(task=plan.runs[runs[0]].tokens.data.task.name, runs=tuple(runs))
        for members in groups.values()
        for runs in _jobs(plan, members, config)
    ]


def _jobs(plan: Plan, runs: list[str], config: Config) -> Iterator[list[str]]:
    """Runs of one group, cut into jobs.

    Where they are too much for one, those that train alone are cut apart from those that share
    their steps, which gain from being many.
    """
    max_examples = 1e6 * config.million_examples_per_job
    alone = {run for run in runs if trains_alone(plan, run)}
    examples = {
        run: _examples(plan, run) * (COST_WITHOUT_SHARING if run in alone else 1) for run in runs
    }
    parts = [runs]
    if sum(examples.values()) > max_examples:
        parts = [[r for r in runs if r in alone], [r for r in runs if r not in alone]]
    for part in parts:
        job: list[str] = []
        total = 0
        for run in part:
            full = len(job) == config.runs_per_job or total + examples[run] > max_examples
            if job and full:
                yield job
                job, total = [], 0
            job.append(run)
            total += examples[run]
        if job:
            yield job


def _examples(plan: Plan, run: str) -> int:
    """Examples that a run sees, over all epochs."""
    spec, tokens = plan.runs[run], plan.runs[run].tokens
    size = plan.sizes[tokens.data.key]
    of_a_row = size.examples_of_a_row(tokens.max_length, tokens.doc_stride)
    rows = size.rows_within(spec.recipe.train_rows) * spec.recipe.epochs
    return math.ceil(of_a_row * rows * spec.recipe.whole_runs)


def trains_alone(plan: Plan, run: str) -> bool:
    """Whether a run trains matrices by their own entries, and so shares no step with others."""
    return work(plan, run) in (Work.ENTRIES, Work.MATRICES)


def work(plan: Plan, run: str) -> Work:
    """What a run trains."""
    selection = plan.runs[run].selection
    ranked = plan.rankings[selection.ranking].of if selection.ranking else None
    return selection.work(ranked)


def data_spec(config: Config, task: Task, splits: Iterable[str]) -> DataSpec:
    """The rows of some of a task's splits, as far as it has them; local files are hashed."""
    if task.name in config.tasks:
        paths = files.paths(config.tasks[task.name].files, task)
        return _in_files(task, "files", paths, splits)
    if task.name in config.directories:
        of_splits = official.paths(config.directories[task.name], task, tuple(splits))
        version = versions.version_of(of_splits)
        return DataSpec(task=task, source="files", version=version, splits=tuple(of_splits))
    if config.source == "tsv":
        return _in_files(task, "tsv", tsv.paths(Path(str(config.glue_dir)), task), splits)
    if config.source == "hub":
        kept = Path(Layout(config.results).pinned())
        repository = repository_of(task.name)
        revision = config.revision if repository == OF_GLUE else None
        version = pinned(repository.name, revision, "dataset", kept, "revision")
    else:
        version = builtin.version(task)
    return DataSpec(task=task, source=config.source, version=version, splits=tuple(splits))


def _in_files(
    task: Task, source: Literal["tsv", "files"], paths: Mapping[str, Path], splits: Iterable[str]
) -> DataSpec:
    present = {split: (paths[split],) for split in splits if split in paths}
    version = versions.version_of(present)
    return DataSpec(task=task, source=source, version=version, splits=tuple(present))


def model_location(source: ModelSource) -> str:
    """The hub's repository id, or the local directory."""
    if source.hub:
        return source.hub
    if source.package:
        return str(directory_of_package(source.package))
    return str(source.path)


def model_spec(config: Config, name: str, source: ModelSource) -> ModelSpec:
    """A model under this configuration; local files are hashed."""
    if source.hub:
        kept = Path(Layout(config.results).pinned())
        key = f"models.{name}.revision"
        commit = pinned(source.hub, source.revision, "model", kept, key)
        return ModelSpec(source="hub", repository=source.hub, version=commit)
    try:
        version = _version_of_model(model_location(source))
    except SubtuneError as error:
        raise SubtuneError(f"models.{name}: {error}") from None
    return ModelSpec(source="files", version=version)


@cache
def _version_of_model(directory: str) -> str:
    return version_of(Path(directory))
