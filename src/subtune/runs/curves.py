"""Verdicts on learning curves: a method has converged, is still rising, or fell.

*Still rising*: the last epoch is the best, and the score has risen over the last third of the
epochs. *Fell*: the best epoch is before the last third, and the score has fallen since.
*Converged*: neither. A change counts if it exceeds its noise. From `FEWEST_SEEDS` seeds on, this
means that its 95 % interval (Student's, over seeds) is on one side of 0. With fewer seeds, noise is
the standard error of an accuracy of a half on so many rows.
"""

import math
from collections.abc import Sequence

import numpy as np

CONVERGED, STILL_RISING, FELL = "converged", "still rising", "fell"
FEWEST_SEEDS = 3
LEVEL = 0.95


def verdict(curves: Sequence[Sequence[float]], rows: int) -> str | None:
    """Return the verdict on the mean curve of a method's seeds; none with a single epoch.

    Args:
        curves: the score of each epoch, by seed. Curves of different lengths are aligned at their
            last epochs, and earlier epochs that a curve lacks are left out.
        rows: the number of rows that are scored.
    """
    epochs = min(map(len, curves))
    if epochs < 2:
        return None
    scores = np.array([curve[-epochs:] for curve in curves])
    third = max(1, epochs // 3)
    best, last = int(scores.mean(0).argmax()), scores[:, -1]
    if best == epochs - 1 and _exceeds_noise(last - scores[:, -1 - third], rows):
        return STILL_RISING
    if best < epochs - third and _exceeds_noise(scores[:, best] - last, rows):
        return FELL
    return CONVERGED


def _exceeds_noise(changes: np.ndarray, rows: int) -> bool:
    """Return whether the mean change is more than noise; ``changes`` has one number per seed."""
    noise = 0.5 / math.sqrt(rows)
    if len(changes) >= FEWEST_SEEDS:
        # Importing scipy takes long.
        from scipy import stats

        noise = stats.t.ppf((1 + LEVEL) / 2, len(changes) - 1) * stats.sem(changes)
    return bool(changes.mean() > noise)
