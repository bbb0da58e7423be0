"""Scores of parts of the dev rows, by run, for intervals over rows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.analysis.crossed import PARTS, pseudo_values
from subtune.analysis.recomputation import scored_predictions
from subtune.tasks import metrics
from subtune.tasks.score_columns import ScoreColumn

NUMBERS = [str(part) for part in range(PARTS)]
NO_ROWS = pd.DataFrame(columns=["run", "rows", *NUMBERS])


def row_scores(chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]) -> pd.DataFrame:
    """Return pseudo-values of the scores that judge.

    Runs that diverged are left out, and runs whose recorded predictions are of another epoch, as
    where a paper judges by another metric than the task's first.

    Returns:
        A row per run: ``run``, ``rows`` (how many were scored), and `NUMBERS`, of which the last
        are missing if there are fewer rows.

    Raises:
        SubtuneError: a record cannot be read.
    """
    split_of = {column.key: column.split for column in columns}
    found = []
    judged = chosen[chosen["judges"]].dropna(subset=["value"]).drop_duplicates("run")
    for row in judged.to_dict("records"):
        task, table, best_epoch = scored_predictions(store, row["run"])
        if table is None or best_epoch != row["best_epoch"]:
            continue
        kind, table = task.of_kind, table[table["split"] == split_of[row["column"]]]
        predicted, expected = (_array(units) for units in kind.compared(table))
        score = partial(_score, kind.compares, row["metric"], predicted, expected)
        values, rows = pseudo_values(score, pd.factorize(table["idx"])[0])
        found.append([row["run"], rows, *values, *[np.nan] * (PARTS - len(values))])
    return pd.DataFrame(found, columns=NO_ROWS.columns)


def _score(
    compares: str, metric: str, predicted: np.ndarray, expected: np.ndarray, mask: np.ndarray
) -> float:
    return metrics.compute_all(compares, [metric], predicted[mask], expected[mask])[metric]


def _array(units: Sequence) -> np.ndarray:
    """Return units as an array that a mask can choose from, also where they are lists."""
    if isinstance(units, list):
        return np.fromiter(units, dtype=object, count=len(units))
    return np.asarray(units)
