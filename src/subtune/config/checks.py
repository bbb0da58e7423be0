"""Checks over the whole configuration: names that one section uses and another defines."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import partial

from pydantic import ValidationError

from subtune.config.messages import text_of
from subtune.config.schema import Config, Experiment, Fractions, TaskSettings
from subtune.core.errors import SubtuneError, listed, one_of
from subtune.data.builtin import MINI_TASKS
from subtune.data.files import RELEASES, is_on_hub
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.selections.embeddings import Embeddings
from subtune.selections.methods import is_built_in
from subtune.selections.patterns import require_whole
from subtune.tasks import TASKS, Task

# Headings that tables of scores have beside those of tasks.
HEADINGS = ("scores of", "method", "parameters", "% of full", "model", "score", "task", "paper")


def problems_of(config: Config) -> Iterator[str]:
    """Yield one line per mistake in a configuration whose sections are valid by themselves."""
    yield from _task_definitions(config)
    for name in filter(is_built_in, config.selections):
        yield f"selections.{name}: found the name of a built-in method, expected one of its own"
    for name, experiment in config.experiments.items():
        yield from _experiment(config, f"experiments.{name}", experiment)


def _task_definitions(config: Config) -> Iterator[str]:
    for name, definition in config.tasks.items():
        if name in TASKS:
            yield f"tasks.{name}: found the name of a built-in task, expected a name of its own"
        paths = [os.path.normpath(path) for path in definition.files.values()]
        if len(set(paths)) < len(paths):
            found = ", ".join(definition.files.values())
            yield f"tasks.{name}.files: found {found}, expected a different file for each split"
        try:
            definition.task(name)
        except ValidationError as error:
            yield f"tasks.{name}.{text_of(error.errors()[0])}"


def _experiment(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    yield from _titles(config, path, experiment)
    if experiment.fractions:
        yield from _fractions(config, f"{path}.fractions", experiment.fractions, experiment.tasks)
    if experiment.folds:
        yield from _folds(config, path, experiment, experiment.folds)
    yield from _unknown(f"{path}.models", experiment.models, config.all_models())
    yield from _unknown(f"{path}.tasks", experiment.tasks, [*TASKS, *config.tasks])
    yield from _without_rows(config, f"{path}.tasks", experiment.tasks)
    yield from _too_short(config, f"{path}.max_length", experiment)
    yield from _without_pooling(config, experiment)
    yield from _of_other_labels(config, path, experiment)
    yield from _unknown(f"{path}.by_task", experiment.by_task, experiment.tasks)
    yield from _unknown(f"{path}.by_model", experiment.by_model, experiment.models)
    # Someone who takes a method out need not look for its settings.
    for method in experiment.by_method:
        yield from _method(config, f"{path}.by_method", method)
    for method in experiment.methods:
        yield from _method(config, f"{path}.methods", method)
    for model, settings in experiment.by_model.items():
        for method in settings.methods:
            yield from _method(config, f"{path}.by_model.{model}.methods", method)
    yield from _learning_rates(config, path, experiment)
    yield from _embeddings_without_a_task(config, path, experiment)


def _fractions(
    config: Config, path: str, fractions: Fractions, tasks: tuple[str, ...]
) -> Iterator[str]:
    try:
        require_whole(config.selection(fractions.of))
    except SubtuneError as error:
        yield f"{path}.of: {error}"
    if "cv" in fractions.scopes and len(tasks) == 1:
        yield (
            f"{path}.scopes: found 'cv' with one task, expected several tasks: "
            "a cross-validated mask uses the information of all other tasks"
        )


def _folds(config: Config, path: str, experiment: Experiment, folds: int) -> Iterator[str]:
    """Yield a line per setting that does not fit cross-validation."""
    seeds = len(experiment.seeds)
    if seeds % folds:
        yield (
            f"{path}.folds: found {folds} with {seeds} seeds, expected a multiple of {folds} "
            "seeds: one fold judges the run of each seed, and each fold judges equally often"
        )
    if experiment.fractions:
        yield (
            f"{path}.folds: found {folds} with `fractions`, expected one of the two: the Fisher "
            "information that ranks would be of the rows that judge, too"
        )
    for name in experiment.tasks:
        if name in config.tasks and "validation" in config.tasks[name].files:
            yield (
                f"{path}.folds: found {folds} with tasks.{name}.files.validation, expected one of "
                "the two: with folds the training rows judge"
            )


def _titles(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    """Yield a line per task whose title is already the heading of another column."""
    headings = set(HEADINGS)
    for task in _tasks(config, experiment):
        for _, title in task.columns():
            if title in headings:
                yield (
                    f"{path}.tasks: found {task.name!r} with the title {title!r}, expected a "
                    "`title` that no other column of a table has"
                )
            headings.add(title)


def _too_short(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    """Yield a line per task whose examples are too short to hold a part of each text."""
    for task in _tasks(config, experiment):
        max_length, least = experiment.settings(task.name).max_length, task.of_kind.least_length
        if max_length < least:
            yield f"{path}: found {max_length} for task {task.name!r}, expected at least {least}"


def _without_pooling(config: Config, experiment: Experiment) -> Iterator[str]:
    """Yield a line per model with a pooling that a task has no use for."""
    others = [
        t.name for t in _tasks(config, experiment) if t.of_kind.head != SEQUENCE_CLASSIFICATION
    ]
    for name in experiment.models if others else ():
        source = config.all_models().get(name)
        if source and source.pooling:
            yield (
                f"models.{name}.pooling: found {source.pooling!r} for task {others[0]!r}, expected "
                "none: every word or position has an answer of its own; name the model twice"
            )


def _of_other_labels(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    """Yield a line per setting of numbers for tasks of label words, or the other way round."""
    tasks = _tasks(config, experiment)
    for key, value, suits, problem in (
        ("labels", "standard", "has_numbers", "a regression, expected 'raw'"),
        ("class_weights", "balanced", "has_label_words", "label words, expected none"),
    ):
        others = [task.name for task in tasks if not getattr(task.of_kind, suits)]
        own = [name for name in others if name in experiment.by_task]
        places: list[tuple[str, TaskSettings | Experiment]]
        places = [(f"by_task.{name}.", experiment.by_task[name]) for name in own]
        if tasks and len(others) == len(tasks):
            places.append(("", experiment))
        for place, settings in places:
            if getattr(settings, key) == value:
                yield f"{path}.{place}{key}: found {value!r} without {problem}"


def _tasks(config: Config, experiment: Experiment) -> list[Task]:
    """Return an experiment's tasks; none if a definition is not valid."""
    with contextlib.suppress(ValidationError):
        tasks = config.all_tasks()
        return [tasks[name] for name in experiment.tasks if name in tasks]
    return []


