"""Numbers of an experiment and of its paper, from which tables and figures are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.answers import Unfinished
from subtune.analysis.columns import declared
from subtune.analysis.summary import summary

# The tables with the scores of an experiment's runs.
SCORES = ("scores", "chosen", "sizes", "test_scores")
# A figure's ``width`` in inches, and its ``colormap``.
Style = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """Numbers of an experiment's runs, and facts about its tasks from the configuration.

    Attributes:
        tables: tables by their names in `subtune.papers.paper.DATA`; an experiment may lack some.
        tasks: each task's ``title``, the titles of its ``columns`` and ``metrics``, its splits for
            ``evaluation``, and the ``source`` of its rows in words.
        printed: the function that returns a table of the experiment's paper by its name.
        models: directories of models by name.
        selections: each method's selection as canonical JSON.
        unfinished: the numbers of seeds or folds that are done and planned, by method that lacks
            some.
    """

    tables: Mapping[str, pd.DataFrame]
    tasks: Mapping[str, Mapping[str, Any]]
    printed: Callable[[str], pd.DataFrame]
    models: Mapping[str, Path] = field(default_factory=dict)
    selections: Mapping[str, str] = field(default_factory=dict)
    unfinished: Unfinished = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse scores with a column that is not declared, so that no exhibit can read it."""
        for name in {*SCORES} & self.tables.keys():
            declared(self.tables[name], "scores")

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    @property
    def task_titles(self) -> dict[str, str]:
        return {task: about["title"] for task, about in self.tasks.items()}

    @property
    def column_titles(self) -> dict[str, str]:
        return {key: t for about in self.tasks.values() for key, t in about["columns"].items()}

    @property
    def source(self) -> str:
        return " and ".join(dict.fromkeys(about["source"] for about in self.tasks.values()))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The table of `subtune.analysis.summary.summary`, which takes a second to make."""
        return summary(self["chosen"], self["row_scores"])

    def without(self, tasks: Sequence[str]) -> "Results":
        """Return the results of all other tasks."""
        return replace(
            self,
            tasks={task: about for task, about in self.tasks.items() if task not in tasks},
            tables={
                name: table[~table["task"].isin(tasks)] if "task" in table else table
                for name, table in self.tables.items()
            },
        )
