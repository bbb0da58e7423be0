"""What more labels would add, by the scores of runs on fewer rows.

A method's error is taken to fall as a power of the number of rows (Hestness et al., "Deep Learning
Scaling is Predictable, Empirically", 2017), so that each doubling of the rows adds `RATIO` times as
much as the doubling before. The scores on all numbers of rows give what the next doubling adds by
least squares. This is a weighted sum of scores, so its interval is over the same seeds, folds and
rows as that of a difference of two scores (`subtune.analysis.intervals`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import folds_judge, judged_runs
from subtune.analysis.intervals import Interval
from subtune.analysis.run_scores import PART_COLUMNS

# What a doubling of the rows adds, as a share of what the doubling before has added.
RATIO = 0.8
# The widest half of an interval with which a sentence says what more labels would add.
WIDEST = 0.05


def estimate_gains(best: pd.DataFrame, row_scores: pd.DataFrame) -> pd.DataFrame:
    """Return each method's scores by number of training rows, and what twice as many would add.

    Args:
        best: the runs at their best learning rates, on all numbers of training rows.
        row_scores: from `subtune.analysis.run_scores.row_scores`, for all of these runs.

    Returns:
        A row for each task, method and number of rows, of methods with several numbers that
        include the largest: ``task``, ``method``, ``train_rows``, ``score`` (the mean over the
        seeds and folds that have all numbers); and in the row of the largest number ``gain``,
        what twice as many rows would add, with the ends of its interval, ``low`` and ``high``.
    """
    pseudo_values, found = row_scores.set_index("run")[PART_COLUMNS], list[pd.DataFrame]()
    rows_of_runs = row_scores.set_index("run")["rows"]
    judged = judged_runs(best).dropna(subset=["value"])
    judged = judged[judged["scope"].isna() & judged["run"].isin(row_scores["run"])]
    largest = judged.groupby("task")["train_rows"].max()
    for (task, title), runs in judged.groupby(["task", "title"], sort=False):
        every = runs.assign(fold=runs["fold"].fillna(-1)).drop_duplicates(
            ["seed", "fold", "train_rows"]
        )
        table = every.pivot(index=["seed", "fold"], columns="train_rows", values=["value", "run"])
        table = table.dropna()
        numbers = [*table["value"].columns]
        if len(numbers) < 2 or table.empty or numbers[-1] < largest[task]:
            continue
        weights = weigh_scores(numbers)
        gains = table["value"].to_numpy(float) @ weights
        values = np.tensordot(weights, [pseudo_values.loc[table["run"][n]] for n in numbers], 1)
        folds = table.index.get_level_values("fold").nunique() if folds_judge(runs) else 0
        counts = rows_of_runs.loc[table["run"][numbers[-1]]]
        gain = _interval(gains.tolist(), values, counts.to_numpy(), folds)
        scores = table["value"].astype(float).mean()
        about = {"task": task, "method": title, "train_rows": numbers, "score": scores.to_numpy()}
        last = np.arange(len(numbers)) == len(numbers) - 1
        ends = {"gain": gain.mean, "low": gain.low, "high": gain.high}
        found.append(pd.DataFrame(about | {n: np.where(last, v, np.nan) for n, v in ends.items()}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def weigh_scores(numbers: Sequence[int]) -> np.ndarray:
    """Return the weight of the score on each number of rows in what twice the last would add."""
    doublings = np.log2(np.array(numbers, float) / numbers[-1])
    error = RATIO**doublings
    centred = error.mean() - error
    return (1 - RATIO) * centred / (centred @ centred)


def _interval(gains: Sequence[float], values: np.ndarray, rows: np.ndarray, folds: int) -> Interval:
    """Return the mean gain and its interval.

    Args:
        gains: the gain of each seed or fold.
        values: pseudo-values of the gains, ``[seeds, parts]``.
        rows: the number of rows that score each seed or fold.
        folds: the number of folds; 0 if all seeds are scored on the same rows.
    """
    if folds:
        every = int(rows.sum()) * folds // len(rows)
        study = intervals.estimate_nested_study(gains, values, every, folds)
    else:
        known = np.isfinite(values).all(0)
        study = intervals.estimate_study(gains, values[:, known], int(rows[0]))
    return intervals.mean_interval([study])
