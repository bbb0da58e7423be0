"""What tables and figures are told of their experiment, beside numbers.

A workflow takes a fact as a plain value when it plans, so that what has changed is seen, and a job
turns it into what the exhibit's function takes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from subtune import papers
from subtune.config import Config, Experiment
from subtune.selections import SELECTION
from subtune.tasks import Task
from subtune.tasks.score_columns import ScoreColumn, columns_of


class Fact(NamedTuple):
    """How a workflow takes it, as lists, dictionaries, text and numbers; and how a job reads it."""

    taken: Callable[[Config, Experiment], Any]
    read: Callable[[Any], Any] = lambda plain: plain


def _tasks(config: Config, experiment: Experiment) -> list[Task]:
    tasks = config.all_tasks()
    return [tasks[name] for name in experiment.tasks]


def tasks_of(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """The definitions of an experiment's tasks, in its order."""
    return [task.model_dump(mode="json") for task in _tasks(config, experiment)]


def score_columns(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """What an experiment's columns of scores are read from: without headings, which change no
    score."""
    columns = columns_of(_tasks(config, experiment), papers.find(experiment.paper).metrics)
    names = [field.name for field in fields(ScoreColumn)]
    return [{name: getattr(column, name) for name in names} for column in columns]


def _source(config: Config, experiment: Experiment) -> str:
    """Where an experiment's rows come from."""
    users = {*config.tasks, *config.directories}
    sources = ("files" if task in users else f"{config.source} data" for task in experiment.tasks)
    return " and ".join(dict.fromkeys(sources))


def _columns(config: Config, experiment: Experiment) -> dict[str, Any]:
    metrics = dict(papers.find(experiment.paper).metrics)
    return {"tasks": tasks_of(config, experiment), "metrics": metrics}


def _paper(config: Config, experiment: Experiment) -> dict[str, Any]:
    """A paper's name, and what tables take from it."""
    paper = papers.find(experiment.paper)
    return {
        "name": paper.name,
        "not_competing": list(paper.not_competing),
        "quoted": dict(paper.quoted),
        "printed": papers.version_of_printed(experiment.paper),
    }


def read_tasks(plain: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Tasks from what `tasks_of` returns."""
    return [Task.model_validate(task) for task in plain]


FACTS: dict[str, Fact] = {
    "paper": Fact(_paper, lambda plain: papers.find(plain["name"])),
    "source": Fact(_source),
    "tasks": Fact(tasks_of, read_tasks),
    "columns": Fact(
        _columns, lambda plain: columns_of(read_tasks(plain["tasks"]), plain["metrics"])
    ),
    "task_titles": Fact(
        lambda config, experiment: {task.name: task.title for task in _tasks(config, experiment)}
    ),
    "column_titles": Fact(
        lambda config, experiment: {
            column.key: column.title for column in columns_of(_tasks(config, experiment), {})
        }
    ),
    "models": Fact(lambda config, experiment: list(experiment.models)),
    "selections": Fact(
        lambda config, experiment: {
            method: config.selection(method).canonical() for method in experiment.all_methods()
        },
        lambda plain: {method: SELECTION.validate_json(text) for method, text in plain.items()},
    ),
}


def taken(names: Iterable[str], config: Config, experiment: Experiment) -> dict[str, Any]:
    """Some facts of an experiment, by name, as plain values."""
    return {name: FACTS[name].taken(config, experiment) for name in names}


def read(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Facts from what `taken` returns."""
    return {name: FACTS[name].read(value) for name, value in plain.items()}
