"""Train and dev scores."""

import pandas as pd

from subtune.analysis.statistics.cells import CELL, NOTHING


def gap_minus(scores: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Generalisation gap of one method minus another's."""
    wide = scores.groupby([*CELL, "method"])["gap"].mean().unstack()
    if not {first, second} <= set(wide.columns):
        return NOTHING
    return (wide[first] - wide[second]).dropna()


def gap_under(scores: pd.DataFrame, method: str, limit: float) -> pd.Series:
    """By how much a method's generalisation gap is under a limit."""
    rows = scores[scores["method"] == method]
    return (limit - rows.groupby(CELL)["gap"].mean()).dropna()


def train_minus(scores: pd.DataFrame, method: str, level: float) -> pd.Series:
    """A method's score on its training rows minus a level."""
    rows = scores[scores["method"] == method].dropna(subset=["gap"])
    return (rows.groupby(CELL)["train"].mean() - level).dropna()
