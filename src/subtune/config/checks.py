"""Validation of a whole configuration before any job starts, with one line per error.

Pydantic validates each section alone; the functions here check sections against each other.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from subtune.config import parse_config_file
from subtune.config.fields import PATTERNS_IN_WORDS
from subtune.config.schema import Config, Experiment
from subtune.core.errors import (
    SubtuneError,
    describe_pydantic_error,
    format_allowed,
    join_names,
    key_path,
    shorten,
)
from subtune.data.sources import MINI_TASKS, OFFICIAL_NAMES, REPOSITORIES
from subtune.methods import is_method
from subtune.methods.baselines import Baseline, Estimator, make_estimator
from subtune.methods.rules import BUILT_IN, find_rule, try_rule
from subtune.methods.selection import require_whole
from subtune.methods.single_entries import RankedEntries, Scope
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.tasks import TASKS, Task
from subtune.tasks.metrics import is_scorer
from subtune.tasks.task_kind import KINDS

# Headings in score tables, which cannot be task titles.
HEADINGS = ("scores of", "method", "parameters", "% of full", "model", "score", "task", "paper")


def check_config(data: Mapping[str, Any]) -> Config:
    """Validate a parsed ``config.yaml``. Raise a `SubtuneError` with one line per error."""
    try:
        config = Config.model_validate(data)
        problems = list(_list_problems(config))
    except ValidationError as error:
        problems = [*_describe_errors(error)]
    if problems:
        raise SubtuneError("\n".join(dict.fromkeys(problems)))
    return config


def read_config(path: Path) -> Config:
    """Read and validate a configuration file, or the key ``config`` of a Snakemake profile."""
    return check_config(parse_config_file(path))


def _list_problems(config: Config) -> Iterator[str]:
    """Yield an error message for each inconsistency between individually valid sections."""
    tasks = dict(TASKS)
    for name, definition in config.tasks.items():
        if name in TASKS:
            yield f"tasks.{name}: this is the name of a built-in task; choose another name"
        if len({*map(os.path.normpath, definition.files.values())}) < len(definition.files):
            found = ", ".join(definition.files.values())
            yield f"tasks.{name}.files: found {found}, expected a different file for each split"
        try:
            tasks[name] = definition.task(name)
            yield from _check_scorers(tasks[name])
        except ValidationError as error:
            yield f"tasks.{name}.{describe_pydantic_error(error.errors()[0])}"
        yield from _check_predictions(config, name)
    for name in config.assumptions.pace_by_model:
        if name not in config.all_models():
            yield f"assumptions.pace_by_model: {format_allowed(name, config.all_models())}"
    for key in ("selections", "baselines"):
        for name in getattr(config, key):
            if is_method(name, {}):
                yield f"{key}.{name}: this is the name of a built-in method; choose another name"
    for name in config.selections.keys() & config.baselines.keys():
        yield f"baselines.{name}: this name is also in `selections`; choose another name"
    for name, selection in config.selections.items():
        if isinstance(selection, RankedEntries):
            yield from _check_rule(f"selections.{name}.top", selection.top.by)
    for name, experiment in config.experiments.items():
        path = f"experiments.{name}"
        for key, names, known in (
            ("models", experiment.models, config.all_models()),
            ("tasks", experiment.tasks, [*TASKS, *config.tasks]),
            ("by_task", experiment.by_task, experiment.tasks),
            ("by_model", experiment.by_model, experiment.models),
        ):
            yield from (
                f"{path}.{key}: {format_allowed(n, known)}" for n in names if n not in known
            )
        known_tasks = [tasks[task] for task in experiment.tasks if task in tasks]
        yield from _check_margin(path, experiment.margin, known_tasks)
        yield from _check_tasks(config, path, known_tasks)
        yield from _check_methods(config, path, experiment)
        yield from _check_baselines(config, experiment, known_tasks)
        if experiment.fractions:
            yield from _check_fractions(config, path, experiment)
        if experiment.folds:
            yield from _check_folds(config, path, experiment)


def _check_margin(path: str, margin: float, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield an error message if the margin is larger than any score of a task."""
    shares = [task.name for task in tasks if not is_scorer(task.metrics[0])]
    if margin >= 1 and shares:
        other = " in this experiment" if len(shares) < len(tasks) else ""
        yield (
            f"{path}.margin: found {margin:g}, expected less than 1 with the task "
            f"{shares[0]!r}{other}"
        )


