"""Scores of an experiment's runs, and the choice of runs for the tables."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis import predictions
from subtune.analysis.columns import SETTING, declared, set_types
from subtune.analysis.runs import read_costs
from subtune.methods.roles import is_classifier
from subtune.runs import records
from subtune.tasks import metrics
from subtune.tasks.task import ScoreColumn

# Searched learning rates belong to the plateau if they score at most this much lower than the best.
PLATEAU = 0.01


def collect_scores(
    finished: Sequence[Mapping[str, Any]],
    store: Path,
    columns: Sequence[ScoreColumn],
    apart: bool = False,
) -> pd.DataFrame:
    """Return the scores of an experiment's runs: a row per run and column of its task.

    `columns.csv` explains the columns of the result. A score is that of the run's best epoch: the
    first one with the highest score in the deciding column. A run that diverged has neither a best
    epoch nor a score.

    Args:
        finished: the runs, from `subtune.analysis.runs.join_run_ids`, with ``partition``.
        store: the directory of the run records.
        columns: the score columns of the experiment.
        apart: whether dev rows that compare methods are scored at epochs that other rows chose.
    """
    rows = []
    for entry in finished:
        task_columns = [column for column in columns if column.task == entry["task"]]
        outcome = records.read_outcome(store, entry["run"])
        history = records.read_epochs(store, entry["run"])
        sizes = records.read_sizes(store, entry["run"])
        best = {} if outcome["diverged"] else _best_epoch(history, task_columns)
        about = {name: entry[name] for name in entry if name not in ("key", "search", "tried")}
        about |= _tried_rates(entry, outcome["diverged"]) | {"best_epoch": best.get("epoch")}
        about |= {"trainable": outcome["trainable"], "share_read": outcome.get("share_read")}
        about |= read_costs(store, entry["run"], history)
        about["classifier"] = sum(size for name, size in sizes.items() if is_classifier(name))
        rows += [about | _score_at(best, column) for column in task_columns]
    table = set_types(declared(pd.DataFrame(rows), "scores"), "scores")
    table["fraction"] = table["fraction"].fillna(1.0)
    return _judge_apart(table, store, columns) if apart else table


def _tried_rates(entry: Mapping[str, Any], diverged: bool) -> dict[str, Any]:
    """Return the range of learning rates that were tried for a planned run, and the plateau."""
    tried = entry.get("tried", [])
    rates = [rate["learning_rate"] for rate in tried] or [entry["learning_rate"]]
    return {
        "searched": bool(tried),
        "smallest_rate": min(rates),
        "largest_rate": max(rates),
        "plateau": _plateau(tried) if tried and not diverged else None,
    }


def _plateau(tried: Sequence[Mapping[str, Any]]) -> str:
    """Return the learning rates of a search's plateau, separated by spaces."""
    scores = {rate["learning_rate"]: rate["score"] for rate in tried if rate["score"] is not None}
    lowest = max(scores.values(), default=0.0) - PLATEAU
    return " ".join(f"{rate:g}" for rate, score in scores.items() if score >= lowest)


def _best_epoch(
    history: Sequence[Mapping[str, float]], columns: Sequence[ScoreColumn]
) -> Mapping[str, float]:
    """Return the first row of a history with the highest score in the deciding column."""
    [deciding] = [column.history_column for column in columns if column.decides]
    scored = [epoch for epoch in history if not math.isnan(epoch[deciding])]
    return max(scored, key=lambda epoch: epoch[deciding])


def _score_at(epoch: Mapping[str, float], column: ScoreColumn) -> dict[str, Any]:
    """Return the score of one column at an epoch, which is empty if the run diverged."""
    return {
        "column": column.key,
        "metric": column.metric,
        "decides": column.decides,
        "judges": column.judges,
        "judged_apart": False,
        "value": epoch.get(column.history_column, math.nan),
        "judged_at": [epoch["epoch"]] if epoch else None,
    }


