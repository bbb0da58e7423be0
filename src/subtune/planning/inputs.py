"""Inputs of runs: models, rows of tasks and token ids.

Local files are hashed. For a repository of the hub the commit is taken, which `subtune.hub.commits`
keeps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Literal

from subtune.config import Config, Experiment
from subtune.config.schema import HUB_MODELS, ModelSource
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.data import builtin, files
from subtune.data.files import OF_GLUE, repository_of
from subtune.data.sizes import size_of
from subtune.families import naming_of
from subtune.hub.commits import COMMITS, file_at, pinned, remembered
from subtune.models.configuration import (
    Pooling,
    head_by,
    longest_text,
    own_pooling,
    pooling_in,
    read_config,
)
from subtune.models.dimensions import (
    NO_POOLING,
    OtherDimensions,
    dimensions_of,
    fields_of,
    shapes_for,
)
from subtune.models.files import directory_of_package, version_of
from subtune.selections.added import Peft
from subtune.selections.kind import Work
from subtune.selections.rankings import Scope
from subtune.selections.specs import (
    DataSpec,
    FisherSpec,
    Fold,
    Labels,
    ModelSpec,
    RankingSpec,
    RunSpec,
    TokensSpec,
)
from subtune.tasks import Task
from subtune.tasks.task import TaskSize

# Hashing a model's files takes a while.
_version_of_model = cache(version_of)


@dataclass(frozen=True)
class Planned:
    """A run and its place in an experiment's tables and figures.

    ``train_rows`` is how many rows train it. ``seed`` is that of the grid: a run that no seed
    changes stands for all of them.
    """

    run: RunSpec
    model: str
    task: str
    method: str
    train_rows: int
    seed: int
    fraction: float | None = None
    scope: Scope | None = None

    @property
    def fold(self) -> int | None:
        """The number of the fold that judges the run; None if dev rows do."""
        return self.run.recipe.fold.number if self.run.recipe.fold else None

    @property
    def partition(self) -> int | None:
        """The number of the partition to which its fold belongs."""
        return self.run.recipe.fold.partition if self.run.recipe.fold else None


@dataclass
class Grid:
    """Runs, and everything that they are trained with, by key.

    Attributes:
        models: by id.
        model_ids: the models' ids by their names in the configuration.
        model_locations: repository on the hub, or local directory, by the model's id.
        datasets: rows of tasks.
        files: split to path of a user's own task, by the key of its rows.
        directories: directory with a task's official files, by the key of its rows.
        tokens: token ids.
        tests: token ids of the test rows that the GLUE server scores, by the key of the token ids
            that train.
        sizes: sizes of tasks, by the key of their rows.
        fishers: Fisher information.
        rankings: rankings by Fisher information, by id.
        runs: runs by id.
        experiments: an experiment's name to its runs.
        experiment_fishers: an experiment's name to the Fisher information of each task.
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
    experiments: dict[str, list[Planned]] = field(default_factory=dict)
    experiment_fishers: dict[str, dict[str, FisherSpec]] = field(default_factory=dict)

    def size_of(self, tokens: TokensSpec, fold: Fold | None) -> TaskSize:
        """Return the size of a task for a run, which a fold of the training rows may judge."""
        size = self.sizes[tokens.data.key]
        if fold is None:
            return size
        others = size.evaluation_rows if len(tokens.data.task.evaluation) > 1 else 0
        return size.divided(fold.of, others)


