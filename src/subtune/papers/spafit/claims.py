"""Statistics that only SPAFIT's claims need."""

import numpy as np
import pandas as pd

from subtune.analysis.statistics import best_rates


def rate_to(chosen: pd.DataFrame, methods: str, learning_rate: float) -> pd.Series:
    """Return the log ratio of best learning rates to ``learning_rate``, per model, task and method.

    No shared statistic fits: they compare scores or numbers of parameters.
    """
    return np.log(best_rates(chosen, methods) / learning_rate)
