"""The step `exhibits`: write the tables and figures of an experiment into one directory.

The directory contains all tables and figures for which there are data. An index file lists them for
the report, because they are unknown before the job has run. The id of a job is the name of the
experiment, so Snakemake runs the job again if the hash of its spec changes. Therefore, the spec
contains everything that tables and figures show, except the results of runs.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subtune.steps.jobs import Job, Paths
from subtune.steps.scores import SCORE_TABLES

if TYPE_CHECKING:
    import pandas as pd

    from subtune.exhibits.output import ExperimentResults, Table
    from subtune.papers.paper import Paper
    from subtune.steps.context import Context

EXHIBITS_INDEX = "exhibits.json"
LATEX_NUMBERS = "numbers.tex"
# Maps each ``source`` to a description of the data for readers.
SOURCES = {"hub": "hub data", "tsv": "GLUE's files", "builtin": "mini tasks, not the originals"}


def jobs(context: "Context") -> Iterator[Job]:
    """Yield a job for each experiment."""
    from subtune.papers import find_paper

    plan, layout = context.plan, context.layout
    for name, experiment in context.config.experiments.items():
        # These specs are in the order of the tasks.
        fishers = plan.experiment_fisher_specs[name].values()
        shown = find_paper(experiment.paper).shows_information()
        inputs: Paths = {table: layout.data(name, table) for table in SCORE_TABLES} | {
            "test_scores": context.config.test_scores or [],
            "fisher_sums": [layout.fisher_sums(fisher.key) for fisher in fishers if shown],
            "models": [layout.model(plan.model_ids[model]) for model in experiment.models],
            # Texts of examples are shown only in experiments without a paper.
            "datasets": [
                layout.dataset(f.tokens.data.key) for f in fishers if not experiment.paper
            ],
        }
        outputs: Paths = {"folder": layout.exhibits(name)}
        places = {"store": layout.records()}
        yield Job("exhibits", name, _describe_experiment(context, name), inputs, outputs, places)


def _describe_experiment(context: "Context", name: str) -> dict[str, Any]:
    from subtune.core.files import hash_files
    from subtune.methods import method_title
    from subtune.papers import find_paper
    from subtune.papers.choices import tabulate_choices
    from subtune.tasks.task import list_score_columns

    config = context.config
    experiment, tasks = config.experiments[name], config.all_tasks()
    paper, own_tasks = find_paper(experiment.paper), {*config.tasks, *config.directories}
    most_rows = {run.task_name: run.train_rows for run in context.plan.runs_on_most_rows(name)}
    return {
        "experiment": name,
        "paper": paper.name,
        "printed": paper.files_hash(),
        "left_open": tabulate_choices(paper.read_choices(), experiment),
        "test_scores": hash_files(*map(Path, filter(None, [config.test_scores]))),
        "tasks": {
            task: {
                "title": tasks[task].title,
                "columns": {c.key: c.title for c in list_score_columns([tasks[task]], {})},
                "metrics": tasks[task].metric_titles(),
                "evaluation": [*tasks[task].evaluation],
                "source": "files" if task in own_tasks else SOURCES[config.source],
                "train_rows": most_rows[task],
            }
            for task in experiment.tasks
        },
        "models": list(experiment.models),
        "selections": {
            method: config.selection(method, model).canonical()
            for model in experiment.models
            for method in experiment.methods_for(model)
        },
        "titles": {method: method_title(method) for method in experiment.all_methods},
        # If a title or caption changes, the job runs again.
        "exhibits": {
            exhibit.name: [exhibit.title, exhibit.caption] for exhibit in paper.all_exhibits()
        },
    }


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write all tables and figures for which there are data, and the data, in a single job."""
    from subtune import papers
    from subtune.exhibits.latex_numbers import format_latex_numbers

    paper, folder = papers.find_paper(job.spec["paper"]), Path(outputs["folder"])
    (folder / "data").mkdir(parents=True)
    results = read_results(paper, job)
    for name in results.tables.keys() - {*SCORE_TABLES}:
        results[name].to_csv(folder / _exhibit_data_path(name), index=False)
    tables = write_exhibits(paper.exhibits_with_data(results), folder)
    numbers = {f"{job.spec['experiment']}/{name}": table for name, table in tables.items()}
    (folder / LATEX_NUMBERS).write_text(format_latex_numbers(numbers), encoding="utf-8")


