"""Choose the runs to show in tables, and give verdicts on their learning curves."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis.intervals import LEVEL, student_quantile
from subtune.methods import masked_name, method_title
from subtune.runs import records
from subtune.tasks.metrics import is_scorer

# Runs with equal values in these columns have the same setting and differ only in learning rate,
# seed and fold.
SETTING = ["model", "task", "method", "fraction", "scope", "train_rows"]
# The columns that identify a method.
METHOD = ["method", "fraction", "scope"]
# Verdicts on learning curves.
CONVERGED, STILL_RISING, FELL = "converged", "still rising", "fell"
FEWEST_SEEDS = 3


def choose_rates(scores: pd.DataFrame) -> pd.DataFrame:
    """Choose the best learning rate of each combination of values in the columns `SETTING`.

    The best rate has the highest mean score over seeds. Ties are broken in favour of the smallest
    rate. A rate at which a seed diverged has no mean. If no rate has a mean, the runs of the
    smallest rate are returned without scores. All runs are returned if a search found their rate,
    or if they have no rate.

    The added column ``at_edge`` tells whether the best learning rate is the smallest or the largest
    of several rates. If so, rates that were not tried may be better.
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
    """Return the rows of each setting's best candidate, chosen like the rate in `choose_rates`."""
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


def select_largest_training_set(chosen: pd.DataFrame) -> pd.DataFrame:
    """Select the runs on the largest training set of each model and task."""
    largest = chosen.groupby(["model", "task"])["train_rows"].transform("max")
    return chosen[chosen["train_rows"] == largest]


def have_same_unit(scores: pd.DataFrame) -> bool:
    """Return whether scores of several tasks have the same unit, so that they can be averaged.

    The built-in metrics have; scorers may not, unless all tasks have the same metric and margin.
    """
    is_any_scorer = scores["metric"].map(is_scorer).any()
    return not is_any_scorer or len(scores[["metric", "margin"]].drop_duplicates()) == 1


def select_same_unit(scores: pd.DataFrame) -> pd.DataFrame:
    """Select the scores in built-in metrics, unless all have the same unit."""
    return scores if have_same_unit(scores) else scores[~scores["metric"].map(is_scorer)]


