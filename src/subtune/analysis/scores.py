"""Scores of an experiment's runs, the choice of runs for the tables, and learning curves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis import predictions
from subtune.core.errors import SubtuneError
from subtune.families.base import is_classifier
from subtune.runs import records, tables
from subtune.selections.specs import RunSpec
from subtune.tasks import metrics
from subtune.tasks.task import ScoreColumn

# Searched learning rates belong to the plateau if they score at most this much lower than the best.
PLATEAU = 0.01
SETTING = ["model", "task", "method", "fraction", "scope", "train_rows"]
DTYPES = {"best_epoch": "Int64", "fold": "Int64"} | dict.fromkeys(
    ["value", "smallest_rate", "largest_rate", "share_read"], float
)


def collect(
    planned: Sequence[Mapping[str, Any]],
    store: Path,
    columns: Sequence[ScoreColumn],
    apart: bool = False,
) -> pd.DataFrame:
    """Return the scores of an experiment's runs.

    Args:
        planned: the runs, from `subtune.runs.tables.with_runs`, with ``partition``.
        apart: whether to score dev rows at epochs that other rows chose, unless test rows give the
            scores.

    Returns:
        One row per run and column of its task: the planned fields; whether a search found the
        ``learning_rate`` (``searched``); ``smallest_rate`` and ``largest_rate`` that were tried;
        the ``plateau`` of a search (learning rates that scored at most `PLATEAU` lower than the
        best); ``best_epoch`` (the first with the best score in the deciding column),
        ``trainable``, ``classifier`` (the classifier's part of ``trainable``), ``seconds`` of
        training, ``one_answer`` (whether the run predicts the same for every row), ``delta_bytes``
        on disk, ``share_read`` (of the training texts' tokens), ``column``, ``metric``, ``value``,
        ``decides``, ``judges``, ``judged_at`` (the epoch of ``value``, or one for each part of the
        rows), ``judged_apart`` (whether other rows chose that epoch). Whole methods have no
        ``scope``, and fraction 1. A run that diverged has neither best epoch nor value.
    """
    rows = []
    scores_by_epoch: dict[str, list[float]] = {}
    for entry in planned:
        run = entry["run"]
        task_columns = [column for column in columns if column.task == entry["task"]]
        outcome, history = records.read_outcome(store, run), records.read_epochs(store, run)
        best = {} if outcome["diverged"] else _best_epoch(history, task_columns)
        sizes = records.read_sizes(store, run)
        tried = entry.get("tried", [])
        rates = [rate["learning_rate"] for rate in tried] or [entry["learning_rate"]]
        facts = {name: entry[name] for name in entry if name not in ("key", "search", "tried")}
        about = facts | {
            "searched": bool(tried),
            "smallest_rate": min(rates),
            "largest_rate": max(rates),
            "plateau": _plateau(tried) if tried and not outcome["diverged"] else None,
            "best_epoch": best.get("epoch"),
            "trainable": outcome["trainable"],
            "classifier": sum(size for name, size in sizes.items() if is_classifier(name)),
            "seconds": records.seconds_of(history),
            "one_answer": records.gives_one_answer(records.read_predictions(store, run)),
            "delta_bytes": records.delta_bytes(store, run),
            "share_read": outcome.get("share_read"),
        }
        for column in task_columns:
            row = about | {"column": column.key, "metric": column.metric}
            row |= {"decides": column.decides, "judges": column.judges}
            row |= {"judged_apart": False, "value": best.get(column.in_history, math.nan)}
            row |= {"judged_at": str(best["epoch"]) if best else None}
            if best and apart and column.decides and column.judges:
                if entry["fold"] is None:
                    row |= _by_other_parts(store, run, column)
                else:
                    scores_by_epoch[run] = [epoch[column.in_history] for epoch in history]
            rows.append(row)
    table = _by_other_folds(pd.DataFrame(rows).astype(DTYPES), scores_by_epoch, store, columns)
    return table.assign(fraction=table["fraction"].astype(float).fillna(1.0))


def _plateau(tried: Sequence[Mapping[str, Any]]) -> str:
    """Return the learning rates of a search's plateau, separated by spaces."""
    scores = {rate["learning_rate"]: rate["score"] for rate in tried if rate["score"] is not None}
    lowest = max(scores.values(), default=0.0) - PLATEAU
    return " ".join(f"{rate:g}" for rate, score in scores.items() if score >= lowest)


def _best_epoch(
    history: Sequence[Mapping[str, float]], columns: Sequence[ScoreColumn]
) -> Mapping[str, float]:
    """Return the first row of a history with the highest score in the deciding column."""
    [deciding] = [column.in_history for column in columns if column.decides]
    scored = [epoch for epoch in history if not math.isnan(epoch[deciding])]
    return max(scored, key=lambda epoch: epoch[deciding])


def _by_other_parts(store: Path, run: str, column: ScoreColumn) -> dict[str, Any]:
    """Return a run's ``value`` and ``judged_at``, with each part's epoch chosen by the other parts.

    The result is empty if there are fewer rows than parts.
    """
    task, tables = predictions.predictions_by_epoch(store, run, column.split)
    if tables[1]["idx"].nunique() < predictions.PARTS:
        return {}
    table, chosen = predictions.judged_apart(task, column.metric, tables)
    value = predictions.scorer(task, column.metric, table)(np.full(len(table), True))
    return {"value": value, "judged_at": " ".join(map(str, chosen)), "judged_apart": True}


def _by_other_folds(
    table: pd.DataFrame,
    curves: Mapping[str, Sequence[float]],
    store: Path,
    columns: Sequence[ScoreColumn],
) -> pd.DataFrame:
    """Return the table with cross-validated runs at the epochs that the other folds choose.

    The epoch is the one with the highest mean score on the other folds of the partition. Without
    other folds, parts of the fold choose each other's epochs.

    Args:
        curves: the judging score of each epoch, by cross-validated run.
    """
    column_of = {column.key: column for column in columns}
    fold_runs = table[table["run"].isin(curves) & table["judges"]]
    for _, runs in fold_runs.groupby([*SETTING, "learning_rate", "partition"], dropna=False):
        for row, run, fold in zip(runs.index, runs["run"], runs["fold"], strict=True):
            if choose := runs.loc[runs["fold"] != fold, "run"].tolist():
                epochs = min(len(curves[name]) for name in (run, *choose))
                best = int(np.mean([curves[name][:epochs] for name in choose], axis=0).argmax())
                found = {
                    "value": curves[run][best],
                    "judged_at": str(best + 1),
                    "judged_apart": True,
                }
            else:
                found = _by_other_parts(store, run, column_of[runs.loc[row, "column"]])
            table.loc[row, [*found]] = [*found.values()]
    return table


def read_scores(path: str | Path) -> pd.DataFrame:
    """Return an experiment's table of numbers from its file; a task may be called ``NA``."""
    dtype = {"run": str, "scope": str, "judged_at": str, "plateau": str, **DTYPES}
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dtype)


def choose(scores: pd.DataFrame) -> pd.DataFrame:
    """Return each setting's runs at its best learning rate: the rate with the highest mean over
    seeds; ties go to the smallest rate.

    If every run searched its own learning rate, or has none, all runs of the setting are kept. A
    setting is one combination of the columns in `SETTING`; settings keep their order. A learning
    rate at which a seed diverged has no mean and loses. If no learning rate has a mean, the setting
    diverged: the runs of its smallest learning rate are kept without values.

    Returns:
        The columns of ``scores``, and ``at_edge``: whether the best of several learning rates is
        the smallest or the largest, so that a better one may lie beyond it.
    """
    groups = scores.groupby(SETTING, sort=False, dropna=False)
    smallest = groups["smallest_rate"].transform("min")
    largest = groups["largest_rate"].transform("max")
    rates = scores["learning_rate"]
    at_edge = (smallest < largest) & (rates.eq(smallest) | rates.eq(largest))
    without_rate = scores["searched"] | rates.isna()
    best = best_of(scores.assign(at_edge=at_edge), SETTING, rates.mask(without_rate, 0.0))
    return best.assign(at_edge=best["at_edge"] & best["value"].notna())


def best_of(scores: pd.DataFrame, setting: Sequence[str], candidate: pd.Series) -> pd.DataFrame:
    """Return the rows of each setting's best candidate, chosen as `choose` chooses rates."""
    groups = scores.groupby([*setting], sort=False, dropna=False)
    scores = scores.assign(setting=groups.ngroup(), candidate=candidate)
    keys = ["setting", "candidate"]
    deciding = scores[scores["decides"]].groupby(keys, as_index=False, dropna=False)["value"]
    means = deciding.mean(skipna=False).rename(columns={"value": "mean"})
    means = means.sort_values(["mean", "candidate"], ascending=[False, True])
    chosen = scores.merge(means.drop_duplicates("setting"), on=keys)
    chosen["value"] = chosen["value"].where(chosen["mean"].notna())
    chosen = chosen.sort_values("setting", kind="stable", ignore_index=True)
    return chosen.drop(columns=["setting", "candidate", "mean"])


def on_most_rows(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return, for each model and task, the runs with the most training rows."""
    largest = chosen.groupby(["model", "task"])["train_rows"].transform("max")
    return chosen[chosen["train_rows"] == largest]


def in_every_metric(
    chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """Return whole methods' runs at the epochs of ``chosen``: a row per run, column and metric.

    Returns:
        The columns of ``chosen``; ``decides`` is true only for the metric of ``chosen``.
    """
    split_of = {column.key: column.split for column in columns}
    rows = []
    for row in whole_methods(chosen).to_dict("records"):
        history = records.read_epochs(store, row["run"])
        best: Mapping[str, float] = {}
        if not pd.isna(row["value"]):
            epochs = predictions.epochs_of(row["judged_at"])
            best = history[epochs[0] - 1]
            if len(epochs) > 1:
                best = _scores_of_parts(store, row["run"], split_of[row["column"]], epochs)
        for name in history[0]:
            split, _, metric = name.rpartition("/")
            if split == split_of[row["column"]]:
                decides = row["decides"] and metric == row["metric"]
                value = best.get(name, math.nan)
                rows.append(row | {"metric": metric, "value": value, "decides": decides})
    return pd.DataFrame(rows, columns=list(chosen)).astype(DTYPES)


def _scores_of_parts(store: Path, run: str, split: str, epochs: Sequence[int]) -> dict[str, float]:
    """Return a run's metrics, named as in a history, with each part of its rows at the part's
    epoch."""
    task, tables = predictions.predictions_by_epoch(store, run, split)
    kind, table = task.of_kind, predictions.assembled(tables, epochs)
    scores = metrics.compute_all(kind.compares, task.metrics, *kind.compared(table))
    return {f"{split}/{metric}": score for metric, score in scores.items()}


def whole_methods(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without a mask."""
    return chosen[chosen["scope"].isna()]


def masked(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a mask."""
    return chosen[chosen["scope"].notna()]


def by_method(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return whole methods' means over seeds: a row per model and column of the tables."""
    return whole_methods(chosen).groupby(["model", "column", "method"])["value"].mean().unstack()


def trained_beside_classifier(chosen: pd.DataFrame) -> pd.Series:
    """Return the number of pretrained parameters that each run trains."""
    return chosen["trainable"] - chosen.get("classifier", 0)


def best_of_seeds(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the run with the highest dev score per model, task and method, or the first of equally
    good ones.

    If the method diverged, the run has no score.
    """
    deciding = whole_methods(chosen).query("decides")
    best = deciding.sort_values("value", ascending=False, kind="stable")
    return best.drop_duplicates(["model", "task", "method"]).sort_index()


def with_whole_selection(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the runs, and the whole method as the last point of each scope's curve."""
    whole = whole_methods(chosen)
    ends = [
        whole[whole["method"] == method].assign(scope=scope)
        for (method, scope), curve in masked(chosen).groupby(["method", "scope"])
        if not (curve["fraction"] == 1).any()
    ]
    return pd.concat([chosen, *ends], ignore_index=True)


def refit_of(chosen: pd.DataFrame, store: Path, method: str) -> RunSpec:
    """Return the run of a method on all rows, with the first seed and the chosen learning rate.

    The run ends after the median of the epochs that the folds chose.

    Raises:
        SubtuneError: the method diverged.
    """
    runs = chosen[(chosen["method"] == method) & chosen["decides"]].dropna(subset="value")
    if runs.empty:
        raise SubtuneError(f"method {method!r} diverged: it has no learning rate to train with")
    run, epoch = runs["run"].iloc[0], math.ceil(runs["best_epoch"].median())
    return records.read_spec(store, run).refit(epoch)


def learning_curves(scores: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return the deciding score of every epoch.

    Returns:
        ``run``, ``epoch``, ``train_loss``, ``metric``, ``score``.
    """
    rows = []
    for run in scores[scores["decides"]].drop_duplicates("run").to_dict("records"):
        split = records.read_spec(store, run["run"]).tokens.data.task.evaluation[0]
        rows += [
            {"run": run["run"], "epoch": epoch["epoch"], "train_loss": epoch["train_loss"]}
            | {"metric": run["metric"], "score": epoch[f"{split}/{run['metric']}"]}
            for epoch in records.read_epochs(store, run["run"])
        ]
    return pd.DataFrame(rows)


def with_verdicts(
    chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """Return the runs with ``curve``: the verdict of `subtune.runs.tables.verdict` on the learning
    curves of all seeds of their setting.

    A diverged setting has no verdict.
    """
    column_of = {column.task: column for column in columns if column.decides}
    verdict_of: dict[str, str | None] = {}
    deciding = chosen[chosen["decides"]].dropna(subset=["value"])
    for _, runs in deciding.groupby(SETTING, sort=False, dropna=False):
        column = column_of[runs["task"].iloc[0]]
        scores = [
            [epoch[column.in_history] for epoch in records.read_epochs(store, run)]
            for run in runs["run"]
        ]
        predicted = records.read_predictions(store, runs["run"].iloc[0])
        rows = records.number_of_rows(predicted, column.split)
        verdict_of |= dict.fromkeys(runs["run"], tables.verdict(scores, rows))
    return chosen.assign(curve=chosen["run"].map(verdict_of))


def train_and_dev(chosen: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return train and dev scores of the runs that were scored on training rows.

    Args:
        trained: ``run``, and one column per metric.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``, and
        the generalisation ``gap``, which is train minus dev.
    """
    both = whole_methods(chosen).merge(trained, on="run")
    both["train"] = [row[row["metric"]] for _, row in both.iterrows()]
    both = both.rename(columns={"value": "dev"})
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]
