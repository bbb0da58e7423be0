"""The metrics, from modules kept in the package, without a network."""

import numpy as np
import pytest

from subtune.metrics import score
from subtune.tasks import TASKS, Task


def logits(classes, width=2):
    return np.eye(width)[classes]


def test_classes_are_compared_by_the_tasks_metrics():
    scores = score(TASKS["mrpc"], logits([1, 1, 0, 1]), np.array([1, 0, 0, 1]))
    assert scores == {"f1": pytest.approx(0.8), "accuracy": 0.75}


def test_the_macro_average_of_f1_counts_every_class_alike():
    task = Task(name="t", title="T", text=("t",), labels=tuple("abc"), metrics=("f1_macro",))
    scores = score(task, logits([0, 0, 1, 2], 3), np.array([0, 1, 1, 1]))
    # Of the classes: 2/3, 1/2 and 0.
    assert scores == {"f1_macro": pytest.approx((2 / 3 + 1 / 2) / 3)}


def test_cola_is_matthews_correlation_and_0_where_one_class_only_is_predicted():
    labels = np.array([1, 0, 0, 1])
    assert score(TASKS["cola"], logits([1, 0, 0, 1]), labels) == {"matthews_correlation": 1.0}
    assert score(TASKS["cola"], logits([1, 1, 1, 1]), labels) == {"matthews_correlation": 0.0}


def test_stsb_is_compared_by_rank_first():
    scores = score(TASKS["stsb"], np.array([[1.0], [2.0], [30.0]]), np.array([0.0, 2.5, 5.0]))
    assert list(scores) == ["spearmanr", "pearsonr"]
    assert scores["spearmanr"] == pytest.approx(1.0)
    assert scores["pearsonr"] < 0.95


def test_a_constant_prediction_has_learnt_nothing():
    scores = score(TASKS["stsb"], np.full((3, 1), 2.5), np.array([0.0, 2.5, 5.0]))
    assert scores == {"spearmanr": 0.0, "pearsonr": 0.0}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("task", ["mrpc", "stsb"])
def test_predictions_that_are_not_finite_have_no_score(task, value):
    predicted = logits([1, 1, 0, 1])[:, : TASKS[task].num_labels]
    predicted[2, 0] = value
    scores = score(TASKS[task], predicted, np.array([1, 0, 0, 1]))
    assert scores == pytest.approx(dict.fromkeys(TASKS[task].metrics, np.nan), nan_ok=True)
