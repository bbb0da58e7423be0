"""Metrics of predicted classes or numbers, each from predictions and labels ``[u]``.

Scikit-learn and scipy take a second to import, so that each function imports what it needs.
"""

from collections.abc import Sequence

import numpy as np


def accuracy(predictions: Sequence, labels: Sequence) -> float:
    """Return the share of labels that are predicted."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(np.asarray(labels, int), np.asarray(predictions, int)))


def f1(predictions: Sequence, labels: Sequence, average: str = "binary") -> float:
    """Return F1 of class 1, or the ``macro`` average over every class that is predicted or found.

    It is 0 where nothing was predicted or found.
    """
    from sklearn.metrics import f1_score

    classes, expected = np.asarray(predictions, int), np.asarray(labels, int)
    return float(f1_score(expected, classes, average=average, zero_division=0.0))


def matthews_correlation(predictions: Sequence, labels: Sequence) -> float:
    """Return Matthews correlation, or 0 where only one class is predicted."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(np.asarray(labels, int), np.asarray(predictions, int)))


def pearsonr(predictions: Sequence, labels: Sequence) -> float:
    """Return Pearson's correlation, or NaN where all predictions are the same."""
    from scipy import stats

    return float(stats.pearsonr(np.asarray(predictions, float), np.asarray(labels, float))[0])


def spearmanr(predictions: Sequence, labels: Sequence) -> float:
    """Return Spearman's rank correlation, or NaN where all predictions are the same."""
    from scipy import stats

    return float(stats.spearmanr(np.asarray(predictions, float), np.asarray(labels, float))[0])
