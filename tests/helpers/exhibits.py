"""Papers' tables and figures, made from a test's tables."""

from collections.abc import Mapping
from typing import Any

from subtune import papers
from subtune.papers.experiments import Results
from subtune.papers.paper import Table
from subtune.papers.shared import all_exhibits
from subtune.tasks.task import Task, columns_of


def declared(paper: str | None, name: str) -> Table:
    [exhibit] = [e for e in all_exhibits(papers.find(paper)) if e.name == name]
    return exhibit


def titled(*tasks: Task) -> dict[str, Mapping[str, Any]]:
    """Return what `subtune.papers.experiments.about` says of tasks, as far as tables need it."""
    return {
        task.name: {
            "title": task.title,
            "columns": {column.key: column.title for column in columns_of([task], {})},
            "source": "builtin data",
        }
        for task in tasks
    }


def made(paper: str, name: str, tables: Mapping[str, Any], *style: Any, **others: Any) -> Any:
    """Return an exhibit of these tables and of other fields of `Results`."""
    return declared(paper, name).make(Results(papers.find(paper), tables, **others), *style)
