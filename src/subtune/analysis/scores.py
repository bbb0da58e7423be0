"""Scores of an experiment's runs, and which of them the tables show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.runs import records
from subtune.tasks import Task

SETTING = ["model", "task", "method", "fraction", "scope"]

# Where a paper shows another metric than the task's first, by which the best epoch is chosen.
METRICS_OF_PAPERS = {"spafit": {"stsb": "pearsonr", "qqp": "accuracy"}}


@dataclass(frozen=True)
class Column:
    """A column of the papers' tables: MNLI is one task and two columns."""

    key: str
    title: str
    task: str
    split: str
    metric: str
    decides: bool


def columns_of(tasks: Sequence[Task], paper: str = "layernorm") -> list[Column]:
    """A paper's columns, in the order of the tasks. The first of a task's columns decides."""
    metrics = METRICS_OF_PAPERS.get(paper, {})
    columns = []
    for task in tasks:
        for position, (split, title) in enumerate(task.columns()):
            several = len(task.evaluation) > 1
            key = f"{task.name}_{split.removeprefix('validation_')}" if several else task.name
            metric = metrics.get(task.name, task.metrics[0])
            columns.append(Column(key, title, task.name, split, metric, position == 0))
    return columns


def collect(
    planned: Sequence[Mapping[str, Any]], store: Path, columns: Sequence[Column]
) -> pd.DataFrame:
    """Read the scores of an experiment's runs.

    Args:
        planned: per run ``run``, ``model``, ``task``, ``method``, ``fraction``, ``scope``,
            ``learning_rate``, ``seed``.
        store: where the run records are.
        columns: the tables' columns.

    Returns:
        One row per run and column of its task: what was planned, and ``best_epoch``,
        ``trainable``, ``column``, ``metric``, ``value``, ``decides``.

    Raises:
        SubtuneError: a record is missing or cannot be read.
    """
    rows = []
    for entry in planned:
        record = records.read_scores(store, entry["run"])
        for column in columns:
            if column.task == entry["task"]:
                rows.append(
                    dict(entry)
                    | {"best_epoch": record["best_epoch"], "trainable": record["trainable"]}
                    | {"column": column.key, "metric": column.metric, "decides": column.decides}
                    | {"value": record["scores"][column.split][column.metric]}
                )
    table = pd.DataFrame(rows)
    table["fraction"] = table["fraction"].astype(float).fillna(1.0)
    table["scope"] = table["scope"].fillna("")
    return table


def read_scores(path: str | Path) -> pd.DataFrame:
    """Read a table that `collect` or `choose` made."""
    return pd.read_csv(path, keep_default_na=False, dtype={"run": str, "scope": str})


def choose(scores: pd.DataFrame) -> pd.DataFrame:
    """Keep each setting's best learning rate: the highest mean over seeds, then the smallest.

    A setting is a model, task, method, fraction and scope. Epochs were chosen in training. The
    settings keep their order.
    """
    scores = scores.assign(setting=scores.groupby(SETTING, sort=False).ngroup())
    deciding = scores[scores["decides"]]
    means = deciding.groupby([*SETTING, "learning_rate"], as_index=False)["value"].mean()
    means = pd.DataFrame(means).sort_values(["value", "learning_rate"], ascending=[False, True])
    best = means.drop_duplicates(SETTING)[[*SETTING, "learning_rate"]]
    chosen = scores.merge(best, on=[*SETTING, "learning_rate"], how="inner")
    return chosen.sort_values("setting", kind="stable", ignore_index=True).drop(columns="setting")


def methods_only(chosen: pd.DataFrame) -> pd.DataFrame:
    """Rows of whole methods, without those of fractions."""
    return chosen[chosen["scope"] == ""]


def by_method(chosen: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of whole methods: a row per model and column of the tables."""
    return methods_only(chosen).groupby(["model", "column", "method"])["value"].mean().unstack()


def best_of_seeds(chosen: pd.DataFrame) -> pd.DataFrame:
    """The run per model, task and method whose dev score is highest; of equals the first seed's."""
    deciding = methods_only(chosen).query("decides")
    best = deciding.sort_values("value", ascending=False, kind="stable")
    return best.drop_duplicates(["model", "task", "method"]).sort_index()


def averages(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Each seed's mean over columns, for the models, methods and seeds that have them all.

    Returns:
        ``model``, ``method``, ``seed``, ``value``.
    """
    wide = scores.pivot(index=["model", "method", "seed"], columns="column", values="value")
    means = wide.reindex(columns=list(columns)).dropna().mean(axis=1)
    return means.rename("value").reset_index()


def with_whole_selection(chosen: pd.DataFrame) -> pd.DataFrame:
    """Let every scope's curve end at fraction 1, which is the whole method and has no mask."""
    masked = chosen[chosen["scope"] != ""]
    ends = []
    for (method, scope), own in masked.groupby(["method", "scope"]):
        if not (own["fraction"] == 1).any():
            whole = methods_only(chosen)
            ends.append(whole[whole["method"] == method].assign(scope=scope))
    return pd.concat([chosen, *ends], ignore_index=True)
