"""The generalisation gap: a method's score on its training rows minus its dev score."""

import pandas as pd

from subtune.analysis.scores import whole_methods


def train_and_dev(chosen: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return train and dev scores of the runs that were scored on their training rows.

    Args:
        trained: ``run``, and one column per metric.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``,
        ``gap``, one row per run and column of the tables.
    """
    both = whole_methods(chosen).merge(trained, on="run")
    both["train"] = [row[row["metric"]] for _, row in both.iterrows()]
    both = both.rename(columns={"value": "dev"})
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]