def _check_scorers(task: Task) -> Iterator[str]:
    """Yield an error message for each scorer of a task that cannot be used."""
    # A plan for other machines does not need scikit-learn.
    if task.scorers and find_spec("sklearn"):
        from subtune.tasks.scorers import check_scorer

        for name in task.scorers:
            try:
                check_scorer(name, task.outputs)
            except SubtuneError as error:
                yield f"tasks.{task.name}.metrics: {error}"


def _check_predictions(config: Config, task: str) -> Iterator[str]:
    kind = KINDS[config.tasks[task].kind_name]
    for system in config.tasks[task].predictions:
        key = f"tasks.{task}.predictions"
        if kind.head != SEQUENCE_CLASSIFICATION:
            yield (
                f"{key}: found {system!r}, but external predictions are not supported for "
                f"{kind.name!r} tasks; remove them"
            )
        elif is_method(system, config.own_methods):
            yield f"{key}: {system!r} is the name of a method; choose another name"


def _check_tasks(config: Config, path: str, tasks: Sequence[Task]) -> Iterator[str]:
    headings = {*HEADINGS}
    has_data = {
        "hub": lambda name: name in REPOSITORIES or name not in OFFICIAL_NAMES,
        "tsv": lambda name: name not in OFFICIAL_NAMES,
        "builtin": lambda name: name in MINI_TASKS,
    }[config.source]
    for task in tasks:
        name = task.name
        for _, title in task.columns():
            if title in headings:
                yield (
                    f"{path}.tasks: the title {title!r} of task {name!r} is also the heading of "
                    "another column in the score tables; choose another `title`"
                )
            headings.add(title)
        if name in TASKS and name not in config.directories and not has_data(name):
            directory = f"set `directories.{name}` to the directory with the task's files"
            yield (
                f"{path}.tasks: `source: {config.source}` does not provide {name!r}; "
                f"{directory if name in OFFICIAL_NAMES else 'choose another source'}"
            )


