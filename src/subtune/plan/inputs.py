"""Inputs of runs: models, rows of tasks and token ids.

Their versions are hashes of local files, or commits of the hub, which `subtune.core.hub` stores.
"""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Literal

from subtune.config.schema import Config, Experiment, ModelSource
from subtune.core.errors import SubtuneError, locate_errors
from subtune.core.files import Layout
from subtune.core.hub import COMMITS, fetch_text, pin_revision, remember_answer
from subtune.data import sources
from subtune.data.sources import OF_GLUE, REPOSITORIES, mini_version, task_size
from subtune.methods.added import Peft
from subtune.methods.roles import family_naming
from subtune.methods.selection import Work
from subtune.models.families import Dimensions
from subtune.models.model_config import (
    NO_POOLING,
    AnyDimensions,
    Pooling,
    choose_head,
    find_pooling,
    known_dimensions,
    longest_text,
    read_config,
    read_pooling,
    shapes_with_added,
)
from subtune.models.model_files import (
    list_weight_files,
    model_version,
    package_directory,
    stored_names,
)
from subtune.runs.spec import DataSpec, Labels, ModelSpec, TokensSpec
from subtune.tasks import Task, TaskSpec
from subtune.tasks.task import TaskSize

# A window of a long context begins this many tokens after the previous one, as usual on SQuAD.
DOC_STRIDE = 128
# Hashing a model's files takes a while.
_version_of_model = cache(model_version)


def find_model(config: Config, name: str, model: str) -> tuple[ModelSpec, str]:
    """Return a model of the experiment ``name``, and its repository or local directory.

    Raises:
        SubtuneError: the model cannot be read, or does not fit the experiment.
    """
    source = config.all_models()[model]
    kept = Path(Layout(config.results).pinned())
    if source.hub:
        location = source.hub
        version = pin_revision(location, source.revision, "model", kept, f"models.{model}.revision")
        spec = ModelSpec(source="hub", repository=source.hub, version=version)
    else:
        with locate_errors(f"models.{model}"):
            package = source.package
            location = str(package_directory(package) if package else source.path)
            spec = ModelSpec(source="files", version=_version_of_model(Path(location)))
        _require_positions(config, name, model, location)
    pooling = _choose_pooling(source, model, location, spec.version, kept)
    dimensions = known_dimensions(location)
    if dimensions:
        if pooling == "first" and not family_naming(dimensions.model_type).pooling_field:
            # Transformers' class does the same.
            pooling = None
        _require_parameters(config, name, model, location, dimensions, pooling)
    return spec.replaced(pooling=pooling), location


def _choose_pooling(
    source: ModelSource, model: str, location: str, version: str, kept: Path
) -> Pooling | None:
    """Return the pooling from the configuration or, by default, from the model's files."""
    if source.pooling or location in COMMITS:
        return source.pooling
    if not source.hub:
        return read_pooling(Path(location))
    read = partial(fetch_text, location, version, f"models.{model}.pooling")
    question = f"pooling of {location}@{version}"
    answer = remember_answer(kept, question, lambda: find_pooling(read) or "first")
    return "mean" if answer == "mean" else None


def choose_labels(experiment: Experiment, task: Task) -> Labels:
    """Return the kind of labels on which an experiment trains a task. Label words are raw."""
    return experiment.labels if task.of_kind.has_numbers else "raw"


def find_tokens(
    config: Config, sizes: dict[str, TaskSize], name: str, model: ModelSpec, task: Task
) -> TokensSpec:
    """Return the token ids on which the experiment ``name`` trains and evaluates a task.

    Add the task's size to ``sizes`` if it is missing.

    Raises:
        SubtuneError: a local file is missing, or has rows that cannot be trained on.
    """
    experiment = config.experiments[name]
    rows = make_data_spec(config, task, task.labelled_splits, experiment.folds)
    if rows.key not in sizes:
        # This reads all rows of a user's files, with those of a test file.
        own, paths = config.tasks.get(task.name), find_files(config, task, rows.source)
        read = {split: path for split, path in paths.items() if own or split in rows.splits}
        sizes[rows.key] = task_size(task, rows.source, read)
    folds, scarcest = experiment.folds, sizes[rows.key].scarcest
    if folds and scarcest and scarcest[1] < folds:
        raise SubtuneError(
            f"experiments.{name}.folds: found {folds} with {scarcest[1]} {scarcest[0]} to train on "
            f"in task {task.name!r}, expected at least one for each fold"
        )
    problem = sizes[rows.key].weighed
    if experiment.class_weights and problem:
        raise SubtuneError(f"experiments.{name}.class_weights: task {task.name!r}: {problem}")
    return make_tokens_spec(rows, experiment, model)


