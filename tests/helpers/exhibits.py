"""Papers' tables and figures, made from a test's tables."""

from collections.abc import Mapping
from typing import Any

from subtune import papers
from subtune.analysis.run_scores import no_rows
from subtune.exhibits.output import ExperimentResults
from subtune.papers.shared import all_exhibits
from subtune.tasks.metrics import TITLES
from subtune.tasks.task import Task, list_score_columns


def titled(*tasks: Task) -> dict[str, Mapping[str, Any]]:
    """Return what an experiment's exhibits know of tasks, as far as tables need it."""
    return {
        task.name: {
            "title": task.title,
            "columns": {column.key: column.title for column in list_score_columns([task], {})},
            "metrics": task.metric_titles(),
            "evaluation": task.evaluation,
            "source": "builtin data",
        }
        for task in tasks
    }


def results(
    titles: Mapping[str, str], paper: str | None = None, **tables: Any
) -> ExperimentResults:
    """Return tables with the tasks' titles, which are also those of the columns."""
    tables = {"row_scores": no_rows(), **tables}
    tasks = {
        name: {"title": title, "columns": {name: title}, "metrics": TITLES}
        for name, title in titles.items()
    }
    return ExperimentResults(tables, tasks, papers.find_paper(paper).printed)


def made(paper: str, name: str, tables: Mapping[str, Any], tasks: Any = None, **others: Any) -> Any:
    """Return an exhibit of these tables and of other fields of `ExperimentResults`."""
    of_paper = ExperimentResults(tables, tasks or {}, papers.find_paper(paper).printed, **others)
    [exhibit] = [e for e in all_exhibits(papers.find_paper(paper)) if e.name == name]
    return exhibit.make(of_paper)
