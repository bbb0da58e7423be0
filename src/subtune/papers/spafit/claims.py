"""Statistics that only SPAFIT's claims need."""

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates, rounded_families


def worst_minus(chosen: pd.DataFrame, first: str, second: str, digits: int) -> pd.Series:
    """Return the worst score of one family minus the best of another, like `best_minus`."""
    firsts, seconds = rounded_families(chosen, first, second, digits)
    return (firsts.min(axis=1) - seconds.max(axis=1)).round(digits).dropna()


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Return, per model, task and method, the log ratio of a family's best learning rates to
    ``rate``."""
    return np.log(best_rates(chosen, methods) / learning_rate)
