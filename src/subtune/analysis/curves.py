"""Learning curves, and verdicts on them."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.analysis.columns import SETTING
from subtune.runs import records
from subtune.tasks.task import ScoreColumn

CONVERGED, STILL_RISING, FELL = "converged", "still rising", "fell"
FEWEST_SEEDS = 3
LEVEL = 0.95


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
