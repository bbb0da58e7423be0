"""Statistics that only SPAFIT's claims need."""

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Return, per model, task and method, the log ratio of a family's best learning rate to
    ``learning_rate``."""
    return np.log(best_rates(chosen, methods) / learning_rate)
