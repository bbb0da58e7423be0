"""Statistics that only the LayerNorm paper's claims need."""

import pandas as pd

from subtune.analysis.statistics import fraction_minus_whole, minus


def minus_on_both(dev: pd.DataFrame, test: pd.DataFrame, first: str, second: str) -> pd.Series:
    """Return `minus` of dev scores and of test scores."""
    both = {"dev": minus(dev, first, second), "test": minus(test, first, second)}
    return pd.concat(both, names=["split"])


def bias_minus_weight(layers: pd.DataFrame) -> pd.Series:
    """Return the biases' share of a task's LayerNorm information minus the weights' share.

    Layers with a missing part are left out.
    """
    parts = layers.pivot(index=["task", "layer"], columns="part", values="share")
    # Norms of some models have no biases.
    parts = parts.reindex(columns=["weight", "bias"]).dropna()
    shares = parts.groupby(level="task").sum()
    return shares["bias"] - shares["weight"]


def whole_minus_fraction(
    chosen: pd.DataFrame, method: str, scope: str, fraction: float
) -> pd.Series:
    """Return `fraction_minus_whole` with the opposite sign."""
    return -fraction_minus_whole(chosen, method, scope, fraction)
