"""The tasks' metrics, kept here, so that none is ever fetched.

`of_tasks` has them for ``evaluate.load``. Jobs compute them directly: `evaluate` imports all of
transformers' pipelines, which takes longer than most jobs.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

CORRELATIONS = ("pearsonr", "spearmanr")
# From -1 to 1, and undefined where all labels are the same.
COEFFICIENTS = (*CORRELATIONS, "matthews_correlation")
MODULE = Path(__file__).parent / "of_tasks"


def compute_all(
    names: Iterable[str], predictions: np.ndarray, labels: Sequence | np.ndarray
) -> dict[str, float]:
    """Some metrics of predicted classes or numbers, each ``[u]``, by name.

    A correlation that is undefined because every prediction is the same counts as 0: such a model
    has learnt nothing.
    """
    # Scikit-learn takes a second to import.
    from subtune.tasks.metrics.functions import compute

    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            value = compute(name, predictions, labels)
            scores[name] = 0.0 if math.isnan(value) else value
    return scores
