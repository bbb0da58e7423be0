"""The step `report_page`: write one HTML page with all tables, figures, costs and sources."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.steps.jobs import Job, Paths

if TYPE_CHECKING:
    from subtune.steps.context import Context


def jobs(context: "Context") -> Iterator[Job]:
    """Yield the job."""
    from subtune.exhibits.glue_server import list_submissions
    from subtune.papers import find_paper
    from subtune.papers.paper import SUMMARIES
    from subtune.steps.exhibits import describe_exhibit
    from subtune.tasks import TASKS

    config, layout = context.config, context.layout
    # The summary is only shown if there are several experiments.
    answer = [
        describe_exhibit(e, [layout.summary(e.name, ending) for ending in e.endings])
        for e in SUMMARIES
        if len(config.experiments) > 1
    ]
    submitted = [n for n, e in config.experiments.items() if list_submissions(config, e)]
    inputs: Paths = {
        "runs": layout.table_of_runs(),
        "summary": [path for entry in answer for path in entry["files"]],
        "exhibits": [*map(layout.exhibits, config.experiments)],
        "submissions": [*map(layout.submission, submitted)],
        "scores": [layout.data(name, "scores") for name in config.experiments],
        "learning_curves": [layout.data(name, "learning_curves") for name in config.experiments],
    }
    mini_tasks = {*TASKS} - {*config.tasks, *config.directories}
    spec = {
        "answer": answer,
        "has_mini_tasks": config.source == "builtin"
        and any(e.paper and mini_tasks & {*e.tasks} for e in config.experiments.values()),
        "papers": {name: find_paper(e.paper).citation for name, e in config.experiments.items()},
        "config": config.model_dump(mode="json", exclude_defaults=True),
    }
    yield Job("report_page", "report", spec, inputs, {"page": layout.report()}, {})


def run(job: Job, outputs: dict[str, str], threads: int) -> None:
    """Write the page. It can be opened without a network."""
    import yaml

    from subtune.analysis.tables import read_table
    from subtune.exhibits.page import render_page
    from subtune.steps.exhibits import read_index

    inputs = job.inputs
    shown = {Path(folder).name: read_index(Path(folder)) for folder in inputs["exhibits"]}
    for folder in inputs["submissions"]:
        shown[Path(folder).name] += read_index(Path(folder))
    tables = zip(inputs["scores"], inputs["learning_curves"], strict=True)
    sections = [
        {"name": name, "paper": paper, "exhibits": shown[name], "scores": scores, "curves": curves}
        for (name, paper), (scores, curves) in zip(job.spec["papers"].items(), tables, strict=True)
    ]
    answer = [entry | {"target": entry["files"][0]} for entry in job.spec["answer"]]
    config = yaml.safe_dump(job.spec["config"], sort_keys=False, allow_unicode=True)
    runs, has_mini_tasks = read_table(inputs["runs"], "runs"), job.spec["has_mini_tasks"]
    html = render_page(answer, sections, runs, config, has_mini_tasks)
    Path(outputs["page"]).write_text(html, encoding="utf-8")
