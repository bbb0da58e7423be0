"""The step `summary`: write the answers, and a table and a figure with all experiments."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield the job."""
    from subtune.methods import method_title
    from subtune.papers.paper import SUMMARIES

    config, layout = context.config, context.layout
    names, tasks = config.experiments, config.all_tasks()
    asked = (tasks[task] for experiment in names.values() for task in experiment.tasks)
    described = {t.name: {"title": t.title, "metrics": t.metric_titles()} for t in asked}
    titles = {method: method_title(method) for e in names.values() for method in e.all_methods}
    read = "chosen", "row_scores"
    inputs = {table: [layout.data(name, table) for name in names] for table in read}
    outputs = {
        exhibit.name: [layout.summary(exhibit.name, ending) for ending in exhibit.endings]
        for exhibit in SUMMARIES
    }
    places = {"store": layout.records()}
    spec = {"experiments": [*names], "tasks": described, "titles": titles}
    yield Job("summary", "summary", spec, inputs, outputs, places)


def run(job: Job, outputs: dict[str, list[str]], threads: int) -> None:
    """Check the scores, and write the answers and a table and a figure with all experiments.

    Only this job uses ``evaluate``, because importing it takes longer than the rest of a job.
    """
    from subtune.analysis.chosen_runs import are_external
    from subtune.analysis.run_scores import compute_with_evaluate, require_scores_of_predictions
    from subtune.analysis.tables import read_table

    store = Path(job.resources["store"])
    for runs in map(read_table, job.inputs["chosen"]):
        trained = runs.loc[~are_external(runs), "run"]
        require_scores_of_predictions(trained, store, compute_with_evaluate)
    write_summaries(job, outputs)


def write_summaries(job: Job, outputs: dict[str, list[str]]) -> None:
    """Write the answers, and a table and a figure with all experiments."""
    from subtune.analysis.chosen_runs import merge_experiments
    from subtune.analysis.run_scores import read_row_scores
    from subtune.analysis.tables import read_table
    from subtune.exhibits.output import ExperimentResults
    from subtune.papers import NO_PAPER
    from subtune.papers.paper import SUMMARIES
    from subtune.steps.exhibits import write_exhibit

    tables = {
        "chosen": merge_experiments([read_table(path) for path in job.inputs["chosen"]]),
        "row_scores": read_row_scores(job.inputs["row_scores"]),
    }
    results = ExperimentResults(tables, job.spec["tasks"], NO_PAPER.read_printed)
    for exhibit in SUMMARIES:
        write_exhibit(exhibit, results, outputs[exhibit.name])
