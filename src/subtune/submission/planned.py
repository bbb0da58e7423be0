"""Which submissions a configuration asks for."""

from typing import NamedTuple

import pandas as pd

from subtune.analysis import server_scores
from subtune.analysis.scores import columns_of
from subtune.config import Config, Experiment


class Submission(NamedTuple):
    """Predictions for the GLUE server: of one method, with one model."""

    model: str
    method: str


def submissions(config: Config, experiment: Experiment) -> dict[str, Submission]:
    """The zip files for the GLUE server by name, where an experiment has runs on GLUE's own rows.

    One per method; where there are several models, in a directory of each.
    """
    if config.source == "builtin" or not submitted_tasks(config, experiment):
        return {}
    several = len(experiment.models) > 1
    return {
        f"{model}/{method}" if several else method: Submission(model, method)
        for model in experiment.models
        for method in experiment.methods_of(model)
    }


def form(config: Config, name: str) -> pd.DataFrame:
    """The form for an experiment's test scores."""
    experiment = config.experiments[name]
    tasks = [config.all_tasks()[task] for task in submitted_tasks(config, experiment)]
    submitted = submissions(config, experiment).values()
    return server_scores.form(name, submitted, columns_of(tasks, experiment.paper))


def submitted_tasks(config: Config, experiment: Experiment) -> list[str]:
    """Those of an experiment's tasks that are the GLUE server's."""
    return [task for task in experiment.tasks if config.all_tasks()[task].submission]
