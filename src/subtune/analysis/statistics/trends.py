"""How differences of scores go with other things: from model to model, with a task's rows."""

from itertools import combinations

import numpy as np
import pandas as pd

from subtune.analysis.statistics.cells import FEWEST_PAIRS, NOTHING, rank_correlation
from subtune.analysis.statistics.differences import minus


def agreement_of_models(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Rank correlation over columns of `minus`, between each pair of models."""
    wide = minus(chosen, first, second).groupby(level=["model", "column"]).mean().unstack("model")
    pairs = {f"{a}, {b}": wide[[a, b]].dropna() for a, b in combinations(wide, 2)}
    return pd.Series(
        {name: rank_correlation(*both.T.to_numpy()) for name, both in pairs.items()}, dtype=float
    ).rename_axis("pair")


def minus_by_size(
    chosen: pd.DataFrame, train_rows: pd.DataFrame, first: str, second: str
) -> pd.Series:
    """Rank correlation over tasks of the number of training rows and `minus`, per model and seed.

    Args:
        chosen: the runs of the best learning rates.
        train_rows: ``task`` and ``rows``.
        first, second: methods.
    """
    deciding = chosen[chosen["decides"]]
    rows = train_rows.set_index("task")["rows"]
    task_of = deciding.drop_duplicates("column").set_index("column")["task"]
    wide = minus(deciding, first, second).unstack("column")
    sizes = rows.reindex(task_of.reindex(wide.columns)).to_numpy()
    has_rows = ~np.isnan(sizes)
    if has_rows.sum() < FEWEST_PAIRS:
        return NOTHING
    return (
        wide.loc[:, has_rows]
        .dropna()
        .apply(lambda row: rank_correlation(sizes[has_rows], row), axis=1)
    )
