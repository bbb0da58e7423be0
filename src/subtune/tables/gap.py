"""The generalisation gap as a table."""

from collections.abc import Sequence

import pandas as pd

from subtune.analysis.columns import Column
from subtune.methods import title_of
from subtune.tables.writing import cell


def generalisation_gap(scores: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Train score, dev score and their difference per model and method, task by task.

    Args:
        scores: from `subtune.analysis.gap.train_and_dev`.
        columns: the tasks' columns.
    """
    rows = []
    for (model, method), rows_of_method in scores.groupby(["model", "method"], sort=False):
        for name in ("train", "dev", "gap"):
            values = [rows_of_method.loc[rows_of_method["column"] == c.key, name] for c in columns]
            rows.append([model, title_of(method), name, *(cell(value) for value in values)])
    return pd.DataFrame(rows, columns=["model", "method", "score", *(c.title for c in columns)])
