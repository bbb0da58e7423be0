"""Results of an experiment: all that its tables, figures and claims read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from subtune import papers
from subtune.analysis import parameters
from subtune.analysis.claims import claims_table
from subtune.analysis.comparisons import reproduction, train_and_dev
from subtune.analysis.scores import read_scores
from subtune.papers import printed
from subtune.papers.paper import DATA


@dataclass(frozen=True)
class Results:
    """Numbers of an experiment's runs, and facts about its tasks from the configuration.

    Attributes:
        paper: the name of the paper that it reproduces, or empty.
        tables: names in `subtune.papers.paper.DATA` to tables; an experiment may lack some.
        tasks: each task to its ``title``, the titles of its ``columns``, its ``metrics``, its
            splits for ``evaluation``, and the ``source`` of its rows in words.
        models: names to directories.
        selections: each method's selection as canonical JSON.
    """

    paper: str = ""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: Mapping[str, Path] = field(default_factory=dict)
    selections: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    def printed(self, name: str) -> pd.DataFrame:
        """Return a table that the paper prints."""
        return printed.table(self.paper, name)

    @property
    def task_titles(self) -> dict[str, str]:
        return {task: about["title"] for task, about in self.tasks.items()}

    @property
    def column_titles(self) -> dict[str, str]:
        return {key: t for about in self.tasks.values() for key, t in about["columns"].items()}

    @property
    def source(self) -> str:
        return " and ".join(dict.fromkeys(about["source"] for about in self.tasks.values()))

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


def read_results(about: Mapping[str, Any], files: Mapping[str, Any]) -> Results:
    """Return an experiment's results from the files that the workflow made.

    Args:
        about: from `subtune.papers.experiments.about`.
        files: the names of tables to their file, and ``models`` to directories.
    """
    tables = {name: read_scores(files[name]) for name in DATA if name in files}
    models = dict(zip(about["models"], map(Path, files["models"]), strict=True))
    return Results(about["paper"], tables, about["tasks"], models, about["selections"])


def further_tables(about: Mapping[str, Any], files: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the tables that only an experiment's exhibits need, by their names in `about`.

    Args:
        files: as in `read_results`, and ``fisher_sums`` to a file per task, ``scored`` to the train
            scores of sweeps.
    """
    paper, tasks, wanted = papers.find(about["paper"]), about["tasks"], about["tables"]
    ours = read_results(about, files).tables
    tables: dict[str, pd.DataFrame] = {}
    if "component_shares" in wanted:
        sums = dict(zip(tasks, map(pd.read_csv, files["fisher_sums"]), strict=True))
        layers = parameters.layernorm_by_layer(sums)
        tables["layernorm_information"] = layers
        tables["global_layernorm_information"] = parameters.global_by_layer(layers)
        tables["component_shares"] = parameters.component_shares(sums)
        tables["parameter_information"] = parameters.parameter_information(sums)
    if "train_scores" in wanted:
        trained = [pd.DataFrame(columns=["run"])]
        trained += [pd.read_csv(path, dtype={"run": str}) for path in files["scored"]]
        tables["train_scores"] = train_and_dev(ours["chosen"], pd.concat(trained))
    if "reproduction" in wanted:
        scores = printed.scores(paper.name)
        tables["reproduction"] = reproduction(ours["chosen"], scores, ours.get("test_scores"))
    # Concatenating an empty table leaves columns without a type.
    tables = {name: table.infer_objects() for name, table in tables.items()}
    if "claims" in wanted:
        rows = {"task": [*tasks], "rows": [about["train_rows"] for about in tasks.values()]}
        tables["claims"] = claims_table(
            paper.claims_on(tasks),
            {**ours, **tables, "train_rows": pd.DataFrame(rows)},
            printed.tables_like_ours(paper, averages=False),
            printed.tables_like_ours(paper, averages=True),
            paper.tasks_apart,
        )
    return {name: tables[name] for name in wanted}
