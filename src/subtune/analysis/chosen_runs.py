"""The choice of the runs that tables show, and verdicts on their learning curves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.methods import masked_name, method_title
from subtune.runs import records
from subtune.tasks.task import ScoreColumn

# The columns of the scores whose values together are one setting: all of it but the learning rate,
# the seed and the fold.
SETTING = ["model", "task", "method", "fraction", "scope", "train_rows"]
# The columns that the methods of one comparison share.
QUESTION = ["model", "task", "metric"]
# The columns in which these methods differ.
METHOD = ["method", "fraction", "scope"]
# The verdicts on learning curves.
CONVERGED, STILL_RISING, FELL = "converged", "still rising", "fell"
FEWEST_SEEDS = 3
LEVEL = 0.95


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


def whole_methods(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without a mask."""
    return chosen[chosen["scope"].isna()]


def masked_runs(chosen: pd.DataFrame) -> pd.DataFrame:
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

    If the method diverged, the run has no score. Brought predictions have no runs.
    """
    deciding = whole_methods(chosen[~are_brought(chosen)]).query("decides")
    best = deciding.sort_values("value", ascending=False, kind="stable")
    return best.drop_duplicates(["model", "task", "method"]).sort_index()


def with_whole_selection(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the runs, and the whole method as the last point of each scope's curve."""
    whole = whole_methods(chosen)
    ends = [
        whole[whole["method"] == method].assign(scope=scope)
        for (method, scope), curve in masked_runs(chosen).groupby(["method", "scope"])
        if not (curve["fraction"] == 1).any()
    ]
    return pd.concat([chosen, *ends], ignore_index=True)


def merge_experiments(chosen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the runs of several experiments as one table.

    If experiments share a setting, the experiment in which the setting scores best counts. Only the
    runs on the most training rows of a model and task count. If experiments judge a task by
    different metrics, each metric counts as a separate task.
    """
    tables = [table.assign(experiment=number) for number, table in enumerate(chosen)]
    together = on_most_rows(pd.concat(tables, ignore_index=True))
    best = choose_best(together, [*QUESTION, *METHOD], together["experiment"])
    return best.drop(columns="experiment")


def are_brought(chosen: pd.DataFrame) -> pd.Series:
    """Return which rows are of predictions that a user brings; they have no record."""
    # Tables of earlier versions lack the column.
    return chosen.get("encoder_size", pd.Series(0, chosen.index)).isna()


def title_with_mask(row: Mapping[str, Any]) -> str:
    """Return a method's title, with its mask if it has a scope, from a row with `METHOD`."""
    scope = None if pd.isna(row["scope"]) else row["scope"]
    return masked_name(method_title(row["method"]), row["fraction"], scope)


def learning_curves(scores: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return the deciding score of every run and epoch.

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
    """Return the runs with ``curve``, the verdict on the learning curves of their setting's seeds.

    A setting that diverged has no verdict.
    """
    column_of = {column.task: column for column in columns if column.decides}
    verdict_of: dict[str, str | None] = {}
    deciding = chosen[chosen["decides"]].dropna(subset=["value"])
    for _, runs in deciding.groupby(SETTING, sort=False, dropna=False):
        column = column_of[runs["task"].iloc[0]]
        scores = [records.read_curve(store, run, column.history_column) for run in runs["run"]]
        predicted = records.read_predictions(store, runs["run"].iloc[0])
        rows = records.count_rows(predicted, column.split)
        verdict_of |= dict.fromkeys(runs["run"], verdict(scores, rows))
    return chosen.assign(curve=chosen["run"].map(verdict_of))


def verdict(curves: Sequence[Sequence[float]], rows: int) -> str | None:
    """Return the verdict on the mean curve of a method's seeds, or None for a single epoch.

    * *Still rising*: the last epoch is the best, and the score has risen over the last third of the
      epochs.
    * *Fell*: the best epoch is before the last third, and the score has fallen since.
    * *Converged*: neither.

    A change counts if it exceeds the noise. With `FEWEST_SEEDS` seeds or more, this means that
    Student's 95 % interval over seeds excludes 0. With fewer seeds, the noise is the standard error
    of an accuracy of 0.5 on ``rows`` rows.

    Args:
        curves: the score of each epoch, by seed. Curves of different lengths are aligned at their
            last epochs, and earlier epochs that a curve lacks are left out.
        rows: the number of rows that are scored.
    """
    epochs = min(map(len, curves))
    if epochs < 2:
        return None
    scores = np.array([curve[-epochs:] for curve in curves])
    third = max(1, epochs // 3)
    best, last = int(scores.mean(0).argmax()), scores[:, -1]
    if best == epochs - 1 and _exceeds_noise(last - scores[:, -1 - third], rows):
        return STILL_RISING
    if best < epochs - third and _exceeds_noise(scores[:, best] - last, rows):
        return FELL
    return CONVERGED


def _exceeds_noise(changes: np.ndarray, rows: int) -> bool:
    """Return whether the mean of changes, one per seed, is larger than the noise."""
    noise = 0.5 / math.sqrt(rows)
    if len(changes) >= FEWEST_SEEDS:
        # Importing scipy takes long.
        from scipy import stats

        noise = stats.t.ppf((1 + LEVEL) / 2, len(changes) - 1) * stats.sem(changes)
    return bool(changes.mean() > noise)
