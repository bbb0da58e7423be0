"""How much parameters change."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from subtune.analysis.statistics.cells import (
    FEWEST_PAIRS,
    NOTHING,
    matching,
    method_scores,
    rank_correlation,
    to_largest_other,
)


def change_to_largest_other(changes: pd.DataFrame, component: str) -> pd.Series:
    """Log of a component's mean |change| over layers to the largest other one's, per task."""
    means = changes.groupby(["task", "component"])["change"].mean().unstack()
    return to_largest_other(means, component, ())


def _changes_of(changes: pd.DataFrame, method: str) -> pd.DataFrame:
    """A method's changes, means over layers: a row per model and task, a column per parameter."""
    rows = changes[changes["method"] == method]
    return rows.groupby(["model", "task", "parameter"])["change"].mean().unstack()


def changes_to_largest_other(
    changes: pd.DataFrame, method: str, names: Sequence[str], others: str
) -> pd.Series:
    """Log of the smallest change of some parameters to the largest of others, per model and task.

    ``others``: what the names of those begin with.
    """
    means = _changes_of(changes, method)
    compared = [name for name in matching(means, others) if name not in names]
    if not set(names) <= set(means) or not compared:
        return NOTHING
    return np.log(means[list(names)].min(axis=1) / means[compared].max(axis=1)).dropna()


def change_beside_others(changes: pd.DataFrame, method: str, name: str, others: str) -> pd.Series:
    """A parameter's change as a share of the mean of others', per model and task."""
    means = _changes_of(changes, method)
    compared = [other for other in matching(means, others) if other != name]
    if name not in means or not compared:
        return NOTHING
    return (means[name] / means[compared].mean(axis=1)).dropna()


def change_and_score(
    changes: pd.DataFrame,
    chosen: pd.DataFrame,
    method: str,
    parts: Mapping[str, Sequence[str]],
) -> pd.Series:
    """Rank correlation of how much parameters change and of what they score when trained alone.

    Args:
        changes: from `subtune.analysis.changes.changes_of_methods`.
        chosen: the runs of the best learning rates.
        method: the method whose changes are compared, which trains all these parameters.
        parts: method to the parameters that it trains.

    Returns:
        One number per model, task whose changes there are, and seed of the scores, which are means
        over tasks; with the sign turned, so that a positive correlation is below 0.
    """
    means, scores = _changes_of(changes, method), method_scores(chosen)
    methods = [m for m, names in parts.items() if m in scores and set(names) <= set(means)]
    if len(methods) < FEWEST_PAIRS:
        return NOTHING
    changed = pd.DataFrame({m: means[list(parts[m])].mean(axis=1) for m in methods})
    averages = scores[methods].dropna().groupby(level=["model", "seed"]).mean()
    return pd.Series(
        {
            (model, task, seed): -rank_correlation(row, averages.loc[(model, seed)])
            for (model, task), row in changed.iterrows()
            for seed in averages.index.get_level_values("seed").unique()
            if (model, seed) in averages.index
        },
        dtype=float,
    ).rename_axis(["model", "task", "seed"])