def _unknown(path: str, names: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"{path}: {one_of(name, known)}"


def _without_rows(config: Config, path: str, tasks: Iterable[str]) -> Iterator[str]:
    """Yield a line per built-in task that neither the source nor a directory has."""
    has = {
        "hub": is_on_hub,
        "tsv": lambda task: task not in RELEASES,
        "builtin": lambda task: task in MINI_TASKS,
    }[config.source]
    for task in tasks:
        if task in TASKS and task not in config.directories and not has(task):
            own = f"`directories.{task}`, the directory with its files"
            yield (
                f"{path}: found {task!r}, which `source: {config.source}` does not have, expected "
                f"{own if task in RELEASES else 'another source'}"
            )


def _method(config: Config, path: str, method: str) -> Iterator[str]:
    try:
        config.selection(method)
    except SubtuneError as error:
        yield f"{path}: {error}"


def _learning_rates(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    """Yield a line if something that trains has no learning rates, or embeddings have some."""
    bare = next(
        (t for t in experiment.tasks if experiment.settings(t).learning_rates is None), None
    )
    given = [of for model in experiment.models for of in experiment.methods_of(model).items()]
    trains = [(f"methods.{m}", rates) for m, rates in given if not _is_embeddings(config, m)]
    if experiment.fractions:
        trains.append(("fractions.learning_rates", experiment.fractions.learning_rates))
    without = next((key for key, rates in trains if rates is None), None)
    if bare and without:
        yield (
            f"{path}: found no learning rates for task {bare!r}, expected them under {without}, "
            f"by_task.{bare}.learning_rates or learning_rates; `search` finds one"
        )
    for method, rates in dict(given).items():
        if rates is not None and _is_embeddings(config, method):
            yield f"{path}.methods.{method}: found learning rates, expected none: nothing trains"


def _embeddings_without_a_task(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    tasks = _tasks(config, experiment)
    if tasks and all(task.of_kind.head != SEQUENCE_CLASSIFICATION for task in tasks):
        for method in filter(partial(_is_embeddings, config), experiment.all_methods()):
            yield (
                f"{path}.methods: found {method!r}, which needs a task of classification or "
                f"regression, expected one beside {listed(experiment.tasks)}"
            )


def _is_embeddings(config: Config, method: str) -> bool:
    with contextlib.suppress(SubtuneError):
        return isinstance(config.selection(method), Embeddings)
    return False