def drop_runs_with_mask(chosen: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of methods without a mask."""
    return chosen[chosen["scope"].isna()]


def select_masked_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of methods with a mask."""
    return chosen[chosen["scope"].notna()]


def pivot_methods(chosen: pd.DataFrame) -> pd.DataFrame:
    """Average unmasked runs over seeds, by model and score column (rows) and method (columns)."""
    return (
        drop_runs_with_mask(chosen).groupby(["model", "column", "method"])["value"].mean().unstack()
    )


def count_encoder_parameters(chosen: pd.DataFrame) -> pd.Series:
    """Return each run's number of trained parameters, without the classifier."""
    return chosen["trainable"] - chosen.get("classifier", 0)


def best_of_seeds(chosen: pd.DataFrame) -> pd.DataFrame:
    """Select the unmasked run with the highest dev score for each model, task and method."""
    deciding = drop_runs_with_mask(chosen[~are_external(chosen)]).query("decides")
    best = deciding.sort_values("value", ascending=False, kind="stable")
    return best.drop_duplicates(["model", "task", "method"]).sort_index()


def add_whole_selection(chosen: pd.DataFrame) -> pd.DataFrame:
    """Append runs with the whole selection to each scope, as masked runs with fraction 1."""
    whole = drop_runs_with_mask(chosen)
    ends = [
        whole[whole["method"] == method].assign(scope=scope)
        for (method, scope), curve in select_masked_runs(chosen).groupby(["method", "scope"])
        if not (curve["fraction"] == 1).any()
    ]
    return pd.concat([chosen, *ends], ignore_index=True)


def merge_experiments(chosen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Merge the runs of several experiments on the largest training sets into one table.

    If a method was run on a task in several experiments, only the runs of the experiment with the
    highest score are kept, separately for each metric.
    """
    tables = [table.assign(experiment=number) for number, table in enumerate(chosen)]
    together = select_largest_training_set(pd.concat(tables, ignore_index=True))
    cells = ["model", "task", "metric", *METHOD]
    best = choose_best(together, cells, together["experiment"])
    return best.drop(columns="experiment")


def are_external(chosen: pd.DataFrame) -> pd.Series:
    """Return, for each row, whether it describes external predictions."""
    return chosen["encoder_size"].isna()


def title_with_mask(row: Mapping[str, Any]) -> str:
    """Format a method's title, with the fraction and scope of its mask if it has one."""
    scope = None if pd.isna(row["scope"]) else row["scope"]
    return masked_name(method_title(row["method"]), row["fraction"], scope)


def read_learning_curves(scores: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Read ``epoch``, ``train_loss``, ``metric`` and ``score`` of each run's epochs."""
    rows = []
    for run in scores[scores["decides"]].drop_duplicates("run").to_dict("records"):
        split = records.read_spec(store, run["run"]).tokens.data.task.evaluation[0]
        rows += [
            {"run": run["run"], "epoch": epoch["epoch"], "train_loss": epoch["train_loss"]}
            | {"metric": run["metric"], "score": epoch[f"{split}/{run['metric']}"]}
            for epoch in records.read_epochs(store, run["run"])
        ]
    return pd.DataFrame(rows)


def add_curve_verdicts(chosen: pd.DataFrame, store: Path, margin: float) -> pd.DataFrame:
    """Add the column ``curve`` with the `curve_verdict` of each setting that did not diverge.

    A scorer has a unit of its own, so with few seeds, changes by less than the margin do not count.
    """
    verdict_of: dict[str, str | None] = {}
    deciding = chosen[chosen["decides"]].dropna(subset=["value"])
    for _, runs in deciding.groupby(SETTING, sort=False, dropna=False):
        split = records.read_spec(store, runs["run"].iloc[0]).tokens.data.task.evaluation[0]
        curve = f"{split}/{runs['metric'].iloc[0]}"
        scores = [records.read_curve(store, run, curve) for run in runs["run"]]
        predicted = records.read_recorded_predictions(store, runs["run"].iloc[0])
        rows = records.count_examples(predicted, split)
        noise = margin if is_scorer(runs["metric"].iloc[0]) else None
        verdict_of |= dict.fromkeys(runs["run"], curve_verdict(scores, rows, noise))
    return chosen.assign(curve=chosen["run"].map(verdict_of))


def curve_verdict(
    curves: Sequence[Sequence[float]], rows: int, noise: float | None = None
) -> str | None:
    """Return the verdict on a method's learning curve, or None if there is only one epoch.

    * *Still rising*: the last epoch is the best one, and the score rose over the last third of the
      epochs.
    * *Fell*: the best epoch is before the last third, and the score fell afterwards.
    * *Converged*: neither of the above.

    The curve is averaged over seeds. Changes within the noise do not count. The noise is Student's
    95 % interval over seeds or, with fewer than `FEWEST_SEEDS` seeds, the given ``noise``, which by
    default is the standard error of an accuracy of 0.5 on ``rows`` examples. ``curves`` has the
    scores of each seed, aligned at the last epoch.
    """
    epochs = min(map(len, curves))
    if epochs < 2:
        return None
    scores = np.array([curve[-epochs:] for curve in curves])
    third = max(1, epochs // 3)
    best, last = int(scores.mean(0).argmax()), scores[:, -1]
    if best == epochs - 1 and _exceeds_noise(last - scores[:, -1 - third], rows, noise):
        return STILL_RISING
    if best < epochs - third and _exceeds_noise(scores[:, best] - last, rows, noise):
        return FELL
    return CONVERGED


def _exceeds_noise(changes: np.ndarray, rows: int, noise: float | None) -> bool:
    noise = 0.5 / math.sqrt(rows) if noise is None else noise
    if len(changes) >= FEWEST_SEEDS:
        error = changes.std(ddof=1) / math.sqrt(len(changes))
        noise = student_quantile((1 + LEVEL) / 2, len(changes) - 1) * error
    return bool(changes.mean() > noise)
