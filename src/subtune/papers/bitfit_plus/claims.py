"""Statistics that only BitFit+'s claims need."""

from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.analysis.statistics import (
    FEWEST_PAIRS,
    NOTHING,
    changes_of,
    method_scores,
    minus_printed,
    rank_correlation,
)


def distance_to_printed(
    chosen: pd.DataFrame, printed: pd.DataFrame, pairs: Mapping[str, str], exhibit: str, split: str
) -> pd.Series:
    """Return the absolute value of `minus_printed`, so that differences do not cancel."""
    return minus_printed(chosen, printed, pairs, exhibit, split).abs()


def change_and_score(
    changes: pd.DataFrame, chosen: pd.DataFrame, method: str, parts: Mapping[str, Sequence[str]]
) -> pd.Series:
    """Return the rank correlation of parameters' changes and their scores when trained alone.

    Args:
        method: the method whose changes are compared; it trains all these parameters.
        parts: the parameters that each method trains.

    Returns:
        One number per model, task with changes, and seed of the scores, which are means over tasks.
        The sign is reversed: a positive correlation is below 0.
    """
    means, scores = changes_of(changes, method), method_scores(chosen)
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
