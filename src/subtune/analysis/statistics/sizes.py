"""Differences of scores by the number of training rows.

``sizes`` are the chosen runs of every number of rows in every metric, from
`subtune.analysis.scores.in_every_metric`. Where a task has a single number of rows there is nothing
to ask.
"""

from typing import Literal

import pandas as pd

from subtune.analysis.statistics.cells import CELL, FEWEST_PAIRS, NOTHING, rank_correlation
from subtune.analysis.statistics.differences import minus


def _with_several_numbers_of_rows(sizes: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Scores in one metric, of those models and columns that have several numbers of rows."""
    rows = sizes[sizes["metric"] == metric]
    return rows[rows.groupby(["model", "column"])["train_rows"].transform("nunique") > 1]


def _minus_at(
    sizes: pd.DataFrame, metric: str, first: str, second: str, end: Literal["min", "max"]
) -> pd.Series:
    rows = _with_several_numbers_of_rows(sizes, metric)
    at_end = rows.groupby(["model", "column"])["train_rows"].transform(end)
    rows = rows[rows["train_rows"] == at_end]
    return NOTHING if rows.empty else minus(rows, first, second)


def minus_on_fewest_rows(sizes: pd.DataFrame, metric: str, first: str, second: str) -> pd.Series:
    """`minus`, of runs on the smallest number of training rows."""
    return _minus_at(sizes, metric, first, second, "min")


def minus_on_most_rows(sizes: pd.DataFrame, metric: str, first: str, second: str) -> pd.Series:
    """`minus`, of runs on the largest number of training rows."""
    return _minus_at(sizes, metric, first, second, "max")


def minus_by_rows(sizes: pd.DataFrame, metric: str, first: str, second: str) -> pd.Series:
    """Rank correlation of the number of training rows and `minus`, per model, column and seed."""
    rows = _with_several_numbers_of_rows(sizes, metric)
    differences = {
        number: minus(same, first, second) for number, same in rows.groupby("train_rows")
    }
    if not any(len(difference) for difference in differences.values()):
        return NOTHING
    wide = pd.concat({n: d for n, d in differences.items() if len(d)}, names=["train_rows"])
    of_cell = wide.groupby(level=CELL)
    enough = of_cell.size() >= FEWEST_PAIRS
    correlations = of_cell.apply(
        lambda cell: rank_correlation(cell.index.get_level_values("train_rows"), cell)
    )
    return correlations[enough].dropna()
