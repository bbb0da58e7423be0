"""The metrics, from modules kept in the package, without a network."""

import os

import numpy as np
import pytest

from subtune.tasks.metrics import METRICS, MODULE, compute_all

LABELS = np.array([0, 1, 1, 1])
SCORES = np.array([0.0, 2.5, 5.0])


@pytest.mark.parametrize(
    ("compares", "name", "predictions", "labels", "expected"),
    [
        ("classes", "accuracy", [1, 1, 0, 1], [1, 0, 0, 1], 0.75),
        ("classes", "f1", [1, 1, 0, 1], [1, 0, 0, 1], 0.8),
        # By class: 2/3, 1/2 and 0.
        ("classes", "f1_macro", [0, 0, 1, 2], LABELS, (2 / 3 + 1 / 2) / 3),
        ("classes", "matthews_correlation", LABELS, LABELS, 1.0),
        ("classes", "matthews_correlation", np.ones(4, int), LABELS, 0.0),
        ("numbers", "spearmanr", [1.0, 2.0, 30.0], SCORES, 1.0),
        ("numbers", "pearsonr", [1.0, 2.0, 3.0], SCORES, 1.0),
        # A constant prediction has learnt nothing.
        ("numbers", "spearmanr", np.full(3, 2.5), SCORES, 0.0),
        ("numbers", "pearsonr", np.full(3, 2.5), SCORES, 0.0),
        ("answers", "exact_match", ["cat", "dog"], [["the cat"], ["dogs"]], 0.5),
        ("answers", "f1", ["cat", "dog"], [["old cat", "cat"], ["red dog"]], (1 + 2 / 3) / 2),
    ],
)
def test_a_metric_is_what_is_worked_out_by_hand(compares, name, predictions, labels, expected):
    scores = compute_all(compares, [name], predictions, labels)
    assert scores == {name: pytest.approx(expected, abs=1e-15)}


@pytest.mark.parametrize(
    ("compares", "name"), [(compares, name) for compares in METRICS for name in METRICS[compares]]
)
def test_evaluate_loads_the_same_metrics_by_their_path(compares, name, monkeypatch):
    monkeypatch.setenv("HF_EVALUATE_OFFLINE", "1")
    import evaluate

    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(0, 3, 50) % 2, rng.integers(0, 3, 50) % 2
    if compares == "label_sets":
        labels, predictions = labels.reshape(10, 5), predictions.reshape(10, 5)
    if compares == "numbers":
        predictions = predictions + rng.standard_normal(50).astype(np.float32)
    if compares == "answers":
        predictions, labels = [f"a {n} b" for n in predictions], [[f"{n} b", "b"] for n in labels]
    loaded = evaluate.load(
        str(MODULE), config_name=f"{compares}.{name}", experiment_id=str(os.getpid())
    )
    expected = loaded.compute(predictions=predictions, references=labels)
    assert compute_all(compares, (name,), predictions, labels) == expected
