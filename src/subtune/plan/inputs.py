"""Specs of the inputs of runs: models, datasets and token ids.

The version of a local input is a hash of its files. The version of an input from the Hugging Face
hub is a commit, which `subtune.core.hub` stores.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Literal

from subtune.config.schema import Config, Experiment, ModelSource
from subtune.core.errors import SubtuneError, locate_errors
from subtune.core.files import Layout
from subtune.core.hub import COMMITS, cached_answer, fetch_text, pin_revision
from subtune.data import sources
from subtune.data.sources import (
    OF_GLUE,
    REPOSITORIES,
    divide_columns,
    find_scoring_error,
    find_weighting_error,
    mini_version,
    read_columns,
    task_size,
)
from subtune.methods.added import Peft
from subtune.methods.roles import family_naming
from subtune.methods.single_entries import Random
from subtune.models.dimensions import AnyDimensions, known_dimensions, shapes_of_selection
from subtune.models.families import Dimensions
from subtune.models.model_config import (
    NO_POOLING,
    Pooling,
    choose_head,
    find_pooling,
    has_own_initialisation,
    longest_text,
    read_model_config,
    read_pooling,
)
from subtune.models.model_files import (
    list_weight_files,
    model_version,
    package_directory,
    stored_names,
)
from subtune.runs.spec import DataSpec, Fold, Labels, ModelSpec, TokensSpec
from subtune.tasks import Task, TaskSpec
from subtune.tasks.task import TaskSize

# Consecutive windows of a long context start this many tokens apart, as is usual for SQuAD.
DOC_STRIDE = 128
# Versions are cached, because several experiments need the same version and hashing is slow.
_cached_model_version = cache(model_version)


def find_model(config: Config, name: str, model: str) -> tuple[ModelSpec, str]:
    """Find a model's spec and its hub repository or local directory, for the experiment ``name``.

    A model that cannot be read or does not fit the experiment raises a `SubtuneError`.
    """
    source = config.all_models()[model]
    pins = Path(Layout(config.results).pinned_commits())
    if source.hub:
        location = source.hub
        version = pin_revision(location, source.revision, "model", pins, f"models.{model}.revision")
        spec = ModelSpec(source="hub", repository=source.hub, version=version)
    else:
        with locate_errors(f"models.{model}"):
            location = str(local_directory(source))
            spec = ModelSpec(source="files", version=_cached_model_version(Path(location)))
        _check_max_length(config, name, model, location)
    pooling = _choose_pooling(source, model, location, spec.version, pins)
    dimensions = known_dimensions(location)
    if dimensions:
        if pooling == "first" and not family_naming(dimensions.model_type).pooling_field:
            # Without this field, transformers' class for the family also reads the first token.
            pooling = None
        _check_selected_parameters(config, name, model, location, dimensions, pooling)
    # The type of a model on the hub is not known, but it is part of the names of such models.
    if has_own_initialisation(dimensions.model_type if dimensions else location):
        spec = spec.replace(initial_classifier="transformers")
    return spec.replace(pooling=pooling), location


def local_directory(source: ModelSource) -> Path:
    """Return the directory of a model that is not on the hub."""
    return package_directory(source.package) if source.package else Path(str(source.path))


def _choose_pooling(
    source: ModelSource, model: str, location: str, version: str, pins: Path
) -> Pooling | None:
    """Return the pooling from the configuration or, if it sets none, from the model's files."""
    if source.pooling or location in COMMITS:
        return source.pooling
    if not source.hub:
        return read_pooling(Path(location))
    read = partial(fetch_text, location, version, f"models.{model}.pooling")
    question = f"pooling of {location}@{version}"
    answer = cached_answer(pins, question, lambda: find_pooling(read) or "first")
    return "mean" if answer == "mean" else None


def choose_labels(experiment: Experiment, task: Task) -> Labels:
    """Return ``experiment.labels`` if the task's labels are numbers, otherwise ``"raw"``."""
    return experiment.labels if task.of_kind.has_numbers else "raw"