def add_model(grid: Grid, config: Config, name: str, model: str) -> ModelSpec:
    """Add a model of the experiment ``name`` to the grid.

    Raises:
        SubtuneError: the model cannot be read, or does not fit the experiment.
    """
    source = config.all_models()[model]
    kept = Path(Layout(config.results).pinned())
    if source.hub:
        location, key = source.hub, f"models.{model}.revision"
        version = pinned(source.hub, source.revision, "model", kept, key)
        spec = ModelSpec(source="hub", repository=source.hub, version=version)
    else:
        try:
            package = source.package
            location = str(directory_of_package(package) if package else source.path)
            spec = ModelSpec(source="files", version=_version_of_model(Path(location)))
        except SubtuneError as error:
            raise SubtuneError(f"models.{model}: {error}") from None
        _require_positions(name, config, model, location)
    if model in HUB_MODELS and dimensions_of(location) != dimensions_of(HUB_MODELS[model]):
        raise SubtuneError(
            f"models.{model}: found a model of other dimensions in {location!r}, expected "
            f"{HUB_MODELS[model]} under its name, or another name"
        )
    pooling, fields = _pooling_of(source, model, location, spec.version, kept), fields_of(location)
    if pooling == "first" and fields and not naming_of(fields["model_type"]).pooling_field:
        # Transformers' class reads it anyway.
        pooling = None
    spec = spec.replaced(pooling=pooling)
    grid.models[spec.id] = spec
    grid.model_ids[model] = spec.id
    grid.model_locations[spec.id] = location
    _require_parameters(name, config, model, location, pooling)
    return spec


def _pooling_of(
    source: ModelSource, model: str, location: str, version: str, kept: Path
) -> Pooling | None:
    """Return the pooling that the configuration says, or else the model's files.

    Raises:
        SubtuneError: the hub cannot be asked for these files, or they cannot be read.
    """
    if source.pooling or location in COMMITS:
        return source.pooling
    if not source.hub:
        return pooling_in(Path(location))
    read = partial(file_at, location, version, f"models.{model}.pooling")
    question = f"pooling of {location}@{version}"
    return (
        "mean"
        if remembered(kept, question, lambda: own_pooling(read) or "first") == "mean"
        else None
    )


def labels_of(experiment: Experiment, task: Task) -> Labels:
    """Return the labels on which an experiment trains a task: classes have no other than raw."""
    return experiment.settings(task.name).labels if task.of_kind.has_numbers else "raw"


def add_tokens(grid: Grid, config: Config, name: str, model: ModelSpec, task: Task) -> TokensSpec:
    """Add the rows and token ids of a task of the experiment ``name`` to the grid.

    Returns:
        The token ids that train.

    Raises:
        SubtuneError: a local file is missing, or holds what cannot be trained on.
    """
    experiment = config.experiments[name]
    users_files = config.tasks[task.name].files if task.name in config.tasks else {}
    rows = _data_spec(config, task, task.labelled, experiment.folds)
    directory = config.directories.get(task.name)
    if rows.key not in grid.sizes:
        # Reads all rows of a user's own files, so once is enough.
        grid.sizes[rows.key] = size_of(task, rows.source, users_files, directory)
    folds, scarcest = experiment.folds, grid.sizes[rows.key].scarcest
    if folds and scarcest and scarcest[1] < folds:
        raise SubtuneError(
            f"experiments.{name}.folds: found {folds} with {scarcest[1]} {scarcest[0]} to train on "
            f"in task {task.name!r}, expected at least one for each fold"
        )
    if experiment.settings(task.name).class_weights and grid.sizes[rows.key].weighed:
        problem = grid.sizes[rows.key].weighed
        raise SubtuneError(f"experiments.{name}.class_weights: task {task.name!r}: {problem}")
    if directory:
        grid.directories[rows.key] = directory
    if users_files:
        grid.files[rows.key] = {split: users_files[split] for split in rows.splits}
    tokens = _add_tokens_of_rows(grid, experiment, model, rows)
    if config.is_submitted(task.name):
        test_rows = _data_spec(config, task, task.test)
        grid.sizes[test_rows.key] = grid.sizes[rows.key]
        grid.tests[tokens.key] = _add_tokens_of_rows(grid, experiment, model, test_rows)
    return tokens


def _add_tokens_of_rows(
    grid: Grid, experiment: Experiment, model: ModelSpec, rows: DataSpec
) -> TokensSpec:
    tokens = TokensSpec(
        data=rows,
        tokenizer=model.id,
        max_length=experiment.settings(rows.task.name).max_length,
        doc_stride=experiment.doc_stride if rows.task.of_kind.overlaps else None,
    )
    grid.datasets[rows.key] = rows
    grid.tokens[tokens.key] = tokens
    return tokens


