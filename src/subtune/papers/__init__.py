"""The papers, one package each, and the settings that experiments take from their papers."""

import importlib
import pkgutil

from subtune.config.schema import Config
from subtune.core.errors import SubtuneError, format_allowed
from subtune.papers.paper import Paper
from subtune.plan.plan import Plan

# The placeholder for experiments that reproduce no paper.
NO_PAPER = Paper(name="", citation="")


def paper_names() -> list[str]:
    """Return the names of all papers, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def find_paper(name: str | None) -> Paper:
    """Return the paper with this name, or `NO_PAPER` if the name is empty or None."""
    if not name:
        return NO_PAPER
    # Papers are imported by name, so that a new paper only needs its own package.
    return importlib.import_module(f"{__name__}.{name}").PAPER


def assign_papers(config: Config) -> Config:
    """Set ``paper`` in experiments with the name of a paper, and check each experiment's paper.

    A `SubtuneError` is raised if a paper is unknown, or if it shows the Fisher information of one
    model but the experiment has several models.
    """
    problems, named = [], {}
    for name, experiment in config.experiments.items():
        if "paper" not in experiment.model_fields_set and name in paper_names():
            experiment = experiment.model_copy(update={"paper": name})
        named[name] = experiment
        if experiment.paper and experiment.paper not in paper_names():
            known = format_allowed(experiment.paper, paper_names())
            problems.append(f"experiments.{name}.paper: {known}")
        elif len(experiment.models) > 1 and find_paper(experiment.paper).shows_information():
            problems.append(
                f"experiments.{name}.models: found {len(experiment.models)} models, expected one, "
                f"because {experiment.paper} shows the Fisher information of one model; write one "
                "experiment for each model"
            )
    if problems:
        raise SubtuneError("\n".join(problems))
    return config.model_copy(update={"experiments": named})


def experiments_showing_fisher_information(config: Config) -> set[str]:
    """Return the names of the experiments whose tables or figures show Fisher information."""
    return {
        name
        for name, experiment in config.experiments.items()
        if find_paper(experiment.paper).shows_information()
    }


def runs_scored_on_training_set(config: Config, plan: Plan) -> set[str]:
    """Return the keys of runs on the largest training sets that are also scored on these sets."""
    return {
        run.key
        for name, experiment in config.experiments.items()
        for paper in [find_paper(experiment.paper)]
        for run in plan.runs_on_most_rows(name)
        if run.method in paper.scored_on_training_set and run.task_name not in paper.tasks_apart
    }