def _exhibit_data_path(name: str) -> str:
    """Return the path of a table's or figure's data, relative to the experiment's directory."""
    # Users open reproduction.csv, so it is in the same directory as its figure.
    return "reproduction.csv" if name == "reproduction" else f"data/{name}.csv"


def read_results(paper: "Paper", job: Job) -> "ExperimentResults":
    """Return the data of all tables, figures and claims of an experiment."""
    import pandas as pd

    from subtune.analysis.parameters import information_tables
    from subtune.analysis.run_scores import train_and_dev_scores
    from subtune.analysis.tables import read_table
    from subtune.exhibits.glue_server import read_test_scores, replace_dev_scores
    from subtune.exhibits.output import ExperimentResults
    from subtune.exhibits.score_tables import compare_with_printed

    spec, inputs, store = job.spec, job.inputs, Path(job.resources["store"])
    tasks = spec["tasks"]
    wanted = list_computed_tables(paper, tasks)
    tables = {name: read_table(inputs[name]) for name in SCORE_TABLES}
    if tables["sizes"].groupby("task")["train_rows"].nunique().max() < 2:
        del tables["sizes"]
    made: dict[str, pd.DataFrame] = {}
    if "component_shares" in wanted:
        files = zip(tasks, inputs["fisher_sums"], strict=True)
        sums = [pd.read_csv(path).assign(task=task) for task, path in files]
        made |= information_tables(pd.concat(sums))
    if "train_scores" in wanted:
        made["train_scores"] = train_and_dev_scores(
            tables["chosen"], store, paper.scored_on_training_set
        )
    if not paper.name:
        datasets = dict(zip(tasks, inputs["datasets"], strict=True))
        made |= make_error_tables(tables, store, datasets)
    if inputs["test_scores"]:
        returned = read_test_scores(Path(inputs["test_scores"]))
        returned = returned[returned["experiment"] == spec["experiment"]]
        made["test_scores"] = replace_dev_scores(tables["chosen"], returned)
    if "reproduction" in wanted:
        printed, tested = paper.read_printed("scores"), made.get("test_scores")
        made["reproduction"] = compare_with_printed(tables["chosen"], printed, tested)
    if "left_open" in wanted:
        made["left_open"] = pd.DataFrame(spec["left_open"])
    # Concatenation with an empty table changes the dtype of columns to object.
    tables |= {name: table.infer_objects() for name, table in made.items()}
    if "claims" in wanted:
        tables["claims"] = evaluate_paper(paper, tasks, tables)
    models = dict(zip(spec["models"], map(Path, inputs["models"]), strict=True))
    return ExperimentResults(tables, tasks, paper.read_printed, models, spec["selections"])


def evaluate_paper(
    paper: "Paper", tasks: Mapping[str, Mapping[str, Any]], tables: "Mapping[str, pd.DataFrame]"
) -> "pd.DataFrame":
    """Test a paper's claims on the results that it evaluates, and on its printed numbers."""
    import pandas as pd

    from subtune.analysis.claims import evaluate_claims

    rows = {"task": [*tasks], "rows": [facts["train_rows"] for facts in tasks.values()]}
    reproduced = {name: paper.select_evaluated(table) for name, table in tables.items()}
    return evaluate_claims(
        paper.claims_for_tasks(tasks),
        reproduced | {"train_rows": pd.DataFrame(rows)},
        paper.printed_tables(averages=False),
        paper.printed_tables(averages=True),
        paper.tasks_apart,
    )


