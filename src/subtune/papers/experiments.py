"""The exhibits of each experiment in a configuration, and their results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from subtune import papers
from subtune.analysis import parameters
from subtune.analysis.claims import judge_claims
from subtune.analysis.scores import read_scores, train_and_dev
from subtune.config import Config, Experiment
from subtune.core.errors import SubtuneError, one_of
from subtune.exhibits.glue_server import list_submissions, read_test_scores, with_test_scores
from subtune.exhibits.output import ExperimentResults, save_figure, write_table
from subtune.exhibits.score_tables import compare_with_printed
from subtune.papers.paper import DATA, INFORMATION, Figure, Needs, Paper, Table
from subtune.papers.shared import SUBMISSION, all_exhibits
from subtune.plan.plan import Plan
from subtune.tasks.task import list_score_columns


def with_papers(config: Config) -> Config:
    """Return the configuration; an experiment with the name of a paper reproduces this paper.

    Raises:
        SubtuneError: a paper is unknown, or an experiment has several models but its
            paper shows the Fisher information of one.
    """
    problems, named = [], {}
    for name, experiment in config.experiments.items():
        if "paper" not in experiment.model_fields_set and name in papers.paper_names():
            experiment = experiment.model_copy(update={"paper": name})
        named[name] = experiment
        if experiment.paper and experiment.paper not in papers.paper_names():
            known = one_of(experiment.paper, papers.paper_names())
            problems.append(f"experiments.{name}.paper: {known}")
        elif len(experiment.models) > 1 and paper_of(experiment).shows_information():
            problems.append(
                f"experiments.{name}: found {len(experiment.models)} models, expected one: "
                f"{experiment.paper} shows the Fisher information of one model; write an "
                "experiment for each"
            )
    if problems:
        raise SubtuneError("\n".join(problems))
    return config.model_copy(update={"experiments": named})


def score_columns(config: Config, experiment: Experiment) -> list[dict[str, Any]]:
    """Return the score columns (`ScoreColumn`) of an experiment as plain values, without titles.

    Titles are left out because they change no score.
    """
    tasks = [config.all_tasks()[name] for name in experiment.tasks]
    columns = [asdict(column) for column in list_score_columns(tasks, paper_of(experiment).metrics)]
    for column in columns:
        del column["title"]
    return columns


def with_information(config: Config) -> set[str]:
    """Return the names of experiments whose paper shows their model's Fisher information."""
    return {n for n, e in config.experiments.items() if paper_of(e).shows_information()}


def paper_of(experiment: Experiment) -> Paper:
    """Return the paper that an experiment reproduces, or `subtune.papers.NO_PAPER`."""
    return papers.find_paper(experiment.paper)


def exhibits_of(config: Config, experiment: Experiment) -> dict[str, Table]:
    """Return the tables and figures for which an experiment has the runs, by name and in order."""
    tables = {*tables_read(experiment), *tables_made(config, experiment)}
    tables |= {"submission"} if list_submissions(config, experiment) else set()
    return {
        exhibit.name: exhibit
        for exhibit in all_exhibits(paper_of(experiment))
        if _meets(experiment, exhibit.needs, tables)
        and paper_of(experiment).tasks_of(exhibit, experiment.tasks)
    }


def _meets(experiment: Experiment, needs: Needs, tables: set[str]) -> bool:
    """Return whether an experiment has the runs and the tables that an exhibit needs."""
    return (
        set(needs.methods) <= set(experiment.all_methods())
        and set(needs.tables) <= tables
        and needs.seeds <= len(experiment.seeds)
        and needs.questions <= len(experiment.models) * len(experiment.tasks)
        and (not needs.fractions or experiment.fractions is not None)
    )


def tables_read(experiment: Experiment) -> list[str]:
    """Return the tables of an experiment's runs that its exhibits read."""
    tables = ["scores", "chosen", "row_scores", "learning_curves", "changes", "parameter_changes"]
    if any(len(experiment.settings(task).train_rows) > 1 for task in experiment.tasks):
        tables.append("sizes")
    return tables


def tables_made(config: Config, experiment: Experiment) -> list[str]:
    """Return the other tables that are made and stored with an experiment's exhibits."""
    paper, tasks = paper_of(experiment), set(experiment.tasks)
    printed_tasks = set(paper.printed("scores")["task"])
    if tasks <= set(paper.tasks_apart):
        printed_tasks &= tasks
    tables: list[str] = []
    if paper.claims_on(experiment.tasks):
        tables.append("claims")
    if printed_tasks:
        tables.append("reproduction")
    if paper.shows_information():
        tables.extend(INFORMATION)
    if paper.scored_on_training_rows:
        tables.append("train_scores")
    if config.test_scores:
        tables.append("test_scores")
    return tables


