"""Scorers of scikit-learn, and the user's own, as metrics of recorded logits.

A scorer is a function of an estimator, its input and the labels. Larger scores are better, so the
names of errors begin with ``neg_``. Shapes: ``n`` examples, ``o`` outputs.
"""

import inspect
import warnings
from functools import cache
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names, log_loss, make_scorer

from subtune.core.errors import SubtuneError, format_allowed, suggest_name
from subtune.core.user_code import (
    OWN_FUNCTION,
    hash_own_code,
    import_own_function,
    locate_user_errors,
)
from subtune.tasks.metrics import METRICS

LOG_LOSS = "neg_log_loss"


class _RecordedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions are known. Its input are the numbers of examples."""

    def __init__(self, logits: np.ndarray):
        self.logits = logits
        self.classes_ = np.arange(logits.shape[1])

    def predict(self, examples: np.ndarray) -> np.ndarray:
        """Return the predicted classes ``[n]``."""
        return self.logits[examples].argmax(axis=1)

    def predict_proba(self, examples: np.ndarray) -> np.ndarray:
        """Return the probabilities of all classes ``[n, o]``."""
        return softmax(self.logits[examples].astype(float), axis=1)


class _RecordedRegressor(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are known. Its input are the numbers of examples."""

    def __init__(self, logits: np.ndarray):
        self.logits = logits

    def predict(self, examples: np.ndarray) -> np.ndarray:
        """Return the predicted numbers ``[n]``."""
        return self.logits[examples, 0].astype(float)


@cache
def find_scorer(name: str, code: str | None = None) -> Any:
    """Find a scorer of scikit-learn by its name, or one in a file, such as ``my_metrics.py:cost``.

    With another hash of its ``code``, it is imported again.

    Raises:
        SubtuneError: there is no such scorer, its code cannot be imported, or it has no direction.
    """
    if not OWN_FUNCTION.fullmatch(name):
        if name not in get_scorer_names():
            raise SubtuneError(format_allowed(name, get_scorer_names()))
        return get_scorer(name)
    scorer = import_own_function(name)
    arguments = inspect.signature(scorer).parameters.values()
    if len([each for each in arguments if each.kind is not inspect.Parameter.KEYWORD_ONLY]) < 3:
        function = name.rpartition(":")[2]
        raise SubtuneError(
            f"{name}: found a function without a direction, expected a scorer, such as "
            f"make_scorer({function}, greater_is_better=False) of sklearn.metrics"
        )
    return scorer


def compute_score(
    name: str, logits: np.ndarray, labels: np.ndarray, code: str | None = None
) -> float:
    """Compute a scorer's score from logits ``[n, o]`` and labels ``[n]``.

    With one output, the logits are predicted numbers. ``code`` is the hash of the user's own code.

    Raises:
        SubtuneError: the scorer fails on these examples, for example because a class is missing, or
            the score is not finite.
    """
    scorer, outputs = find_scorer(name, code), logits.shape[1]
    estimator = _RecordedRegressor(logits) if outputs == 1 else _RecordedClassifier(logits)
    if name == LOG_LOSS:
        # A class may be missing in the labels.
        how = {"greater_is_better": False, "response_method": "predict_proba"}
        scorer = make_scorer(log_loss, labels=range(outputs), **how)
    with locate_user_errors(name):
        with warnings.catch_warnings(action="ignore"):
            score = float(scorer(estimator, np.arange(len(logits)), labels))
        if not np.isfinite(score):
            absent = sorted({*range(outputs)} - {*labels}) if outputs > 1 else []
            none = f", none of them of class {absent[0]}" if absent else ""
            raise SubtuneError(
                f"found {score} for {len(labels):,} examples{none}, expected a number"
            )
    return score


def check_scorer(name: str, outputs: int) -> None:
    """Try a scorer on a few examples.

    Raises:
        SubtuneError: the scorer does not exist or fails, or perfect predictions do not score higher
            than random ones.
    """
    built_in, known = METRICS["numbers" if outputs == 1 else "classes"], get_scorer_names()
    if not OWN_FUNCTION.fullmatch(name) and name not in known:
        raise SubtuneError(
            f"found {name!r}, expected one of {', '.join(built_in)}, or a scorer of scikit-learn, "
            f"such as roc_auc{suggest_name(name, [*built_in, *known], cutoff=0.6)}"
        )
    # Numbers are positive, because some scorers divide by them.
    labels = np.repeat(np.arange(outputs) if outputs > 1 else [1, 2], 4)
    random = np.random.default_rng(0).normal(size=(len(labels), outputs))
    chance, best = score_random_and_perfect(name, random, labels, hash_own_code([name]))
    if best <= chance:
        classes = "; it is given the numbers of classes, not their names" if outputs > 1 else ""
        raise SubtuneError(
            f"{name}: perfect predictions score {best:.3g}, random ones {chance:.3g}, expected "
            f"larger scores for better predictions{classes}"
        )


def score_random_and_perfect(
    name: str, random: np.ndarray, labels: np.ndarray, code: str | None = None
) -> tuple[float, float]:
    """Compute a scorer's scores of random logits ``[n, o]``, and of perfect predictions.

    A `SubtuneError` is raised if one of them, or the score of constant predictions, is undefined.
    """
    outputs = random.shape[1]
    perfect = 9 * np.eye(outputs)[labels] if outputs > 1 else labels[:, None]
    chance, best = (compute_score(name, logits, labels, code) for logits in (random, perfect))
    try:
        compute_score(name, np.tile(perfect.mean(axis=0), (len(labels), 1)), labels, code)
    except SubtuneError as error:
        reason = f"{error}, if all predictions are equal; a correlation is then 0"
        raise SubtuneError(reason) from error
    return chance, best
