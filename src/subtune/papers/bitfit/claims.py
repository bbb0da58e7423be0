"""Statistics that only BitFit's claims need."""

from itertools import combinations

import numpy as np
import pandas as pd

from subtune.analysis.scores import whole_methods
from subtune.analysis.statistics import (
    CELL,
    FEWEST_PAIRS,
    NOTHING,
    best_rates,
    match_names,
    mean_changes,
    method_scores,
    minus,
    rank_correlation,
)


def spread_minus(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return the standard deviation over seeds of one method minus that of another.

    `minus` does not fit: it compares means.
    """
    wide = method_scores(chosen).reindex(columns=[first, second])
    spread = wide.dropna().groupby(level=["model", "column"]).std()
    return (spread[first] - spread[second]).dropna()


def agreement_of_models(chosen: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return, for each pair of models, the rank correlation of their `minus` over columns.

    `minus` does not fit: the claim is about the likeness of models.
    """
    wide = minus(chosen, first, second).groupby(level=["model", "column"]).mean().unstack("model")
    pairs = {f"{a}, {b}": wide[[a, b]].dropna() for a, b in combinations(wide, 2)}
    return pd.Series(
        {name: rank_correlation(*both.T.to_numpy()) for name, both in pairs.items()}, dtype=float
    ).rename_axis("pair")


def minus_by_task_size(
    chosen: pd.DataFrame, train_rows: pd.DataFrame, first: str, second: str
) -> pd.Series:
    """Return, per model and seed, how `minus` correlates with training rows over tasks (by rank).

    `minus_by_rows` does not fit: each task has one number of training rows here.

    Args:
        train_rows: ``task`` and ``rows``.
    """
    deciding = chosen[chosen["decides"]]
    rows = train_rows.set_index("task")["rows"]
    task_of = deciding.drop_duplicates("column").set_index("column")["task"]
    wide = minus(deciding, first, second).unstack("column")
    sizes = rows.reindex(task_of.reindex(wide.columns)).to_numpy()
    has_rows = ~np.isnan(sizes)
    if has_rows.sum() < FEWEST_PAIRS:
        return NOTHING
    known = wide.loc[:, has_rows].dropna()
    return known.apply(lambda row: rank_correlation(sizes[has_rows], row), axis=1)


def change_beside_others(changes: pd.DataFrame, method: str, name: str, others: str) -> pd.Series:
    """Return, per model and task, a parameter's change divided by the mean change of others.

    `changes_to_largest_other` does not fit: a change of 0 has no logarithm.
    """
    means = mean_changes(changes, method)
    compared = [other for other in match_names(means, others) if other != name]
    if name not in means or not compared:
        return NOTHING
    return (means[name] / means[compared].mean(axis=1)).dropna()


def measure_minus(
    table: pd.DataFrame, measure: str, first: str | float, second: str | float
) -> pd.Series:
    """Return a method's values of a column minus those of another method.

    Diverged runs are left out. `minus` does not fit: it compares scores, and only methods.

    Args:
        measure: the column, such as ``gap``.
        first: a method, or a number.
        second: like ``first``.
    """
    if measure not in table:
        return NOTHING
    if "decides" in table:
        rows = whole_methods(table[table["decides"]])
    else:
        rows = table.dropna(subset="gap")
    wide = rows.groupby([*CELL, "method"])[measure].mean().unstack()
    wide = wide.reindex(columns=[side for side in (first, second) if isinstance(side, str)])
    left, right = (wide[side] if isinstance(side, str) else side for side in (first, second))
    return pd.Series(left - right).dropna()


def rate_to_printed(chosen: pd.DataFrame, printed: pd.DataFrame, method: str) -> pd.Series:
    """Return the log ratio of a method's best learning rates to the printed ones of the same model.

    `minus_printed` does not fit: it compares scores.
    """
    ours, papers = best_rates(chosen, method), best_rates(printed, method)
    return NOTHING if ours.empty or papers.empty else np.log(ours / papers).dropna()
