"""Make the tables and figures of papers from the tables of a test."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from subtune import papers
from subtune.analysis.run_scores import ROW_COLUMNS
from subtune.exhibits.output import ExperimentResults
from subtune.tasks import TASKS
from subtune.tasks.metrics import TITLES
from subtune.tasks.task import Task, list_score_columns
from tests.helpers.examples import scored

# A table of pseudo-values without rows.
NO_ROW_SCORES = pd.DataFrame(columns=[*ROW_COLUMNS])


def titled(*tasks: Task) -> dict[str, Mapping[str, Any]]:
    """Return the properties of tasks that tables need, by task name."""
    return {
        task.name: {
            "title": task.title,
            "columns": {column.key: column.title for column in list_score_columns([task], {})},
            "metrics": task.metric_titles(),
            "evaluation": task.evaluation,
            "source": "mini tasks, not the originals",
            "train_rows": 2500,
        }
        for task in tasks
    }


def dev_scores(**tasks: Mapping[str, Sequence[float]]) -> pd.DataFrame:
    """Build a table of run scores: for each task, the scores of each method's seeds."""
    rows = [
        (task, method, 1.0, None, 1e-3, seed, value)
        for task, methods in tasks.items()
        for method, values in methods.items()
        for seed, value in enumerate(values)
    ]
    return scored(*rows)


def results(
    titles: Mapping[str, str], paper: str | None = None, **tables: Any
) -> ExperimentResults:
    """Build results from tables.

    Args:
        titles: the titles of tasks by name, which are also the titles of their columns.
    """
    tables = {"row_scores": NO_ROW_SCORES, **tables}
    tasks = {
        name: {"title": title, "columns": {name: title}, "metrics": TITLES}
        for name, title in titles.items()
    }
    return ExperimentResults(tables, tasks, papers.find_paper(paper).read_printed)


def made(
    paper: str,
    name: str,
    tables: Mapping[str, Any],
    tasks: Sequence[str | Task] = (),
    **others: Any,
) -> Any:
    """Make the exhibit ``name`` of a paper from tables and other fields of `ExperimentResults`."""
    about = titled(*(TASKS[task] if isinstance(task, str) else task for task in tasks))
    of_paper = ExperimentResults(tables, about, papers.find_paper(paper).read_printed, **others)
    [exhibit] = [e for e in papers.find_paper(paper).all_exhibits() if e.name == name]
    return exhibit.make(of_paper)
