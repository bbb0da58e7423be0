"""Papers of a configuration's experiments: the exhibits and claims of each, and their arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from subtune import papers
from subtune.analysis.claims import Claim
from subtune.analysis.scores import read_scores
from subtune.config import Config, Experiment
from subtune.core.errors import SubtuneError, one_of
from subtune.papers import printed
from subtune.papers.paper import DATA, FROM_CONFIG, Figure, Needs, Paper, Table
from subtune.papers.shared import all_exhibits
from subtune.planning.plan import Plan
from subtune.planning.submissions import submissions
from subtune.tasks.task import columns_of

# Data that not every experiment has.
NEEDS_OF_DATA = {
    "changes": Needs(methods=("full",)),
    "test_scores": Needs(test_scores=True),
    "submission": Needs(submissions=True),
    "sizes": Needs(sizes=2),
}


def with_papers(config: Config) -> Config:
    """Return a configuration in which an experiment with a paper's name reproduces that paper.

    Raises:
        SubtuneError: a paper is not there, or its experiment has several models where it shows the
            information of one; or a figure is not there.
    """
    problems, named = [], {}
    for name, experiment in config.experiments.items():
        if name in papers.names() and "paper" not in experiment.model_fields_set:
            experiment = experiment.model_copy(update={"paper": name})
        named[name] = experiment
        if experiment.paper and experiment.paper not in papers.names():
            known = one_of(experiment.paper, papers.names())
            problems.append(f"experiments.{name}.paper: {known}")
        elif len(experiment.models) > 1 and paper_of(experiment).shows_information():
            problems.append(
                f"experiments.{name}: found {len(experiment.models)} models, expected one: the "
                f"Fisher information that {experiment.paper} shows is of one model; write an "
                "experiment for each"
            )
    every = [papers.NO_PAPER, *map(papers.find, papers.names())]
    exhibits = [exhibit for paper in every for exhibit in all_exhibits(paper)]
    styles = list(dict.fromkeys(e.style_name for e in exhibits if isinstance(e, Figure)))
    problems += [f"figures: {one_of(n, styles)}" for n in config.figures if n not in styles]
    if problems:
        raise SubtuneError("\n".join(problems))
    return config.model_copy(update={"experiments": named})


def metrics_of(config: Config) -> dict[str, dict[str, str]]:
    """Return each experiment's tasks to the metric that its paper shows instead of their first."""
    return {name: dict(paper_of(e).metrics) for name, e in config.experiments.items()}


