"""What was chosen, and what it trains."""

import numpy as np
import pandas as pd

from subtune.analysis.scores import trained_beside_classifier, whole_methods
from subtune.analysis.statistics.cells import CELL, NOTHING, matching


def parameters_of_families(
    chosen: pd.DataFrame, first: str, second: str, share: float
) -> pd.Series:
    """Log of a share of the fewest parameters of one family to the most of another, per task.

    The claim that the second trains fewer holds where even its largest method does.
    """
    if "trainable" not in chosen:
        return NOTHING
    rows = whole_methods(chosen)
    rows = rows.assign(count=trained_beside_classifier(rows))
    counts = rows.groupby(["model", "task", "method"])["count"].max().unstack()
    smallest = counts[matching(counts, first)].min(axis=1)
    largest = counts[matching(counts, second)].max(axis=1)
    return np.log(share * smallest / largest).dropna()


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Log of a family's best learning rates to this one, per model, task and method."""
    return np.log(_rates(chosen, methods) / learning_rate)


def rate_to_printed(chosen: pd.DataFrame, printed: pd.DataFrame, method: str) -> pd.Series:
    """Log of a method's best learning rates to those that a paper prints of the same model."""
    ours, papers = _rates(chosen, method), _rates(printed, method)
    return NOTHING if ours.empty or papers.empty else np.log(ours / papers).dropna()


def _rates(chosen: pd.DataFrame, methods: str) -> pd.Series:
    if "learning_rate" not in chosen:
        return NOTHING
    rows = whole_methods(chosen).dropna(subset=["learning_rate"])
    rows = rows[np.isfinite(rows["value"])]
    rows = rows[rows["method"].isin(matching(rows["method"].unique(), methods))]
    return rows.groupby(["model", "task", "method"])["learning_rate"].first()


def epochs_before(chosen: pd.DataFrame, method: str, epochs: int) -> pd.Series:
    """How many epochs before this one a method's best was."""
    if "best_epoch" not in chosen:
        return NOTHING
    rows = whole_methods(chosen[chosen["decides"]])
    rows = rows[(rows["method"] == method) & np.isfinite(rows["value"])]
    return epochs - rows.groupby(CELL)["best_epoch"].mean()
