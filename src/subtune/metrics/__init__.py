"""The tasks' metrics: an ``evaluate.Metric`` module kept here, so that none is ever fetched."""

import functools
import math
import os
import warnings
from pathlib import Path

import numpy as np

from subtune.tasks import TaskSpec

MODULE = Path(__file__).parent / "of_tasks"


@functools.cache
def _load(name: str):
    os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
    import evaluate

    return evaluate.load(
        str(MODULE), config_name=name, module_type="metric", experiment_id=str(os.getpid())
    )


def score(task: TaskSpec, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The task's metrics.

    Args:
        task: decides the metrics, and whether classes or numbers are compared.
        logits: ``[examples, num_labels]``.
        labels: ``[examples]``, class numbers or real scores.

    Returns:
        Metric name to value. A correlation that is undefined because every prediction is the same
        counts as 0: such a model has learnt nothing. Where a prediction is not finite all are NaN.
    """
    if not np.isfinite(logits).all():
        return dict.fromkeys(task.metrics, math.nan)
    predictions = logits[:, 0] if task.is_regression else logits.argmax(axis=1)
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in task.metrics:
            value = _load(name).compute(predictions=predictions, references=labels)[name]
            scores[name] = 0.0 if math.isnan(value) else value
    return scores
