"""Differences of scores by the number of training rows."""

from typing import Literal

import pandas as pd

from subtune.analysis.statistics.parameters import rank_correlation
from subtune.analysis.statistics.scores import CELL, NOTHING, minus


def minus_on_rows(
    sizes: pd.DataFrame, metric: str | None, end: Literal["min", "max"], first: str, second: str
) -> pd.Series:
    """Return `minus` of the runs on the smallest or on the largest number of training rows.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        metric: the metric of the scores; without it the one that each task's runs are chosen by.
    """
    rows = _with_several_sizes(sizes, metric)
    at_end = rows.groupby(["model", "column"])["train_rows"].transform(end)
    rows = rows[rows["train_rows"] == at_end]
    return NOTHING if rows.empty else minus(rows, first, second)


def minus_by_rows(sizes: pd.DataFrame, metric: str | None, first: str, second: str) -> pd.Series:
    """Return the rank correlation of the number of training rows and `minus`, per cell."""
    rows = _with_several_sizes(sizes, metric)
    differences = {n: minus(same, first, second) for n, same in rows.groupby("train_rows")}
    differences = {number: cells for number, cells in differences.items() if len(cells)}
    if not differences:
        return NOTHING
    of_cell = pd.concat(differences, names=["train_rows"]).groupby(level=CELL)
    return of_cell.apply(
        lambda cell: rank_correlation(cell.index.get_level_values("train_rows"), cell)
    ).dropna()


def _with_several_sizes(sizes: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Return scores in one metric of models and columns with several numbers of training rows."""
    rows = sizes[sizes["decides"] if metric is None else sizes["metric"] == metric]
    return rows[rows.groupby(["model", "column"])["train_rows"].transform("nunique") > 1]
