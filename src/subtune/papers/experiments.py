"""Papers of a configuration's experiments: each experiment's exhibits, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from subtune import papers
from subtune.analysis import parameters
from subtune.analysis.claims import claims_table
from subtune.analysis.scores import read_scores, train_and_dev
from subtune.config import Config, Experiment
from subtune.core.errors import SubtuneError, one_of
from subtune.exhibits.methods import reproduction
from subtune.exhibits.output import save_figure, write_table
from subtune.exhibits.results import Results
from subtune.papers.paper import DATA, INFORMATION, Figure, Needs, Paper, Table
from subtune.papers.shared import SUBMISSION, all_exhibits
from subtune.planning.jobs import submissions
from subtune.planning.plan import Plan
from subtune.tasks.task import columns_of


def with_papers(config: Config) -> Config:
    """Return the configuration, with experiments named like a paper set to reproduce that paper.

    Raises:
        SubtuneError: a paper or a figure is unknown, or an experiment has several models but its
            paper shows the Fisher information of one.
    """
    problems, named = [], {}
    for name, experiment in config.experiments.items():
        if "paper" not in experiment.model_fields_set and name in papers.names():
            experiment = experiment.model_copy(update={"paper": name})
        named[name] = experiment
        if experiment.paper and experiment.paper not in papers.names():
            known = one_of(experiment.paper, papers.names())
            problems.append(f"experiments.{name}.paper: {known}")
        elif len(experiment.models) > 1 and paper_of(experiment).shows_information():
            problems.append(
                f"experiments.{name}: found {len(experiment.models)} models, expected one: "
                f"{experiment.paper} shows the Fisher information of one model; write an "
                "experiment for each"
            )
    every = [papers.NO_PAPER, *map(papers.find, papers.names())]
    exhibits = [exhibit for paper in every for exhibit in all_exhibits(paper)]
    styles = list(dict.fromkeys(e.style_name for e in exhibits if isinstance(e, Figure)))
    problems += [f"figures: {one_of(n, styles)}" for n in config.figures if n not in styles]
    if problems:
        raise SubtuneError("\n".join(problems))
    return config.model_copy(update={"experiments": named})


def score_columns(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """Return the sources of an experiment's columns of scores, as plain values.

    Headings are left out because they change no score.
    """
    tasks = [config.all_tasks()[name] for name in experiment.tasks]
    columns = map(asdict, columns_of(tasks, paper_of(experiment).metrics))
    return [{name: c[name] for name in c if name != "title"} for c in columns]


def with_information(config: Config) -> set[str]:
    """Return the experiments whose paper shows their model's Fisher information."""
    return {n for n, e in config.experiments.items() if paper_of(e).shows_information()}


def paper_of(experiment: Experiment) -> Paper:
    """Return the paper that an experiment reproduces, or `subtune.papers.NO_PAPER`."""
    return papers.find(experiment.paper)


def exhibits_of(config: Config, experiment: Experiment) -> dict[str, Table]:
    """Return the tables and figures for which an experiment has the runs, by name, in order."""
    tables = {*tables_read(config, experiment), *tables_made(experiment)}
    tables |= {"submission"} if submissions(config, experiment) else set()
    return {
        exhibit.name: exhibit
        for exhibit in all_exhibits(paper_of(experiment))
        if _meets(experiment, exhibit.needs, tables)
        and set(left_out(experiment, exhibit)) < set(experiment.tasks)
    }


def left_out(experiment: Experiment, exhibit: Table) -> list[str]:
    """Return the experiment's tasks that a table or figure does not show."""
    paper = paper_of(experiment)
    if exhibit.tasks:
        return [task for task in experiment.tasks if task not in exhibit.tasks]
    apart = paper.tasks_apart if exhibit in paper.exhibits else ()
    return [task for task in experiment.tasks if task in apart]


def _meets(experiment: Experiment, needs: Needs, tables: set[str]) -> bool:
    """Return whether an experiment has the runs that an exhibit needs, and its ``tables``."""
    return (
        set(needs.methods) <= set(experiment.all_methods())
        and set(needs.tasks) <= set(experiment.tasks)
        and set(needs.tables) <= tables
        and needs.seeds <= len(experiment.seeds)
        and needs.questions <= len(experiment.models) * len(experiment.tasks)
        and (not needs.fractions or experiment.fractions is not None)
    )


def tables_read(config: Config, experiment: Experiment) -> list[str]:
    """Return the tables of an experiment's runs that its exhibits read."""
    always = ["scores", "chosen", "row_scores", "learning_curves", "changes", "parameter_changes"]
    if any(len(experiment.settings(task).train_rows) > 1 for task in experiment.tasks):
        always.append("sizes")
    return [*always, "test_scores"] if config.test_scores else always


def tables_made(experiment: Experiment) -> list[str]:
    """Return the other tables that are made and stored with an experiment's exhibits."""
    paper, tasks = paper_of(experiment), set(experiment.tasks)
    printed_tasks = set(paper.printed("scores")["task"])
    are_printed = printed_tasks & tasks if tasks <= set(paper.tasks_apart) else printed_tasks
    return [
        *(["claims"] if paper.claims_on(experiment.tasks) else []),
        *(["reproduction"] if are_printed else []),
        *(INFORMATION if paper.shows_information() else []),
        *(["train_scores"] if paper.scored_on_training_rows else []),
    ]


