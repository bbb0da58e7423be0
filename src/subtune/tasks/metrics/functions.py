"""One metric of predicted classes or numbers, by its name."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

# Of classes: labels, then predictions. F1 is of class 1, its macro average of every class there is,
# and 0 where nothing was predicted or found; Matthews correlation is 0 where one class only is
# predicted.
OF_CLASSES: dict[str, Callable[..., float]] = {
    "accuracy": accuracy_score,
    "f1": lambda labels, classes: f1_score(labels, classes, zero_division=0.0),
    "f1_macro": lambda labels, classes: f1_score(
        labels, classes, average="macro", zero_division=0.0
    ),
    "matthews_correlation": matthews_corrcoef,
}
# Of numbers; not a number where all predictions are the same.
OF_NUMBERS = {"pearsonr": pearsonr, "spearmanr": spearmanr}


def compute(name: str, predictions: np.ndarray | Sequence, labels: np.ndarray | Sequence) -> float:
    """A metric of predictions and labels, each ``[u]``."""
    if name in OF_CLASSES:
        return float(OF_CLASSES[name](np.asarray(labels, int), np.asarray(predictions, int)))
    numbers = np.asarray(predictions, float)
    return float(OF_NUMBERS[name](numbers, np.asarray(labels, float)).statistic)
