"""The metrics, from modules kept in the package, without a network."""

import os

import numpy as np
import pytest

from subtune.tasks.metrics import MODULE, compute_all
from subtune.tasks.metrics.functions import OF_CLASSES, OF_NUMBERS


def test_classes_are_compared_by_the_metrics_asked_for():
    scores = compute_all(("f1", "accuracy"), np.array([1, 1, 0, 1]), np.array([1, 0, 0, 1]))
    assert scores == {"f1": pytest.approx(0.8), "accuracy": 0.75}


def test_the_macro_average_of_f1_counts_every_class_alike():
    scores = compute_all(("f1_macro",), np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1]))
    # Of the classes: 2/3, 1/2 and 0.
    assert scores == {"f1_macro": pytest.approx((2 / 3 + 1 / 2) / 3)}


def test_matthews_correlation_is_0_where_one_class_only_is_predicted():
    labels = np.array([1, 0, 0, 1])
    names = ("matthews_correlation",)
    assert compute_all(names, labels, labels) == {"matthews_correlation": 1.0}
    assert compute_all(names, np.ones(4, int), labels) == {"matthews_correlation": 0.0}


def test_ranks_are_compared_by_spearmans_correlation():
    names = ("spearmanr", "pearsonr")
    scores = compute_all(names, np.array([1.0, 2.0, 30.0]), np.array([0.0, 2.5, 5.0]))
    assert list(scores) == ["spearmanr", "pearsonr"]
    assert scores["spearmanr"] == pytest.approx(1.0)
    assert scores["pearsonr"] < 0.95


def test_a_constant_prediction_has_learnt_nothing():
    scores = compute_all(("spearmanr", "pearsonr"), np.full(3, 2.5), np.array([0.0, 2.5, 5.0]))
    assert scores == {"spearmanr": 0.0, "pearsonr": 0.0}


@pytest.mark.parametrize("name", [*OF_CLASSES, *OF_NUMBERS])
def test_evaluate_loads_the_same_metrics_by_their_path(name, monkeypatch):
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    import evaluate

    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 3, 50) % 2, rng.integers(0, 3, 50) % 2
    if name in OF_NUMBERS:
        predictions = predictions + rng.standard_normal(50).astype(np.float32)
    loaded = evaluate.load(
        str(MODULE), config_name=name, module_type="metric", experiment_id=str(os.getpid())
    )
    expected = loaded.compute(predictions=predictions, references=labels)
    assert compute_all((name,), predictions, labels) == expected
