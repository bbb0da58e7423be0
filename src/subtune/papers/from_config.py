"""Arguments of tables and figures that follow from the configuration."""

from collections.abc import Callable
from typing import Any

from subtune.config import Config, Experiment
from subtune.tasks import Task
from subtune.tasks.score_columns import columns_of


def _tasks(config: Config, experiment: Experiment) -> list[Task]:
    tasks = config.all_tasks()
    return [tasks[name] for name in experiment.tasks]


def task_titles(config: Config, experiment: Experiment) -> dict[str, str]:
    """Return an experiment's tasks to their titles, in its order."""
    return {task.name: task.title for task in _tasks(config, experiment)}


def _column_titles(config: Config, experiment: Experiment) -> dict[str, str]:
    return {column.key: column.title for column in columns_of(_tasks(config, experiment), {})}


def _task_metrics(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """Return the title, the metrics and the splits for evaluation of each task."""
    return [
        {"title": task.title, "metrics": [*task.metrics], "evaluation": [*task.evaluation]}
        for task in _tasks(config, experiment)
    ]


def _source(config: Config, experiment: Experiment) -> str:
    """Return in words where an experiment's rows come from."""
    users = {*config.tasks, *config.directories}
    sources = ("files" if task in users else f"{config.source} data" for task in experiment.tasks)
    return " and ".join(dict.fromkeys(sources))


def _selections(config: Config, experiment: Experiment) -> dict[str, str]:
    """Return each method's selection as canonical JSON."""
    return {method: config.selection(method).canonical() for method in experiment.all_methods()}


# Each returns lists, dictionaries, text and numbers alone, so that Snakemake sees what has changed.
FROM_CONFIG: dict[str, Callable[[Config, Experiment], Any]] = {
    "task_titles": task_titles,
    "column_titles": _column_titles,
    "tasks": _task_metrics,
    "source": _source,
    "model_names": lambda config, experiment: list(experiment.models),
    "selections": _selections,
}
