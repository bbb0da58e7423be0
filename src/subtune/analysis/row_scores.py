"""Scores of parts of the dev rows, by run, for intervals over rows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.analysis.crossed import PARTS, pseudo_values
from subtune.analysis.judged_apart import assembled, predictions_by_epoch, scorer
from subtune.analysis.scores import epochs_of
from subtune.tasks.score_columns import ScoreColumn

NUMBERS = [str(part) for part in range(PARTS)]
NO_ROWS = pd.DataFrame(columns=["run", "rows", *NUMBERS])


def row_scores(chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]) -> pd.DataFrame:
    """Return pseudo-values of the scores that judge, each part of the rows at its epoch.

    Runs that diverged are left out, and records of earlier versions that lack the predictions of
    this epoch, as where a paper judges by another metric than the task's first.

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
        task, tables = predictions_by_epoch(store, row["run"], split_of[row["column"]])
        epochs = epochs_of(row["judged_at"])
        if not tables.keys() >= set(epochs):
            continue
        table = assembled(tables, epochs)
        score = scorer(task, row["metric"], table)
        values, rows = pseudo_values(score, pd.factorize(table["idx"])[0])
        found.append([row["run"], rows, *values, *[np.nan] * (PARTS - len(values))])
    return pd.DataFrame(found, columns=NO_ROWS.columns)