def find_tokens(
    config: Config, sizes: dict[str, TaskSize], name: str, model: ModelSpec, task: Task
) -> TokensSpec:
    """Find the token ids of a task's training and evaluation splits in the experiment ``name``.

    ``sizes`` maps keys of `DataSpec`s to sizes; if the size of this task is missing, it is added.
    Local files that are missing or cannot be used for training raise a `SubtuneError`.
    """
    experiment = config.experiments[name]
    data = make_data_spec(config, task, task.labelled_splits, experiment.folds)
    if data.key not in sizes:
        # All rows of a user's files are read, including those of a test file.
        user_task, paths = config.tasks.get(task.name), find_files(config, task, data.source)
        to_read = {
            split: path for split, path in paths.items() if user_task or split in data.splits
        }
        sizes[data.key] = task_size(task, data.source, to_read)
    folds, scarcest = experiment.folds, sizes[data.key].scarcest
    if folds and scarcest and scarcest[1] < folds:
        raise SubtuneError(
            f"experiments.{name}.folds: found {folds}, but the training set of task {task.name!r} "
            f"has only {scarcest[1]} {scarcest[0]}, expected at least one for each fold"
        )
    problem = sizes[data.key].weighting_error
    if experiment.class_weights and problem:
        raise SubtuneError(f"experiments.{name}.class_weights: task {task.name!r}: {problem}")
    return make_tokens_spec(data, experiment, model)


def require_labels_in_folds(
    config: Config, name: str, data: DataSpec, folds: Collection[Fold]
) -> None:
    """Check that labels can be weighted outside each fold, and that scorers are defined on it.

    Data that are read after planning are not checked, nor scorers without scikit-learn.
    """
    task = data.task
    is_weighted = config.experiments[name].class_weights and task.of_kind.has_label_words
    is_scored = task.scorers and find_spec("sklearn")
    if data.source in ("builtin", "files") and folds and (is_weighted or is_scored):
        paths = find_files(config, task, data.source)
        columns = read_columns(task, paths, data.source)["train"]
        divide = cache(partial(divide_columns, task, columns))
        for fold in sorted(folds, key=attrgetter("number")):
            scored = divide(fold.of, fold.partition)[fold.number]
            place = f"task {task.name!r}: fold {fold.number + 1} of {fold.of}"
            if is_weighted and (problem := find_weighting_error(task, columns, scored)):
                raise SubtuneError(f"experiments.{name}.class_weights: {place}: {problem}")
            if is_scored and (problem := find_scoring_error(task, columns, scored)):
                raise SubtuneError(
                    f"experiments.{name}: {place}: {problem}; use another metric, fewer folds, or "
                    "more rows"
                )


def make_tokens_spec(data: DataSpec, experiment: Experiment, model: ModelSpec) -> TokensSpec:
    """Make the spec of a dataset's token ids for the tokenizer of a model."""
    return TokensSpec(
        data=data,
        tokenizer=model.id,
        max_length=experiment.max_length,
        doc_stride=DOC_STRIDE if data.task.of_kind.overlaps else None,
    )


def _check_max_length(config: Config, name: str, model: str, directory: str) -> None:
    """Check that ``max_length`` and PEFT's virtual tokens fit a local model's positions."""
    experiment = config.experiments[name]
    selected = [config.selection(method, model) for method in experiment.methods_for(model)]
    virtual = max((s.peft.virtual_tokens for s in selected if isinstance(s, Peft)), default=0)
    longest = longest_text(read_model_config(Path(directory))) - virtual
    if experiment.max_length > longest:
        raise SubtuneError(
            f"experiments.{name}.max_length: found {experiment.max_length}, expected at most "
            f"{longest}, the number of positions of model {model!r}"
            + (f" minus {virtual} virtual tokens" if virtual else "")
        )