def about(config: Config, plan: Plan, name: str) -> dict[str, Any]:
    """Return all plain values, except results of runs, on which an experiment's exhibits depend.

    If a value changes, the exhibits are made again.
    """
    experiment, tasks = config.experiments[name], config.all_tasks()
    paper, users = paper_of(experiment), {*config.tasks, *config.directories}
    train_rows = {planned.task: planned.train_rows for planned in plan.on_most_rows(name)}
    return {
        "paper": paper.name,
        "printed": paper.version(),
        "tasks": {
            task: {
                "title": tasks[task].title,
                "columns": {column.key: column.title for column in columns_of([tasks[task]], {})},
                "metrics": tasks[task].metric_titles(),
                "evaluation": [*tasks[task].evaluation],
                "source": "files" if task in users else f"{config.source} data",
                "train_rows": train_rows[task],
            }
            for task in experiment.tasks
        },
        "models": list(experiment.models),
        "selections": {m: config.selection(m).canonical() for m in experiment.all_methods()},
        "tables": tables_made(experiment),
        "exhibits": {
            exhibit.name: {
                "title": exhibit.title,
                "caption": exhibit.caption,
                "left_out": left_out(experiment, exhibit),
                "style": (
                    config.style(exhibit.style_name).model_dump()
                    if isinstance(exhibit, Figure)
                    else None
                ),
            }
            for exhibit in exhibits_of(config, experiment).values()
            if exhibit is not SUBMISSION
        },
        # A comparison that is not finished names its methods here.
        "unfinished": {},
    }


def scored_on_training_rows(config: Config, plan: Plan, name: str) -> set[str]:
    """Return the keys of an experiment's runs that are also scored on their training rows.

    These are runs with the most training rows, of the methods that its paper names, on all tasks
    but the paper's ``tasks_apart``.
    """
    paper = paper_of(config.experiments[name])
    return {
        planned.key
        for planned in plan.on_most_rows(name)
        if planned.method in paper.scored_on_training_rows and planned.task not in paper.tasks_apart
    }


def parameters_drawn(config: Config, experiment: Experiment) -> list[dict[str, str]]:
    """Return the methods and tasks of an experiment's heat maps of single parameters."""
    return [
        {"method": exhibit.needs.methods[0], "task": exhibit.needs.tasks[0]}
        for exhibit in exhibits_of(config, experiment).values()
        if "parameter_changes" in exhibit.needs.tables
    ]


def read_results(about: Mapping[str, Any], files: Mapping[str, Any]) -> Results:
    """Return an experiment's results, with all tables that its exhibits and claims need.

    Args:
        about: from `about`.
        files: each table's file by name; also ``models`` (their directories), ``fisher_sums`` (a
            file per task) and ``scored`` (the sweeps' files of train scores).
    """
    paper, tasks, wanted = papers.find(about["paper"]), about["tasks"], about["tables"]
    tables = {name: read_scores(files[name]) for name in DATA if name in files}
    made: dict[str, pd.DataFrame] = {}
    if "component_shares" in wanted:
        paths = zip(tasks, files["fisher_sums"], strict=True)
        sums = pd.concat([pd.read_csv(path).assign(task=task) for task, path in paths])
        layers = parameters.layernorm_by_layer(sums)
        made["layernorm_information"] = layers
        made["global_layernorm_information"] = parameters.global_by_layer(layers)
        made["component_shares"] = parameters.component_shares(sums)
        made["parameter_information"] = parameters.parameter_information(sums)
    if "train_scores" in wanted:
        trained = [pd.DataFrame(columns=["run"])]
        trained += [pd.read_csv(path, dtype={"run": str}) for path in files["scored"]]
        made["train_scores"] = train_and_dev(tables["chosen"], pd.concat(trained))
    if "reproduction" in wanted:
        scores = paper.printed("scores")
        made["reproduction"] = reproduction(tables["chosen"], scores, tables.get("test_scores"))
    # Concatenating an empty table leaves columns without a type.
    tables |= {name: table.infer_objects() for name, table in made.items()}
    if "claims" in wanted:
        rows = {"task": [*tasks], "rows": [facts["train_rows"] for facts in tasks.values()]}
        tables["claims"] = claims_table(
            paper.claims_on(tasks),
            {**tables, "train_rows": pd.DataFrame(rows)},
            paper.tables_like_ours(averages=False),
            paper.tables_like_ours(averages=True),
            paper.tasks_apart,
        )
    models = dict(zip(about["models"], map(Path, files["models"]), strict=True))
    shown = about["selections"], about["unfinished"]
    return Results(tables, tasks, paper.printed, models, *shown)


def write_exhibit(
    name: str, about: Mapping[str, Any], results: Results, outputs: Sequence[str | Path]
) -> None:
    """Write a table or figure of an experiment's results, in the format of each output's suffix.

    Args:
        about: from `about`.
    """
    [exhibit] = [e for e in all_exhibits(papers.find(about["paper"])) if e.name == name]
    own = about["exhibits"][name]
    shown = results.without(own["left_out"]) if own["left_out"] else results
    if isinstance(exhibit, Figure):
        save_figure(exhibit.make(shown, own["style"]), outputs)
    else:
        write_table(exhibit.make(shown), outputs)
