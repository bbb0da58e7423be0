"""Which tables and figures an experiment has, and which numbers they are made of."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from subtune import papers
from subtune.config import Config, Experiment
from subtune.papers import printed
from subtune.papers.base import DATA, Claim, Needs, Paper, Table
from subtune.papers.common import exhibits_around
from subtune.planning.plan import Plan
from subtune.planning.submissions import submissions

# Numbers that are not made of every experiment's runs.
NEEDS_OF_DATA = {
    "changes": Needs(methods=("full",)),
    "test_scores": Needs(test_scores=True),
    "submission": Needs(submissions=True),
    "sizes": Needs(sizes=2),
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
        and set(left_out(experiment, exhibit)) < set(experiment.tasks)
        and all(has_data(config, experiment, data) for data in exhibit.reads.values())
    }


def left_out(experiment: Experiment, exhibit: Table) -> list[str]:
    """Those of an experiment's tasks that one of its tables or figures does not show."""
    paper = paper_of(experiment)
    if exhibit.tasks or exhibit in paper.exhibits:
        return paper.left_out(exhibit, experiment.tasks)
    return []


def as_shown(experiment: Experiment, exhibit: Table) -> Experiment:
    """An experiment without the tasks that one of its tables or figures leaves out."""
    without = left_out(experiment, exhibit)
    tasks = tuple(task for task in experiment.tasks if task not in without)
    return experiment.model_copy(update={"tasks": tasks})


def has_data(config: Config, experiment: Experiment, data: str) -> bool:
    """Whether these numbers can be made of an experiment's runs."""
    if data == "reproduction" and not _may_be_printed(experiment):
        return False
    return _meets(config, experiment, NEEDS_OF_DATA.get(data, Needs()))


def _may_be_printed(experiment: Experiment) -> bool:
    """Whether a paper prints scores of an experiment's tasks, where it has them all apart."""
    paper = paper_of(experiment)
    tasks = set(experiment.tasks)
    return not tasks <= set(paper.tasks_apart) or bool(
        tasks & set(printed.scores(paper.name)["task"])
    )


def _meets(config: Config, experiment: Experiment, needs: Needs) -> bool:
    return (
        set(needs.methods) <= set(experiment.all_methods())
        and set(needs.tasks) <= set(experiment.tasks)
        and needs.seeds <= len(experiment.seeds)
        and needs.sizes <= len(experiment.train_rows)
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
    """The claims that an experiment is asked, as plain values."""
    return [asdict(claim) for claim in _claims(experiment)]


def _claims(experiment: Experiment) -> Sequence[Claim]:
    return paper_of(experiment).asked_on(experiment.tasks).claims


def data_of_claims(config: Config, experiment: Experiment) -> list[str]:
    """The data that a paper's claims are asked of, as far as an experiment has it."""
    read = [name for claim in _claims(experiment) for name in claim.reads]
    names = dict.fromkeys(["chosen", *(name for name in read if name in DATA)])
    return [name for name in names if has_data(config, experiment, name)]


def train_rows(plan: Plan, name: str) -> dict[str, int]:
    """How many rows each task of an experiment trains on at most, by the experiment's name."""
    return {planned.task: planned.train_rows for planned in plan.on_most_rows(name)}


def scored_on_training_rows(config: Config, plan: Plan, name: str) -> set[str]:
    """Ids of an experiment's runs that are scored on their training rows too.

    They are of the methods that its paper names, on the tasks that it does not have apart, and of
    the most training rows.
    """
    paper = paper_of(config.experiments[name])
    return {
        planned.run.id
        for planned in plan.on_most_rows(name)
        if planned.method in paper.scored_on_training_rows and planned.task not in paper.tasks_apart
    }


def parameters_drawn(config: Config, experiment: Experiment) -> list[dict[str, str]]:
    """Method and task of every heat map of single parameters that an experiment has."""
    return [
        dict(exhibit.options)
        for exhibit in exhibits(config, experiment).values()
        if "parameter_changes" in exhibit.reads.values()
    ]
