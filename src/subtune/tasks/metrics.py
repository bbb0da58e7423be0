"""The metrics of all kinds of tasks, computed without downloads.

Answers are compared as in section 6.1 of Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine
Comprehension of Text" (2016), and in the published evaluation script of SQuAD v1.1. Shapes: ``u``
examples or words, ``o`` label words.
"""

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODULE = Path(__file__).with_name("evaluate_metric.py")
# Only ASCII punctuation is removed. Other quotation marks and dashes are kept.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


class Metric(NamedTuple):
    """A metric's title in tables, and a function of predictions and references."""

    title: str
    compute: Callable[[Sequence, Sequence], float]


def accuracy(predictions: Sequence, labels: Sequence) -> float:
    """Compute the share of correctly predicted labels ``[u]``, or sets of labels ``[u, o]``."""
    equal = np.asarray(labels, int) == np.asarray(predictions, int)
    return float(np.mean(equal.all(axis=1) if equal.ndim > 1 else equal))


def sklearn_metric(name: str, **settings: Any) -> Callable[[Sequence, Sequence], float]:
    """Return scikit-learn's metric ``name`` as a function of predictions and labels."""

    def compute(predictions: Sequence, labels: Sequence) -> float:
        from sklearn import metrics

        function = getattr(metrics, name)
        return float(function(np.asarray(labels, int), np.asarray(predictions, int), **settings))

    return compute


def make_f1(average: str) -> Callable[[Sequence, Sequence], float]:
    """Return a function that computes F1, which is 0 without positive predictions and labels.

    If ``average`` is ``binary``, this is the F1 of class 1; if it is ``macro``, the mean over
    classes. For sets of labels ``[u, o]``, ``macro`` is the mean over labels, and ``micro`` is the
    F1 over all cells.
    """
    return sklearn_metric("f1_score", average=average, zero_division=0.0)


def correlation(name: str) -> Callable[[Sequence, Sequence], float]:
    """Return SciPy's correlation, which is NaN for constant predictions or a single example."""

    def compute(predictions: Sequence, labels: Sequence) -> float:
        from scipy import stats

        if len(predictions) < 2:
            return math.nan
        function = getattr(stats, name)
        return float(function(np.asarray(predictions, float), np.asarray(labels, float))[0])

    return compute


def normalise_answer(text: str) -> str:
    """Convert a text to lower case, and remove punctuation, articles and repeated spaces.

    Punctuation is removed first, and is not replaced by a space. Therefore "well-known" becomes one
    word, and the "a" in "a-b" is not treated as an article.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def mean_over_questions(
    score: Callable[[str, Sequence[str]], float],
) -> Callable[[Sequence, Sequence], float]:
    """Average `exact_match` or `word_f1` over pairs of a predicted answer and accepted answers."""
    return lambda predictions, references: float(np.mean([*map(score, predictions, references)]))


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction equals one of the accepted answers after normalisation, else 0."""
    return float(normalise_answer(prediction) in map(normalise_answer, answers))


def word_f1(prediction: str, answers: Sequence[str]) -> float:
    """Compute the F1 between the words of a prediction and those of the most similar answer.

    Repeated words count several times. Without common words, F1 is 0, even if both texts are empty.
    """
    predicted = Counter(normalise_answer(prediction).split())
    best = 0.0
    for answer in answers:
        accepted = Counter(normalise_answer(answer).split())
        if shared := (predicted & accepted).total():
            best = max(best, 2 * shared / (predicted.total() + accepted.total()))
    return best


# Maps each type of compared values to the metrics for this type, by name. Sets of labels are
# compared as 0/1 arrays, and answers as text.
METRICS = {
    "classes": {
        "accuracy": Metric("accuracy", accuracy),
        "f1": Metric("F1", make_f1("binary")),
        "f1_macro": Metric("macro F1", make_f1("macro")),
        "matthews_correlation": Metric("Matthews correlation", sklearn_metric("matthews_corrcoef")),
    },
    "label_sets": {
        "f1_micro": Metric("micro F1", make_f1("micro")),
        "f1_macro": Metric("macro F1", make_f1("macro")),
        "accuracy": Metric("accuracy", accuracy),
    },
    "numbers": {
        "pearsonr": Metric("Pearson correlation", correlation("pearsonr")),
        "spearmanr": Metric("Spearman correlation", correlation("spearmanr")),
    },
    "answers": {
        "exact_match": Metric("exact match", mean_over_questions(exact_match)),
        "f1": Metric("F1", mean_over_questions(word_f1)),
    },
}
TITLES = {name: metric.title for table in METRICS.values() for name, metric in table.items()}
# Coefficients between -1 and 1, which are undefined if all references are equal.
COEFFICIENTS = frozenset({"matthews_correlation", "pearsonr", "spearmanr"})


def is_scorer(name: str) -> bool:
    """Return whether a metric is a scorer of scikit-learn or of the user, and not built in."""
    return name not in TITLES


def metric_title(name: str) -> str:
    """Return a metric's title in tables and figures."""
    words = name.rpartition(":")[2].replace("_", " ").replace("roc auc", "ROC AUC")
    return TITLES.get(name, words.replace("neg ", "negative "))


def compute_metrics(
    value_type: str, names: Iterable[str], predictions: Sequence, references: Sequence
) -> dict[str, float]:
    """Compute several metrics for values of ``value_type``, a key of `METRICS`.

    Undefined correlations are 0: a model with constant predictions has learnt nothing.
    """
    with warnings.catch_warnings(action="ignore"):
        scores = {
            name: METRICS[value_type][name].compute(predictions, references) for name in names
        }
    return {name: 0.0 if math.isnan(score) else score for name, score in scores.items()}