def make_error_tables(
    tables: "Mapping[str, pd.DataFrame]", store: Path, datasets: Mapping[str, str]
) -> "dict[str, pd.DataFrame]":
    """Return tables about the errors of methods and about the gain from more labelled examples.

    ``tables`` are ``scores``, ``chosen`` and ``row_scores``, and ``datasets`` maps each task to the
    directory of its examples. Empty tables are left out.
    """
    import pandas as pd

    from subtune.analysis import failures
    from subtune.analysis.answer import NOTHING_LEARNED
    from subtune.analysis.chosen_runs import choose_rates
    from subtune.data.load import read_splits

    found: dict[str, list[pd.DataFrame]] = {}
    for each in failures.read_method_predictions(tables["chosen"], tables["row_scores"], store):
        if each.task.labels is None:
            found.setdefault("predicted", []).append(failures.list_regression_predictions(each))
        else:
            found.setdefault("classes", []).append(failures.score_by_class(each))
            if each.label.ndim == 1:
                found.setdefault("confusion", []).append(failures.count_confusions(each))
        # A constant prediction says nothing about single rows.
        if each.is_named and each.title != NOTHING_LEARNED:
            rows = read_splits(Path(datasets[each.task.name]))[each.split]
            suspects = failures.find_suspects(each, rows.to_dict())
            found.setdefault("suspects", []).append(suspects)
    made = {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}
    best = choose_rates(tables["scores"])
    made["more_labels"] = failures.estimate_gains(best, tables["row_scores"])
    return {name: table for name, table in made.items() if len(table)}


def list_computed_tables(paper: "Paper", tasks: Collection[str]) -> list[str]:
    """Return the names of the tables that have to be computed for a paper's tables and figures."""
    from subtune.papers.paper import INFORMATION

    made = {
        "claims": bool(paper.claims_for_tasks(tasks)),
        "left_open": bool(paper.read_choices()),
        "reproduction": bool(paper.scores["task"].isin(tasks).any()),
        "train_scores": bool(paper.scored_on_training_set),
    } | dict.fromkeys(INFORMATION, paper.shows_information())
    return [name for name, is_made in made.items() if is_made]


def write_exhibits(
    exhibits: "Iterable[tuple[Table, Any]]", folder: Path
) -> "dict[str, pd.DataFrame]":
    """Write tables and figures with their results, and the index file of the directory.

    The cells of the tables are returned as strings, by the name of the table.
    """
    from subtune.exhibits.figures import REPRODUCTION

    entries, tables = [], {}
    for exhibit, results in exhibits:
        names = [f"{exhibit.name}.{ending}" for ending in exhibit.endings]
        cells = write_exhibit(exhibit, results, [folder / name for name in names])
        if cells is not None:
            tables[exhibit.name] = cells
        if exhibit is REPRODUCTION:
            names.append(_exhibit_data_path(exhibit.name))
        entries.append(describe_exhibit(exhibit, names))
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    (folder / EXHIBITS_INDEX).write_text(f"{text}\n", encoding="utf-8")
    return tables


def write_exhibit(
    exhibit: "Table", results: Any, paths: Sequence[str | Path]
) -> "pd.DataFrame | None":
    """Write a table or figure in all its formats, and return a table's cells as strings."""
    from subtune.exhibits.output import Figure, save_figure, write_table

    if isinstance(exhibit, Figure):
        save_figure(exhibit.make(results), paths)
        return None
    return write_table(exhibit.make(results), paths)


def describe_exhibit(exhibit: "Table", names: Sequence[str]) -> dict[str, Any]:
    """Return the name, title, caption and file names of a table or figure, for the report."""
    about = {"name": exhibit.name, "title": exhibit.title, "caption": exhibit.caption}
    return about | {"files": [*names]}


def read_index(folder: Path) -> list[dict[str, Any]]:
    """Read the index of a directory: name, title, caption and file paths of each exhibit."""
    entries = json.loads((folder / EXHIBITS_INDEX).read_text(encoding="utf-8"))
    return [
        entry | {"files": [str(folder / name) for name in entry["files"]], "target": str(folder)}
        for entry in entries
    ]
