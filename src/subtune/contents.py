"""Which tables and figures an experiment has, and which numbers they are made of."""

from dataclasses import asdict
from typing import Any

from subtune import papers
from subtune.config import Config, Experiment
from subtune.papers.base import DATA, Needs, Paper, Table
from subtune.papers.common import exhibits_around
from subtune.plan import Plan
from subtune.submission.planned import submissions

# Numbers that are not made of every experiment's runs.
NEEDS_OF_DATA = {
    "changes": Needs(methods=("full",)),
    "test_scores": Needs(test_scores=True),
    "submission": Needs(submissions=True),
}


def paper_of(experiment: Experiment) -> Paper:
    """The paper that an experiment reproduces, or `subtune.papers.NO_PAPER`."""
    return papers.find(experiment.paper)


def exhibits(config: Config, experiment: Experiment) -> dict[str, Table]:
    """The tables and figures that an experiment has the runs for, by name, in order."""
    return {
        exhibit.name: exhibit
        for exhibit in exhibits_around(paper_of(experiment))
        if _meets(config, experiment, exhibit.needs)
        and all(has_data(config, experiment, data) for data in exhibit.reads.values())
    }


def has_data(config: Config, experiment: Experiment, data: str) -> bool:
    """Whether these numbers can be made of an experiment's runs."""
    return _meets(config, experiment, NEEDS_OF_DATA.get(data, Needs()))


def _meets(config: Config, experiment: Experiment, needs: Needs) -> bool:
    return (
        set(needs.methods) <= set(experiment.all_methods())
        and set(needs.tasks) <= set(experiment.tasks)
        and needs.seeds <= len(experiment.seeds)
        and (not needs.fractions or experiment.fractions is not None)
        and (not needs.test_scores or config.test_scores is not None)
        and (not needs.submissions or bool(submissions(config, experiment)))
    )


def data_read(config: Config, experiment: Experiment, exhibit: Table) -> dict[str, str]:
    """The arguments of an exhibit's function that are data, to the data's name."""
    optional = {
        argument: data
        for argument, data in exhibit.reads_if_there.items()
        if has_data(config, experiment, data)
    }
    return {**exhibit.reads, **optional}


def declared_claims(experiment: Experiment) -> list[dict[str, Any]]:
    """The claims of an experiment's paper as plain values."""
    return [asdict(claim) for claim in paper_of(experiment).claims]


def data_of_claims(config: Config, experiment: Experiment) -> list[str]:
    """The data that a paper's claims are asked of, as far as an experiment has it."""
    read = [name for claim in paper_of(experiment).claims for name in claim.reads]
    names = dict.fromkeys(["chosen", *(name for name in read if name in DATA)])
    return [name for name in names if has_data(config, experiment, name)]


def train_rows(plan: Plan, name: str) -> dict[str, int]:
    """How many rows each task of an experiment trains on, by the plan and the experiment's name."""
    return {
        planned.task: plan.sizes[planned.run.tokens.key].rows_within(planned.run.recipe.train_rows)
        for planned in plan.experiments[name]
    }


def parameters_drawn(config: Config, experiment: Experiment) -> list[dict[str, str]]:
    """Method and task of every heat map of single parameters that an experiment has."""
    return [
        dict(exhibit.options)
        for exhibit in exhibits(config, experiment).values()
        if "parameter_changes" in exhibit.reads.values()
    ]