def _check_methods(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    methods: dict[str, Mapping[str, Any]] = {
        "by_method": dict.fromkeys(experiment.by_method),
        "methods": experiment.methods,
    }
    for model, settings in experiment.by_model.items():
        methods[f"by_model.{model}.methods"] = settings.methods
    # The methods whose learning rates are not checked below.
    others = set()
    for key, rates_by_method in methods.items():
        for method, rates in rates_by_method.items():
            try:
                selection = config.selection(method)
                if isinstance(selection, Baseline):
                    others.add(method)
                    if rates:
                        expected = "expected none, because it is a baseline; remove them"
                        yield f"{path}.{key}.{method}: found learning rates, {expected}"
                if isinstance(selection, RankedEntries):
                    scopes = [selection.top.scope]
                    yield from _check_scopes(f"{path}.{key}.{method}", experiment, scopes)
            except SubtuneError as error:
                others.add(method)
                yield f"{path}.{key}: {error}"
    for model in experiment.models:
        for method in experiment.methods_for(model):
            if method not in others:
                yield from _check_rates(path, experiment, method, model)


def _check_baselines(
    config: Config, experiment: Experiment, tasks: Sequence[Task]
) -> Iterator[str]:
    """Yield an error message for each estimator that cannot be built for one of the tasks."""
    # A plan for other machines does not need scikit-learn.
    if not find_spec("sklearn"):
        return
    fitted = [task.of_kind for task in tasks if task.of_kind.head == SEQUENCE_CLASSIFICATION]
    for name, selection in config.own_methods.items():
        if name not in experiment.all_methods or not isinstance(selection, Estimator):
            continue
        for has_numbers in {kind.has_numbers for kind in fitted}:
            try:
                make_estimator(selection, has_numbers, None)
            except SubtuneError as error:
                yield f"baselines.{name}.estimator: {error}"


def _check_rates(path: str, experiment: Experiment, method: str, model: str) -> Iterator[str]:
    """Yield an error message for the first task for which a method has no learning rates."""
    for task in experiment.tasks:
        if not experiment.rates_for(method, model, task):
            yield (
                f"{path}: no learning rates for task {task!r}; list them under "
                f"methods.{method}, by_task.{task}.learning_rates or learning_rates, or write "
                "`search` there"
            )
            return


def _check_fractions(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    assert experiment.fractions
    method = experiment.fractions.of
    try:
        require_whole(config.selection(method))
    except SubtuneError as error:
        yield f"{path}.fractions.of: {error}"
    else:
        yield from _check_rates(path, experiment, method, experiment.models[0])
    yield from _check_rule(f"{path}.fractions", experiment.fractions.by)
    _, is_own, name = experiment.fractions.by.rpartition(":")
    if is_own and name in BUILT_IN:
        yield (
            f"{path}.fractions.by: found a function {name!r}, which is the name of a built-in "
            "rule; choose another name"
        )
    yield from _check_scopes(f"{path}.fractions.scopes", experiment, experiment.fractions.scopes)


def _check_rule(path: str, by: str) -> Iterator[str]:
    try:
        try_rule(find_rule(by))
    except SubtuneError as error:
        yield f"{path}.{error}"


def _check_scopes(path: str, experiment: Experiment, scopes: Collection[Scope]) -> Iterator[str]:
    if "cv" in scopes and len(experiment.tasks) == 1:
        yield (
            f"{path}: found one task for 'cv', expected several, because a cross-validated mask is "
            "determined by the examples of all other tasks"
        )


def _check_folds(config: Config, path: str, experiment: Experiment) -> Iterator[str]:
    folds, seeds = experiment.folds or 1, len(experiment.seeds)
    if seeds > folds and seeds % folds:
        yield (
            f"{path}.folds: found {seeds} seeds for {folds} folds, expected a multiple of {folds}, "
            "because each seed is scored on one fold and every fold must be used equally "
            "often"
        )
    for name in experiment.tasks:
        if name in config.tasks and "validation" in config.tasks[name].files:
            yield (
                f"{path}.folds: not allowed with tasks.{name}.files.validation, because with folds "
                "the scores come from the training set; remove one of the two settings"
            )


def _describe_errors(error: ValidationError) -> Iterator[str]:
    """Yield one line for each error: the path of the key, the value found and the expected one."""
    problems = error.errors()
    places = [tuple(problem["loc"]) for problem in problems]
    for problem, place in zip(problems, places, strict=True):
        # If a list is too short because of an invalid item, only the item is reported.
        if any(other[: len(place)] == place and other != place for other in places):
            continue
        # Parts of the location that pydantic adds begin with "[". An unknown key of the user may
        # also begin with "[", but such a key is always the last part.
        *above, last = place or ("[",)
        path = [step for step in above if not str(step).startswith("[")]
        if problem["type"] == "invalid_key":
            # In YAML 1.1, some words are truth values.
            found = f"found the key {problem['input']!r}, as YAML reads `on`, `yes`, `off` and `no`"
            yield f"{key_path(path)}: {found}; expected one of {join_names(_valid_keys(path))}"
        elif problem["type"] == "extra_forbidden":
            key, valid = key_path([*path, last]), _valid_keys(path)
            if last in valid:
                others = f"the other keys of {key_path(path)}"
                yield f"{key}: cannot be combined with {others}; remove one of them"
            else:
                yield f"{key}: unknown key, {format_allowed(str(last), valid)}"
        else:
            path += [] if str(last).startswith("[") else [last]
            yield ": ".join([*([key_path(path)] if path else []), _describe_problem(problem)])


def _describe_problem(problem: ErrorDetails) -> str:
    value, kind, context = problem["input"], problem["type"], problem.get("ctx", {})
    if isinstance(value, bool):
        return (
            f"found {value}, expected a number or a string; in YAML, put 'yes', 'no' and 'on' in "
            "quotes"
        )
    if kind == "literal_error":
        allowed = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return format_allowed(value, allowed)
    if kind == "string_pattern_mismatch":
        return f"found {shorten(value)!r}, expected {PATTERNS_IN_WORDS[context['pattern']]}"
    return describe_pydantic_error(problem)


def _valid_keys(path: list) -> list[str]:
    sections: list[type[BaseModel]] = [Config]
    for step in path:
        fields = [section.model_fields.get(step) for section in sections]
        inner = [model for field in fields if field for model in _find_models(field.annotation)]
        # A name that the user has chosen, or a list index, does not lead to another section.
        sections = inner or sections
    return list(dict.fromkeys(key for section in sections for key in section.model_fields))


def _find_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _find_models(part)]
