"""Which submissions a configuration asks for."""

from typing import Any, NamedTuple

from subtune import papers
from subtune.config import Config, Experiment
from subtune.tasks.score_columns import columns_of

# Columns of the form that takes the scores which the server returns.
NAMES = ["experiment", "model", "method", "task"]
FORM = [*NAMES, "metric", "score"]


class Submission(NamedTuple):
    """Predictions for the GLUE server: of one method, with one model."""

    model: str
    method: str


def submissions(config: Config, experiment: Experiment) -> dict[str, Submission]:
    """The zip files for the GLUE server by name, where an experiment has runs on GLUE's own rows.

    One per method; where there are several models, in a directory of each.
    """
    if not submitted_tasks(config, experiment):
        return {}
    several = len(experiment.models) > 1
    return {
        f"{model}/{method}" if several else method: Submission(model, method)
        for model in experiment.models
        for method in experiment.methods_of(model)
    }


def form(config: Config, name: str) -> list[dict[str, Any]]:
    """The rows of `FORM`, one per score that the server returns for an experiment: all empty."""
    experiment = config.experiments[name]
    tasks = [config.all_tasks()[task] for task in submitted_tasks(config, experiment)]
    columns = columns_of(tasks, papers.find(experiment.paper).metrics)
    return [
        dict(zip(FORM, (name, model, method, column.key, column.metric, None), strict=True))
        for model, method in submissions(config, experiment).values()
        for column in columns
    ]


def submitted_tasks(config: Config, experiment: Experiment) -> list[str]:
    """Those of an experiment's tasks that are the GLUE server's."""
    return [task for task in experiment.tasks if config.is_submitted(task)]
