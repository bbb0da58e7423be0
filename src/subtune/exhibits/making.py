"""Making one table or figure as its paper declares it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from subtune.analysis.scores import read_scores
from subtune.exhibits import facts
from subtune.papers import printed

SCORES = ("chosen", "scores", "sizes", "test_scores")


def make(
    declaration: Mapping[str, Any],
    data: Mapping[str, tuple[str, Any]],
    plain_facts: Mapping[str, Any],
    left_out: Sequence[str] = (),
    **arguments: Any,
) -> Any:
    """The table or figure that a declaration's function returns.

    Args:
        declaration: from `subtune.papers.base.Table.declaration`.
        data: argument to the data's name and its file, or files.
        plain_facts: from `subtune.exhibits.facts.taken`.
        left_out: tasks whose rows of the data are not shown.
        arguments: others that the function takes.
    """
    numbers = {
        argument: _without(read(name, path), left_out) for argument, (name, path) in data.items()
    }
    if declaration["printed"]:
        arguments["printed"] = printed.table(*declaration["printed"])
    return resolve_name(declaration["make"])(
        **numbers, **facts.read(plain_facts), **declaration["options"], **arguments
    )


def read(name: str, place: str | Sequence[str]) -> pd.DataFrame | list[Path]:
    """Numbers behind exhibits; of ``models`` the directories."""
    if not isinstance(place, str):
        return [Path(path) for path in place]
    if name in SCORES:
        return read_scores(place)
    # A task or method may be called ``NA``.
    return pd.read_csv(place, dtype={"run": str}, keep_default_na=False, na_values=[""])


def _without(numbers: pd.DataFrame | list[Path], tasks: Sequence[str]) -> pd.DataFrame | list[Path]:
    """Numbers without the rows of some tasks, where they are of tasks."""
    if isinstance(numbers, pd.DataFrame) and "task" in numbers:
        return numbers[~numbers["task"].isin(tasks)]
    return numbers