def _judge_apart(table: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]) -> pd.DataFrame:
    """Return the scores with dev rows that compare methods scored at epochs that other rows chose.

    The best epoch's own score is slightly too high, because the rows that it scores chose it.
    Therefore ``value`` becomes a score at other epochs of the same training, ``judged_at``:

    1. for the run of a fold, the epoch that is best on average for the runs of the other folds
    2. without other folds, one epoch for each part of the rows: the best one on the other parts
    3. with fewer rows than parts, the best epoch, as before

    ``best_epoch`` stays the epoch of the recorded model, which can be exported.
    """
    column_of = {column.key: column for column in columns}
    judged = table[table["decides"] & table["judges"] & table["value"].notna()]
    for _, runs in judged.groupby([*SETTING, "learning_rate", "partition"], dropna=False):
        column, has_folds = column_of[runs["column"].iloc[0]], runs["fold"].notna().any()
        curves = {
            run: records.read_curve(store, run, column.history_column)
            for run in runs["run"]
            if has_folds
        }
        for index, run, fold in zip(runs.index, runs["run"], runs["fold"], strict=True):
            others = runs.loc[runs["fold"] != fold, "run"] if has_folds else []
            score = (
                _score_by_other_folds(curves[run], [curves[other] for other in others])
                if len(others)
                else _score_by_other_parts(store, run, column)
            )
            if score:
                table.at[index, "value"], table.at[index, "judged_at"] = score
                table.at[index, "judged_apart"] = True
    return table


def _score_by_other_folds(
    curve: Sequence[float], others: Sequence[Sequence[float]]
) -> tuple[float, list[int]]:
    """Return a run's score, and the epoch with the highest mean score of the other folds' runs."""
    epochs = min(map(len, [curve, *others]))
    best = int(np.mean([other[:epochs] for other in others], axis=0).argmax())
    return curve[best], [best + 1]


def _score_by_other_parts(
    store: Path, run_id: str, column: ScoreColumn
) -> tuple[float, list[int]] | None:
    """Return a run's score with each part of the rows at its epoch, and these epochs.

    The result is None if there are fewer rows than parts.
    """
    task, tables = predictions.read_epoch_predictions(store, run_id, column.split)
    if tables[1]["idx"].nunique() < predictions.PARTS:
        return None
    table, epochs = predictions.judge_parts(task, column.metric, tables)
    metric = predictions.make_masked_metric(task, column.metric, table)
    return metric(np.full(len(table), True)), epochs


def choose_rates(scores: pd.DataFrame) -> pd.DataFrame:
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
    best = choose_best(scores.assign(at_edge=at_edge), SETTING, rates.mask(without_rate, 0.0))
    return best.assign(at_edge=best["at_edge"] & best["value"].notna())


def choose_best(scores: pd.DataFrame, setting: Sequence[str], candidate: pd.Series) -> pd.DataFrame:
    """Return the rows of each setting's best candidate, chosen as `choose_rates` chooses rates."""
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
            epochs = row["judged_at"]
            best = history[epochs[0] - 1]
            if len(epochs) > 1:
                best = _scores_of_parts(store, row["run"], split_of[row["column"]], epochs)
        for name in history[0]:
            split, _, metric = name.rpartition("/")
            if split == split_of[row["column"]]:
                decides = row["decides"] and metric == row["metric"]
                value = best.get(name, math.nan)
                rows.append(row | {"metric": metric, "value": value, "decides": decides})
    return pd.DataFrame(rows, columns=list(chosen)).astype(chosen.dtypes)


def _scores_of_parts(store: Path, run: str, split: str, epochs: Sequence[int]) -> dict[str, float]:
    """Return a run's metrics, named as in a history, with each part of its rows at the part's
    epoch."""
    task, tables = predictions.read_epoch_predictions(store, run, split)
    kind, table = task.of_kind, predictions.join_parts(tables, epochs)
    scores = metrics.compute_all(kind.compares, task.metrics, *kind.metric_inputs(table))
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


def train_and_dev(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return train and dev scores of the runs whose records have scores on training rows.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``, and
        the generalisation ``gap``, which is train minus dev.
    """
    both = whole_methods(chosen).rename(columns={"value": "dev"})
    scores = {run: records.read_outcome(store, run)["scores"] for run in both["run"].unique()}
    both = both[[records.TRAIN in scores[run] for run in both["run"]]]
    metrics_of_rows = zip(both["run"], both["metric"], strict=True)
    both["train"] = [scores[run][records.TRAIN][metric] for run, metric in metrics_of_rows]
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]
