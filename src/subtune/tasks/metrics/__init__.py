"""The tasks' metrics, kept here, so that none is ever fetched.

`of_tasks` holds them for ``evaluate.load``. Jobs that train compute them directly: `evaluate`
imports all of transformers' pipelines, which takes longer than most jobs.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from subtune.tasks.metrics import answers, labels

MODULE = Path(__file__).parent / "of_tasks"


class Metric(NamedTuple):
    """A metric: what tables call it, and its function of predictions and references ``[u]``.

    ``is_coefficient``: it lies from -1 to 1, and is undefined where all references are the same.
    """

    title: str
    compute: Callable[[Sequence, Sequence], float]
    is_coefficient: bool = False


# Metrics by the predictions that they compare: classes, numbers, or answers in words.
METRICS = {
    "classes": {
        "accuracy": Metric("accuracy", labels.accuracy),
        "f1": Metric("F1", labels.f1),
        "f1_macro": Metric("macro F1", partial(labels.f1, average="macro")),
        "matthews_correlation": Metric(
            "Matthews correlation", labels.matthews_correlation, is_coefficient=True
        ),
    },
    "numbers": {
        "pearsonr": Metric("Pearson correlation", labels.pearsonr, is_coefficient=True),
        "spearmanr": Metric("Spearman correlation", labels.spearmanr, is_coefficient=True),
    },
    "answers": {
        "exact_match": Metric("exact match", partial(answers.mean, answers.exact_match)),
        "f1": Metric("F1", partial(answers.mean, answers.f1)),
    },
}
TITLES = {name: metric.title for table in METRICS.values() for name, metric in table.items()}
COEFFICIENTS = frozenset(
    name for table in METRICS.values() for name, metric in table.items() if metric.is_coefficient
)


def compute_all(
    compares: str, names: Iterable[str], predictions: Sequence, references: Sequence
) -> dict[str, float]:
    """Return metrics by name, of predictions and references ``[u]``, or each question's answers.

    ``compares`` is a key of `METRICS`. A correlation that is undefined because every prediction is
    the same counts as 0: such a model has learnt nothing.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {name: METRICS[compares][name].compute(predictions, references) for name in names}
    return {name: 0.0 if math.isnan(score) else score for name, score in scores.items()}