def score_columns(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """Return where an experiment's columns of scores are read from, as plain values.

    Headings are left out, as they change no score.
    """
    tasks = [config.all_tasks()[name] for name in experiment.tasks]
    columns = map(asdict, columns_of(tasks, paper_of(experiment).metrics))
    return [{name: c[name] for name in c if name != "title"} for c in columns]


def with_information(config: Config) -> set[str]:
    """Return the experiments whose paper shows the Fisher information of their model."""
    return {n for n, e in config.experiments.items() if paper_of(e).shows_information()}


def paper_of(experiment: Experiment) -> Paper:
    """Return the paper that an experiment reproduces, or `subtune.papers.NO_PAPER`."""
    return papers.find(experiment.paper)


def exhibits_of(config: Config, experiment: Experiment) -> dict[str, Table]:
    """Return the tables and figures that an experiment has the runs for, by name, in order."""
    return {
        exhibit.name: exhibit
        for exhibit in all_exhibits(paper_of(experiment))
        if _meets(config, experiment, exhibit.needs)
        and set(left_out(experiment, exhibit)) < set(experiment.tasks)
        and all(has_data(config, experiment, data) for data in exhibit.data(needed=True).values())
    }


def left_out(experiment: Experiment, exhibit: Table) -> list[str]:
    """Return those of an experiment's tasks that one of its tables or figures does not show."""
    paper = paper_of(experiment)
    if exhibit.tasks:
        return [task for task in experiment.tasks if task not in exhibit.tasks]
    apart = paper.tasks_apart if exhibit in paper.exhibits else ()
    return [task for task in experiment.tasks if task in apart]


def has_data(config: Config, experiment: Experiment, data: str) -> bool:
    """Return whether these numbers can be made of an experiment's runs."""
    paper, tasks = paper_of(experiment), set(experiment.tasks)
    if data == "reproduction":
        tasks_printed = set(printed.scores(paper.name)["task"])
        return bool(tasks_printed & tasks if tasks <= set(paper.tasks_apart) else tasks_printed)
    return _meets(config, experiment, NEEDS_OF_DATA.get(data, Needs()))


def _meets(config: Config, experiment: Experiment, needs: Needs) -> bool:
    return (
        set(needs.methods) <= set(experiment.all_methods())
        and set(needs.tasks) <= set(experiment.tasks)
        and needs.seeds <= len(experiment.seeds)
        and needs.sizes <= max(len(experiment.settings(t).train_rows) for t in experiment.tasks)
        and (not needs.fractions or experiment.fractions is not None)
        and (not needs.test_scores or config.test_scores is not None)
        and (not needs.submissions or bool(submissions(config, experiment)))
    )


def data_read(config: Config, experiment: Experiment, exhibit: Table) -> dict[str, str]:
    """Return the arguments of an exhibit's function that are data, to the data's names."""
    names = exhibit.data()
    return {n: names[n] for n in names if has_data(config, experiment, names[n])}


def declaration(config: Config, experiment: Experiment, exhibit: Table) -> dict[str, Any]:
    """Return what decides how an exhibit looks, beside its data, as plain values.

    It is remade when one of them changes. ``arguments`` are those from the configuration.
    """
    without = left_out(experiment, exhibit)
    tasks = tuple(task for task in experiment.tasks if task not in without)
    shown = experiment.model_copy(update={"tasks": tasks})
    paper = experiment.paper or ""
    style = {}
    if isinstance(exhibit, Figure):
        style = {"style": config.style(exhibit.style_name).model_dump()}
    return {
        "make": f"{exhibit.make.__module__}.{exhibit.make.__qualname__}",
        "printed": dict(exhibit.printed),
        "options": dict(exhibit.options),
        "paper": paper,
        "version_of_printed": printed.version(paper) if exhibit.printed else None,
        "caption": exhibit.caption,
        "left_out": without,
        "data": data_read(config, experiment, exhibit),
        "arguments": {n: FROM_CONFIG[n](config, shown) for n in exhibit.from_config()} | style,
    }


def claims_on(paper: Paper, tasks: Sequence[str]) -> list[Claim]:
    """Return the claims of a paper that are about some of these tasks."""
    together, apart = set(tasks) - set(paper.tasks_apart), set(tasks) & set(paper.tasks_apart)
    return [
        claim
        for claim in paper.claims
        if (apart & {*claim.tasks} if {*claim.tasks} & {*paper.tasks_apart} else together)
    ]


def data_of_claims(config: Config, experiment: Experiment) -> list[str]:
    """Return the data that an experiment's claims read, as far as it has them."""
    claims = claims_on(paper_of(experiment), experiment.tasks)
    read = [name for claim in claims for name in claim.reads if name in DATA]
    return [n for n in dict.fromkeys(["chosen", *read]) if has_data(config, experiment, n)]


def scored_on_training_rows(config: Config, plan: Plan, name: str) -> set[str]:
    """Return the ids of an experiment's runs that are also scored on their training rows.

    They are runs of the methods that its paper names, on the tasks that it does not treat apart,
    with the most training rows.
    """
    paper = paper_of(config.experiments[name])
    return {
        planned.run.id
        for planned in plan.on_most_rows(name)
        if planned.method in paper.scored_on_training_rows and planned.task not in paper.tasks_apart
    }


def parameters_drawn(config: Config, experiment: Experiment) -> list[dict[str, str]]:
    """Return method and task of every heat map of single parameters that an experiment has."""
    return [
        dict(exhibit.options)
        for exhibit in exhibits_of(config, experiment).values()
        if "parameter_changes" in exhibit.data().values()
    ]


def make(name: str, declaration: Mapping[str, Any], files: Mapping[str, Any]) -> Any:
    """Return the table or figure that a job makes.

    Args:
        declaration: from `subtune.papers.experiments.declaration`.
        files: arguments that are data, to their file, or their files.
    """
    paper = papers.find(declaration["paper"])
    [exhibit] = [exhibit for exhibit in all_exhibits(paper) if exhibit.name == name]
    numbers = {
        argument: read(data, files[argument]) for argument, data in declaration["data"].items()
    }
    for argument, table in numbers.items():
        if "task" in table:
            numbers[argument] = table[~table["task"].isin(declaration["left_out"])]
    return call(paper, exhibit, **numbers, **declaration["arguments"])


def call(paper: Paper, exhibit: Table, **arguments: Any) -> Any:
    """Return a table or figure of these arguments, its options and its printed numbers."""
    tables = {
        argument: printed.table(paper.name, name) for argument, name in exhibit.printed.items()
    }
    return exhibit.make(**tables, **exhibit.options, **arguments)


def read(name: str, place: str | Sequence[str]) -> Any:
    """Read a table of numbers; for ``models`` return their directories."""
    return [*map(Path, place)] if name == "models" else read_scores(str(place))