def _require_positions(name: str, config: Config, model: str, directory: str) -> None:
    """Check that a local model has as many positions as the longest texts have tokens.

    Virtual tokens of PEFT stand before a text.

    Raises:
        SubtuneError: it has fewer.
    """
    experiment = config.experiments[name]
    selected = [config.selection(method, model) for method in experiment.methods_of(model)]
    virtual = max((s.peft.virtual_tokens for s in selected if isinstance(s, Peft)), default=0)
    longest = longest_text(read_config(Path(directory))) - virtual
    for task in experiment.tasks:
        max_length = experiment.settings(task).max_length
        if max_length > longest:
            raise SubtuneError(
                f"experiments.{name}.max_length: found {max_length} for task {task!r}, expected at "
                f"most {longest}, the positions of model {model!r}"
                + (f" without {virtual} virtual tokens" if virtual else "")
            )


def _require_parameters(
    name: str, config: Config, model: str, location: str, pooling: Pooling | None
) -> None:
    """Check that a model of known dimensions has the parameters that the methods select.

    Random entries are not drawn, which takes seconds in a large model.

    Raises:
        SubtuneError: a method selects what the model does not have.
    """
    dimensions, fields = dimensions_of(location), fields_of(location)
    if dimensions is None or fields is None:
        return
    asked = config.all_models()[model].pooling
    if asked and isinstance(dimensions, OtherDimensions) and dimensions.is_decoder:
        raise SubtuneError(f"models.{model}.{NO_POOLING.format(asked)}")
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    # Tasks with the same head have the same parameters, except for the classifier's.
    task_of_head = {}
    for task in reversed(experiment.tasks):
        head = head_by(pooling, all_tasks[task].of_kind.head, fields)
        task_of_head[head] = task
        is_standard = labels_of(experiment, all_tasks[task]) == "standard"
        if is_standard and not [*dimensions.shapes(1, head)][-1].endswith(".bias"):
            raise SubtuneError(
                f"experiments.{name}.labels: found 'standard' for task {task!r}, expected 'raw': "
                f"the classifier of model {model!r} has no bias, which would add the mean"
            )
    selected = [("methods", method) for method in experiment.methods_of(model)]
    if experiment.fractions:
        selected.append(("fractions.of", experiment.fractions.of))
    for (head, task), (key, method) in product(task_of_head.items(), selected):
        selection = config.selection(method, model)
        if selection.work() is Work.ENTRIES:
            continue
        try:
            shapes = shapes_for(selection, dimensions, all_tasks[task].outputs, head)
            selection.resolve(shapes, seed=0)
        except SubtuneError as error:
            raise SubtuneError(
                f"experiments.{name}.{key}: {method!r} of model {model!r} on task {task!r}: {error}"
            ) from None


def _data_spec(
    config: Config, task: Task, splits: Iterable[str], folds: int | None = None
) -> DataSpec:
    """Return those of some splits that a task has, with their version."""
    own, directory = config.tasks.get(task.name), config.directories.get(task.name)
    source: Literal["hub", "tsv", "builtin", "files"]
    source = "files" if own or directory else config.source
    if source in ("tsv", "files"):
        if own:
            paths = files.own_paths(own.files, task, task.evaluation[0] if folds else "")
        else:
            every = (*task.labelled, *task.test)
            paths = files.paths_of(task, source, every, config.glue_dir, directory=directory)
        paths = {split: paths[split] for split in splits if split in paths}
        version = files.version_of(paths)
        splits = paths
    elif source == "hub":
        repository = repository_of(task.name)
        revision = config.revision if repository == OF_GLUE else None
        kept = Path(Layout(config.results).pinned())
        version = pinned(repository.name, revision, "dataset", kept, "revision")
    else:
        version = builtin.version(task)
    return DataSpec(task=task, source=source, version=version, splits=tuple(splits))