def about(config: Config, plan: Plan, name: str) -> dict[str, Any]:
    """Return the values on which an experiment's exhibits depend, except results of runs.

    The values are plain JSON. If one changes, the exhibits are made again.
    """
    experiment, tasks = config.experiments[name], config.all_tasks()
    paper, users = paper_of(experiment), {*config.tasks, *config.directories}
    train_rows = {run.task_name: run.train_rows for run in plan.runs_on_most_rows(name)}
    return {
        "experiment": name,
        "paper": paper.name,
        "printed": paper.version(),
        "tasks": {
            task: {
                "title": tasks[task].title,
                "columns": {
                    column.key: column.title for column in list_score_columns([tasks[task]], {})
                },
                "metrics": tasks[task].metric_titles(),
                "evaluation": [*tasks[task].evaluation],
                "source": "files" if task in users else f"{config.source} data",
                "train_rows": train_rows[task],
            }
            for task in experiment.tasks
        },
        "models": list(experiment.models),
        "selections": {m: config.selection(m).canonical() for m in experiment.all_methods()},
        "tables": tables_made(config, experiment),
        "exhibits": {
            exhibit.name: {
                "title": exhibit.title,
                "caption": exhibit.caption,
            }
            for exhibit in exhibits_of(config, experiment).values()
            if exhibit is not SUBMISSION
        },
        # A comparison that is not finished names its methods here.
        "unfinished": {},
    }


def scored_on_training_rows(config: Config, plan: Plan, name: str) -> set[str]:
    """Return the keys of an experiment's runs that are also scored on their training rows.

    These are the runs of `Paper.scored_on_training_rows` with the most training rows, on all tasks
    except `Paper.tasks_apart`.
    """
    paper = paper_of(config.experiments[name])
    return {
        run.key
        for run in plan.runs_on_most_rows(name)
        if run.method in paper.scored_on_training_rows and run.task_name not in paper.tasks_apart
    }


def parameters_drawn(config: Config, experiment: Experiment) -> list[dict[str, str]]:
    """Return the methods and tasks of an experiment's heat maps of single parameters."""
    return [
        {"method": exhibit.needs.methods[0], "task": exhibit.tasks[0]}
        for exhibit in exhibits_of(config, experiment).values()
        if "parameter_changes" in exhibit.needs.tables
    ]


def read_results(
    about: Mapping[str, Any], files: Mapping[str, Any], store: Path
) -> ExperimentResults:
    """Return an experiment's results, with all tables that its exhibits and claims need.

    Args:
        about: from `about`.
        files: each table's file by name. Also ``models`` (their directories) and ``fisher_sums`` (a
            file per task).
        store: the directory of the run records.
    """
    paper, tasks, wanted = papers.find_paper(about["paper"]), about["tasks"], about["tables"]
    tables = {name: read_scores(files[name]) for name in DATA if name in files}
    made: dict[str, pd.DataFrame] = {}
    if "component_shares" in wanted:
        made |= _information(tasks, files["fisher_sums"])
    if "train_scores" in wanted:
        made["train_scores"] = train_and_dev(tables["chosen"], store)
    if "test_scores" in wanted:
        returned = read_test_scores(Path(files["returned"]))
        returned = returned[returned["experiment"] == about["experiment"]]
        made["test_scores"] = with_test_scores(tables["chosen"], returned)
    if "reproduction" in wanted:
        scores = paper.printed("scores")
        made["reproduction"] = compare_with_printed(
            tables["chosen"], scores, made.get("test_scores")
        )
    # Concatenating an empty table leaves columns without a type.
    tables |= {name: table.infer_objects() for name, table in made.items()}
    if "claims" in wanted:
        rows = {"task": [*tasks], "rows": [facts["train_rows"] for facts in tasks.values()]}
        tables["claims"] = judge_claims(
            paper.claims_on(tasks),
            {**tables, "train_rows": pd.DataFrame(rows)},
            paper.tables_like_ours(averages=False),
            paper.tables_like_ours(averages=True),
            paper.tasks_apart,
        )
    models = dict(zip(about["models"], map(Path, files["models"]), strict=True))
    return ExperimentResults(
        tables, tasks, paper.printed, models, about["selections"], about["unfinished"]
    )


def _information(tasks: Iterable[str], paths: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the tables `INFORMATION`, made from a file of Fisher information per task."""
    sums = pd.concat(
        [pd.read_csv(path).assign(task=task) for task, path in zip(tasks, paths, strict=True)]
    )
    layers = parameters.layernorm_information(sums)
    return {
        "component_shares": parameters.component_shares(sums),
        "parameter_information": parameters.parameter_information(sums),
        "layernorm_information": layers,
        "global_layernorm_information": parameters.global_layernorm_information(layers),
    }


def write_exhibit(
    name: str, about: Mapping[str, Any], results: ExperimentResults, outputs: Sequence[str | Path]
) -> None:
    """Write a table or figure of an experiment's results, in the format of each output's suffix.

    Args:
        name: the name of the table or figure.
        about: from `about`.
    """
    paper = papers.find_paper(about["paper"])
    [exhibit] = [exhibit for exhibit in all_exhibits(paper) if exhibit.name == name]
    results = results.on_tasks(paper.tasks_of(exhibit, results.tasks))
    if isinstance(exhibit, Figure):
        save_figure(exhibit.make(results), outputs)
    else:
        write_table(exhibit.make(results), outputs)
