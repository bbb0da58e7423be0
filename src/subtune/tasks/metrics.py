"""The tasks' metrics, which are never downloaded.

`evaluate_metric` offers them to ``evaluate.load``. Training jobs compute them directly, because
importing `evaluate` takes longer than most jobs. Functions import scikit-learn and scipy, which
takes a second.

Classes and numbers are compared as predictions and labels ``[u]``. Answers in words are compared as
SQuAD v1.1 compares them: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of
Text" (2016), section 6.1, and the evaluation script that is published with the data.
"""

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MODULE = Path(__file__).with_name("evaluate_metric.py")
# Only ASCII: other quotation marks and dashes are kept.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


class Metric(NamedTuple):
    """A metric: its title in tables, and its function of predictions and references ``[u]``.

    If ``is_coefficient``, it is between -1 and 1, and undefined if all references are equal.
    """

    title: str
    compute: Callable[[Sequence, Sequence], float]
    is_coefficient: bool = False


def accuracy(predictions: Sequence, labels: Sequence) -> float:
    """Return the share of labels, or of sets of labels ``[u, o]``, that are predicted correctly."""
    equal = np.asarray(labels, int) == np.asarray(predictions, int)
    return float(np.mean(equal.all(axis=1) if equal.ndim > 1 else equal))


def sklearn_metric(name: str, **settings: Any) -> Callable[[Sequence, Sequence], float]:
    """Return scikit-learn's metric of this name, as a function of predictions and labels."""

    def compute(predictions: Sequence, labels: Sequence) -> float:
        from sklearn import metrics

        function = getattr(metrics, name)
        return float(function(np.asarray(labels, int), np.asarray(predictions, int), **settings))

    return compute


def f1(average: str) -> Callable[[Sequence, Sequence], float]:
    """Return F1 of class 1 (``binary``), or the mean over all classes (``macro``).

    For sets of labels ``[u, o]``, ``macro`` is the mean over labels, and ``micro`` is the F1 of all
    0 and 1 together. F1 is 0 if nothing is predicted or expected.
    """
    return sklearn_metric("f1_score", average=average, zero_division=0.0)


def correlation(name: str) -> Callable[[Sequence, Sequence], float]:
    """Return one of scipy's correlations, or NaN if all predictions are the same."""

    def compute(predictions: Sequence, labels: Sequence) -> float:
        from scipy import stats

        function = getattr(stats, name)
        return float(function(np.asarray(predictions, float), np.asarray(labels, float))[0])

    return compute


def normalise_answer(text: str) -> str:
    """Return the text in lower case, without punctuation, articles and repeated spaces.

    Punctuation is removed first and leaves no space: "well-known" becomes one word, and the "a" of
    "a-b" is no article.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def mean_over_questions(
    score: Callable[[str, Sequence[str]], float],
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
) -> float:
    """Return the mean of a score, `exact_match` or `word_f1`, over questions."""
    return float(np.mean(list(map(score, predictions, references))))


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1 if the prediction equals one of the accepted answers, both normalised, else 0.

    An empty prediction equals an answer that has only articles and punctuation.
    """
    return float(normalise_answer(prediction) in map(normalise_answer, answers))


def word_f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the highest F1 of the prediction's words against those of an accepted answer.

    A repeated word counts as often as it is in both. Without common words F1 is 0, even for two
    empty texts.
    """
    predicted = Counter(normalise_answer(prediction).split())
    best = 0.0
    for answer in answers:
        accepted = Counter(normalise_answer(answer).split())
        if shared := (predicted & accepted).total():
            best = max(best, 2 * shared / (predicted.total() + accepted.total()))
    return best


# Metrics by what they compare: classes, sets of labels as 0 and 1, numbers, or answers in words.
METRICS = {
    "classes": {
        "accuracy": Metric("accuracy", accuracy),
        "f1": Metric("F1", f1("binary")),
        "f1_macro": Metric("macro F1", f1("macro")),
        "matthews_correlation": Metric(
            "Matthews correlation", sklearn_metric("matthews_corrcoef"), is_coefficient=True
        ),
    },
    "label_sets": {
        "f1_micro": Metric("micro F1", f1("micro")),
        "f1_macro": Metric("macro F1", f1("macro")),
        "accuracy": Metric("accuracy", accuracy),
    },
    "numbers": {
        "pearsonr": Metric("Pearson correlation", correlation("pearsonr"), is_coefficient=True),
        "spearmanr": Metric("Spearman correlation", correlation("spearmanr"), is_coefficient=True),
    },
    "answers": {
        "exact_match": Metric("exact match", partial(mean_over_questions, exact_match)),
        "f1": Metric("F1", partial(mean_over_questions, word_f1)),
    },
}
TITLES = {name: metric.title for table in METRICS.values() for name, metric in table.items()}
COEFFICIENTS = frozenset(
    name for table in METRICS.values() for name, metric in table.items() if metric.is_coefficient
)


def compute_all(
    compares: str, names: Iterable[str], predictions: Sequence, references: Sequence
) -> dict[str, float]:
    """Return some metrics of `METRICS` by name.

    A correlation that is undefined because all predictions are the same counts as 0, because such a
    model has learnt nothing.
    """
    with warnings.catch_warnings(action="ignore"):
        scores = {name: METRICS[compares][name].compute(predictions, references) for name in names}
    return {name: 0.0 if math.isnan(score) else score for name, score in scores.items()}
