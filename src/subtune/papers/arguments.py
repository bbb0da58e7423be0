"""Arguments of the functions that make tables and figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subtune import papers
from subtune.analysis.scores import read_scores
from subtune.papers import printed
from subtune.papers.paper import Paper, Table
from subtune.papers.shared import all_exhibits


def make(name: str, declaration: Mapping[str, Any], files: Mapping[str, Any]) -> Any:
    """Return the table or figure that a job makes.

    Args:
        declaration: from `subtune.papers.experiments.declaration`.
        files: arguments that are data, to their file, or their files.
    """
    paper = papers.find(declaration["paper"])
    [exhibit] = [exhibit for exhibit in all_exhibits(paper) if exhibit.name == name]
    numbers = {
        argument: read(data, files[argument]) for argument, data in declaration["data"].items()
    }
    for argument, table in numbers.items():
        if "task" in table:
            numbers[argument] = table[~table["task"].isin(declaration["left_out"])]
    return call(paper, exhibit, **numbers, **declaration["arguments"])


def call(paper: Paper, exhibit: Table, **arguments: Any) -> Any:
    """Return a table or figure of these arguments, its options and its printed numbers."""
    tables = {
        argument: printed.table(paper.name, name) for argument, name in exhibit.printed.items()
    }
    return exhibit.make(**tables, **exhibit.options, **arguments)


def read(name: str, place: str | Sequence[str]) -> Any:
    """Read a table of numbers; for ``models`` return their directories."""
    return [*map(Path, place)] if name == "models" else read_scores(str(place))
