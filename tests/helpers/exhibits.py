"""Tables and figures as the papers declare them, made of what a test gives."""

from typing import Any

from subtune import papers
from subtune.papers.experiments import call
from subtune.papers.paper import Table
from subtune.papers.shared import all_exhibits


def declared(paper: str | None, name: str) -> Table:
    [exhibit] = [e for e in all_exhibits(papers.find(paper)) if e.name == name]
    return exhibit


def made(paper: str | None, name: str, **arguments: Any) -> Any:
    """Return an exhibit made of these arguments and of those that are declared."""
    return call(papers.find(paper), declared(paper, name), **arguments)