def make_tokens_spec(rows: DataSpec, experiment: Experiment, model: ModelSpec) -> TokensSpec:
    """Return the spec of the token ids of a task's rows."""
    return TokensSpec(
        data=rows,
        tokenizer=model.id,
        max_length=experiment.max_length,
        doc_stride=DOC_STRIDE if rows.task.of_kind.overlaps else None,
    )


def _require_positions(config: Config, name: str, model: str, directory: str) -> None:
    """Refuse a `max_length` above a local model's positions minus PEFT's virtual tokens."""
    experiment = config.experiments[name]
    selected = [config.selection(method, model) for method in experiment.methods_for(model)]
    virtual = max((s.peft.virtual_tokens for s in selected if isinstance(s, Peft)), default=0)
    longest = longest_text(read_config(Path(directory))) - virtual
    if experiment.max_length > longest:
        raise SubtuneError(
            f"experiments.{name}.max_length: found {experiment.max_length}, expected at most "
            f"{longest}, the positions of model {model!r}"
            + (f" minus {virtual} virtual tokens" if virtual else "")
        )


def _require_parameters(
    config: Config,
    name: str,
    model: str,
    location: str,
    dimensions: AnyDimensions,
    pooling: Pooling | None,
) -> None:
    """Refuse methods that select parameters which a model lacks.

    Methods of random entries are not checked, because drawing them takes seconds in a large model.
    """
    asked = config.all_models()[model].pooling
    if asked and dimensions.is_decoder:
        raise SubtuneError(f"models.{model}.{NO_POOLING.format(asked)}")
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    # Only the classifier's parameters differ between tasks with the same head.
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
                f"experiments.{name}.labels: found 'standard' for task {task!r}, expected 'raw': "
                f"the classifier of model {model!r} has no bias, which would add the mean"
            )
    selected = [("methods", method) for method in experiment.methods_for(model)]
    if experiment.fractions:
        selected.append(("fractions.of", experiment.fractions.of))
    for (head, task), (key, method) in product(task_of_head.items(), selected):
        selection = config.selection(method, model)
        if selection.work() is Work.ENTRIES:
            continue
        place = f"experiments.{name}.{key}: {method!r} of model {model!r} on task {task!r}"
        with locate_errors(place):
            shapes = shapes_with_added(selection, dimensions, all_tasks[task].outputs, head)
            selection.resolve(shapes, seed=0)


def make_data_spec(
    config: Config, task: Task, splits: Iterable[str], folds: int | None = None
) -> DataSpec:
    """Return the spec of a task's rows: the existing ones of ``splits``, and their version."""
    own = config.tasks.get(task.name)
    source: Literal["hub", "tsv", "builtin", "files"]
    source = "files" if own or task.name in config.directories else config.source
    if own:
        sources.user_task_files(own.files, task, task.evaluation[0] if folds else "")
    if source in ("tsv", "files"):
        found = find_files(config, task, source)
        paths = {split: found[split] for split in splits if split in found}
        version = sources.files_version(paths)
        splits = paths
    elif source == "hub":
        repository = REPOSITORIES.get(task.name, OF_GLUE)
        kept = Path(Layout(config.results).pinned())
        version = pin_revision(repository.name, None, "dataset", kept, "source")
    else:
        version = mini_version(task.name)
    return DataSpec(task=task, source=source, version=version, splits=tuple(splits))


def find_files(config: Config, task: TaskSpec, source: str) -> Mapping[str, Path]:
    """Return the file of each split of a task; an empty mapping if its rows are not in files.

    Raises:
        SubtuneError: an official file of a built-in task is missing.
    """
    if own := config.tasks.get(task.name):
        return {split: Path(path) for split, path in own.files.items()}
    if source not in ("tsv", "files"):
        return {}
    directory = config.directories.get(task.name) or config.glue_dir
    return sources.official_files(str(directory), task, source)


def judging_file(config: Config, task: Task, folds: int | None) -> Path:
    """Return the file of a user's own task whose rows give the scores."""
    has_test = len(task.evaluation) > 1
    split = task.evaluation[-1] if has_test or not folds else "train"
    return Path(config.tasks[task.name].files[split])
