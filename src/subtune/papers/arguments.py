"""Arguments of the functions that make tables and figures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from subtune import papers
from subtune.analysis.scores import read_scores
from subtune.config import Config, Experiment
from subtune.papers import printed
from subtune.papers.paper import Paper, Table
from subtune.papers.shared import all_exhibits
from subtune.tasks import Task
from subtune.tasks.score_columns import columns_of

SCORES = ("chosen", "scores", "sizes", "test_scores")


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


def make(name: str, declaration: Mapping[str, Any], files: Mapping[str, Any]) -> Any:
    """Return the table or figure that a job makes.

    Args:
        name: the exhibit's name.
        declaration: from `subtune.papers.experiments.declaration`.
        files: arguments that are data, to their file, or their files.
    """
    paper = papers.find(declaration["paper"])
    [exhibit] = [exhibit for exhibit in all_exhibits(paper) if exhibit.name == name]
    numbers = {
        argument: _without(read(data, files[argument]), declaration["left_out"])
        for argument, data in declaration["data"].items()
    }
    return call(paper, exhibit, **numbers, **declaration["arguments"])


def call(paper: Paper, exhibit: Table, **arguments: Any) -> Any:
    """Return a table or figure of these arguments, its options and its printed numbers."""
    tables = {
        argument: printed.table(paper.name, name) for argument, name in exhibit.printed.items()
    }
    return exhibit.make(**tables, **exhibit.options, **arguments)


def read(name: str, place: str | Sequence[str]) -> pd.DataFrame | list[Path]:
    """Read a table of numbers; for ``models`` return their directories."""
    if not isinstance(place, str):
        return [Path(path) for path in place]
    if name in SCORES:
        return read_scores(place)
    # A task or method may be called ``NA``.
    return pd.read_csv(place, dtype={"run": str}, keep_default_na=False, na_values=[""])


def _without(numbers: pd.DataFrame | list[Path], tasks: Sequence[str]) -> pd.DataFrame | list[Path]:
    """Return numbers without the rows of some tasks, if they tell tasks apart."""
    if isinstance(numbers, pd.DataFrame) and "task" in numbers:
        return numbers[~numbers["task"].isin(tasks)]
    return numbers
