"""The zip files for the GLUE server, and the form for the scores that it returns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from subtune.config import Config, Experiment
from subtune.selections.embeddings import Embeddings
from subtune.tasks.task import columns_of

# Columns of the form.
NAMES = ["experiment", "model", "method", "task"]
FORM = [*NAMES, "metric", "score"]


class Submission(NamedTuple):
    """One method's predictions with one model."""

    model: str
    method: str


def submissions(config: Config, experiment: Experiment) -> dict[str, Submission]:
    """Return an experiment's zip files by name; none without runs on GLUE's own rows.

    There is one per method that trains. If there are several models, each has a directory.
    """
    if not submitted_tasks(config, experiment):
        return {}
    several = len(experiment.models) > 1
    return {
        f"{model}/{method}" if several else method: Submission(model, method)
        for model in experiment.models
        for method in experiment.methods_of(model)
        if not isinstance(config.selection(method, model), Embeddings)
    }


def form(config: Config, name: str, metrics: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of `FORM`, one per score that the server returns for an experiment.

    Args:
        config: the configuration.
        name: the experiment's name.
        metrics: tasks whose metric is not their first, to that metric.
    """
    experiment = config.experiments[name]
    tasks = [config.all_tasks()[task] for task in submitted_tasks(config, experiment)]
    columns = columns_of(tasks, metrics)
    return [
        dict(zip(FORM, (name, model, method, column.key, column.metric, None), strict=True))
        for model, method in submissions(config, experiment).values()
        for column in columns
    ]


def submitted_tasks(config: Config, experiment: Experiment) -> list[str]:
    """Return the tasks of an experiment that the GLUE server scores."""
    return [task for task in experiment.tasks if config.is_submitted(task)]
