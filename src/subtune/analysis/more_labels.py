"""Estimate the gain from more labels, based on scores after training on fewer examples.

A method's error is assumed to fall as a power of the number of training examples (Hestness et al.,
"Deep Learning Scaling is Predictable, Empirically", 2017). Therefore each doubling of the training
set raises the score by `RATIO` times the gain of the previous doubling. The gain is estimated by a
least-squares fit to the scores at all training-set sizes. It is a weighted sum of scores, so its
interval is computed as for a difference of two scores (`subtune.analysis.intervals`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import are_scored_on_folds, select_scored_runs
from subtune.analysis.run_scores import PART_COLUMNS, require_same_rows
from subtune.core.errors import join_names, locate_errors

# The gain from doubling the training set, as a share of the gain from the previous doubling.
RATIO = 0.8
# A sentence reports the gain only if half the width of its interval is at most this.
LARGEST_HALF_WIDTH = 0.05


def estimate_gains(best: pd.DataFrame, row_scores: pd.DataFrame) -> pd.DataFrame:
    """Estimate how much each method's score would rise with twice as many training examples.

    ``best`` are the runs on all training set sizes, and ``row_scores`` their pseudo-values. Methods
    without runs on several sizes, including the largest, are left out. ``score`` is the mean over
    the seeds and folds that have runs on all sizes; ``gain``, ``low`` and ``high`` are NaN except
    for the largest size.
    """
    by_run, found = row_scores.set_index("run"), list[pd.DataFrame]()
    pseudo_values, rows_of_runs = by_run[PART_COLUMNS], by_run["rows"]
    judged = select_scored_runs(best).dropna(subset=["value"])
    judged = judged[judged["scope"].isna() & judged["run"].isin(row_scores["run"])]
    largest = judged.groupby("task")["train_rows"].max()
    for (task, title), runs in judged.groupby(["task", "title"], sort=False):
        every = runs.assign(fold=runs["fold"].fillna(-1))
        every = every.drop_duplicates(["seed", "fold", "train_rows"])
        table = every.pivot(index=["seed", "fold"], columns="train_rows", values=["value", "run"])
        table = table.dropna()
        numbers = [*table["value"].columns]
        if len(numbers) < 2 or table.empty or numbers[-1] < largest[task]:
            continue
        with locate_errors(f"{title} with {join_names(map(str, numbers))} training examples"):
            for number in numbers:
                require_same_rows(by_run, table["run"][number], table["run"][numbers[-1]])
        weights = compute_gain_weights(numbers)
        gains = table["value"].to_numpy(float) @ weights
        values = np.tensordot(weights, [pseudo_values.loc[table["run"][n]] for n in numbers], 1)
        folds = table.index.get_level_values("fold").nunique() if are_scored_on_folds(runs) else 0
        counts = rows_of_runs.loc[table["run"][numbers[-1]]].tolist()
        study = intervals.estimate_study_of_runs(gains.tolist(), values, counts, folds)
        gain = intervals.mean_interval([study])
        scores = table["value"].astype(float).mean()
        about = {"task": task, "method": title, "train_rows": numbers, "score": scores.to_numpy()}
        last = np.arange(len(numbers)) == len(numbers) - 1
        ends = {"gain": gain.mean, "low": gain.low, "high": gain.high}
        found.append(pd.DataFrame(about | {n: np.where(last, v, np.nan) for n, v in ends.items()}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def compute_gain_weights(numbers: Sequence[int]) -> np.ndarray:
    """Compute a weight for each size, ascending, so that the weighted sum of scores is the gain."""
    doublings = np.log2(np.array(numbers, float) / numbers[-1])
    error = RATIO**doublings
    centred = error.mean() - error
    return (1 - RATIO) * centred / (centred @ centred)
