"""Tables and figures as the papers declare them, made of what a test gives."""

from pkgutil import resolve_name
from typing import Any

from subtune import papers
from subtune.papers import printed
from subtune.papers.base import Table
from subtune.papers.common import exhibits_around


def declared(paper: str | None, name: str) -> Table:
    [exhibit] = [e for e in exhibits_around(papers.find(paper)) if e.name == name]
    return exhibit


def made(paper: str | None, name: str, **arguments: Any) -> Any:
    """What an exhibit's function returns for these arguments, beside those that are declared."""
    exhibit = declared(paper, name)
    if exhibit.printed:
        arguments["printed"] = printed.table(str(paper), exhibit.printed)
    if "paper" in exhibit.facts:
        arguments["paper"] = papers.find(paper)
    return resolve_name(exhibit.make)(**arguments, **exhibit.options)