def _check_selected_parameters(
    config: Config,
    name: str,
    model: str,
    location: str,
    dimensions: AnyDimensions,
    pooling: Pooling | None,
) -> None:
    """Check that a model has the parameters that the methods of an experiment select.

    Methods with random entries are not checked, because drawing the entries of a large model takes
    seconds. The pooling and the labels are checked as well.
    """
    pooling_setting = config.all_models()[model].pooling
    if pooling_setting and dimensions.is_decoder:
        raise SubtuneError(f"models.{model}.{NO_POOLING.format(pooling_setting)}")
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    # One task per head is checked, because tasks with the same head differ only in the classifier.
    task_of_head = {}
    for task in reversed(experiment.tasks):
        head = choose_head(pooling, all_tasks[task].of_kind.head, dimensions.model_type)
        task_of_head[head] = task
        if isinstance(dimensions, Dimensions) and Path(location).is_dir():
            with locate_errors(f"models.{model}"):
                stored_names(list_weight_files(Path(location)), dimensions, head)
        is_standard = choose_labels(experiment, all_tasks[task]) == "standard"
        if is_standard and not [*dimensions.shapes(1, head)][-1].endswith(".bias"):
            raise SubtuneError(
                f"experiments.{name}.labels: found 'standard' for task {task!r}, expected 'raw', "
                f"because the classifier of model {model!r} has no bias, and 'standard' adds the "
                "mean of the labels to this bias"
            )
    selected = [("methods", method) for method in experiment.methods_for(model)]
    if experiment.fractions:
        selected.append(("fractions.of", experiment.fractions.of))
    for (head, task), (key, method) in product(task_of_head.items(), selected):
        selection = config.selection(method, model)
        if isinstance(selection, Random):
            continue
        place = f"experiments.{name}.{key}: {method!r} of model {model!r} on task {task!r}"
        with locate_errors(place):
            shapes = shapes_of_selection(selection, dimensions, all_tasks[task].outputs, head)
            selection.resolve(shapes, seed=0)


def make_data_spec(
    config: Config, task: Task, splits: Iterable[str], folds: int | None = None
) -> DataSpec:
    """Make the spec of a task's dataset. Splits of local data without a file are left out."""
    user_task = config.tasks.get(task.name)
    source: Literal["hub", "tsv", "builtin", "files"]
    source = "files" if user_task or task.name in config.directories else config.source
    if user_task:
        sources.user_task_files(user_task.files, task, task.evaluation[0] if folds else "")
    if source in ("tsv", "files"):
        files = find_files(config, task, source)
        paths = {split: files[split] for split in splits if split in files}
        version = sources.files_version(paths)
        splits = paths
    elif source == "hub":
        repository = REPOSITORIES.get(task.name, OF_GLUE)
        pins = Path(Layout(config.results).pinned_commits())
        version = pin_revision(repository.name, None, "dataset", pins, "source")
    else:
        version = mini_version(task.name)
    return DataSpec(task=task, source=source, version=version, splits=tuple(splits))


def find_files(config: Config, task: TaskSpec, source: str) -> Mapping[str, Path]:
    """Map each split to its file. The result is empty if the source has no local files.

    A `SubtuneError` is raised if an official file of a built-in task is missing.
    """
    if user_task := config.tasks.get(task.name):
        return {split: Path(path) for split, path in user_task.files.items()}
    if source not in ("tsv", "files"):
        return {}
    directory = config.directories.get(task.name) or config.glue_dir
    return sources.official_files(str(directory), task, source)


def scored_file(config: Config, task: Task, folds: int | None) -> Path:
    """Return the file whose examples are used to compare methods on a user-defined task.

    This is the test file. Without a test file, it is the training file in cross-validation, and
    otherwise the dev file.
    """
    has_test = len(task.evaluation) > 1
    split = task.evaluation[-1] if has_test or not folds else "train"
    return Path(config.tasks[task.name].files[split])
