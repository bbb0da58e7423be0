"""Scores of an experiment's runs, and which of them the tables show."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.columns import ScoreColumn
from subtune.runs import records

SETTING = ["model", "task", "method", "fraction", "scope"]


def collect(
    planned: Sequence[Mapping[str, Any]], store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """The scores of an experiment's runs.

    Args:
        planned: per run ``run``, ``model``, ``task``, ``method``, ``fraction``, ``scope``,
            ``learning_rate``, ``seed``.
        store: where the run records are.
        columns: the tables' columns.

    Returns:
        One row per run and column of its task: what was planned, and ``best_epoch``,
        ``trainable``, ``column``, ``metric``, ``value``, ``decides``. Whole methods have no
        ``scope``, and fraction 1.

    Raises:
        SubtuneError: a record is missing or cannot be read.
    """
    rows = []
    for entry in planned:
        record = records.read_outcome(store, entry["run"])
        for column in columns:
            if column.task == entry["task"]:
                rows.append(
                    dict(entry)
                    | {"best_epoch": record["best_epoch"], "trainable": record["trainable"]}
                    | {"column": column.key, "metric": column.metric, "decides": column.decides}
                    | {"value": record["scores"][column.split][column.metric]}
                )
    table = pd.DataFrame(rows)
    return table.assign(fraction=table["fraction"].astype(float).fillna(1.0))


def read_scores(path: str | Path) -> pd.DataFrame:
    """A table that `collect` or `choose` made. A task or method may be called ``NA``."""
    return pd.read_csv(
        path, keep_default_na=False, na_values={"scope": [""]}, dtype={"run": str, "scope": str}
    )


def choose(scores: pd.DataFrame) -> pd.DataFrame:
    """Runs of each setting's best learning rate: the highest mean over seeds, then the smallest.

    A setting is a model, task, method, fraction and scope. Epochs were chosen in training. The
    settings keep their order.
    """
    scores = scores.assign(setting=scores.groupby(SETTING, sort=False, dropna=False).ngroup())
    rates = ["setting", "learning_rate"]
    means = scores[scores["decides"]].groupby(rates, as_index=False)["value"].mean()
    means = means.sort_values(["value", "learning_rate"], ascending=[False, True])
    chosen = scores.merge(means.drop_duplicates("setting")[rates], on=rates, how="inner")
    return chosen.sort_values("setting", kind="stable", ignore_index=True).drop(columns="setting")


def whole_methods(chosen: pd.DataFrame) -> pd.DataFrame:
    """Rows of whole methods, without those of fractions."""
    return chosen[chosen["scope"].isna()]


def masked(chosen: pd.DataFrame) -> pd.DataFrame:
    """Rows of fractions, which have a mask."""
    return chosen[chosen["scope"].notna()]


def by_method(chosen: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of whole methods: a row per model and column of the tables."""
    return whole_methods(chosen).groupby(["model", "column", "method"])["value"].mean().unstack()


def best_of_seeds(chosen: pd.DataFrame) -> pd.DataFrame:
    """The run per model, task and method whose dev score is highest; of equals the first seed's."""
    deciding = whole_methods(chosen).query("decides")
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
    """The same runs, and for every scope the whole method as the end of its curve."""
    whole = whole_methods(chosen)
    ends = [
        whole[whole["method"] == method].assign(scope=scope)
        for (method, scope), curve in masked(chosen).groupby(["method", "scope"])
        if not (curve["fraction"] == 1).any()
    ]
    return pd.concat([chosen, *ends], ignore_index=True)
