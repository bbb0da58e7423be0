"""The metrics, from modules kept in the package, without a network."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subtune.tasks.metrics import (
    METRICS,
    MODULE,
    compute_metrics,
    exact_match,
    normalise_answer,
    word_f1,
)

LABELS = np.array([0, 1, 1, 1])
# By label: 2 of 2 found; one false and one missed; none expected.
FOUND_SETS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
LABEL_SETS = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]])
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
        # One example has no correlation.
        ("numbers", "spearmanr", [1.0], [2.5], 0.0),
        ("numbers", "pearsonr", [1.0], [2.5], 0.0),
        ("classes", "matthews_correlation", [1], [1], 0.0),
        ("classes", "f1", [1], [0], 0.0),
        ("label_sets", "f1_micro", FOUND_SETS, LABEL_SETS, 2 / 3),
        ("label_sets", "f1_macro", FOUND_SETS, LABEL_SETS, 1 / 3),
        ("label_sets", "accuracy", FOUND_SETS, LABEL_SETS, 1 / 2),
        ("answers", "exact_match", ["cat", "dog"], [["the cat"], ["dogs"]], 0.5),
        ("answers", "f1", ["cat", "dog"], [["old cat", "cat"], ["red dog"]], (1 + 2 / 3) / 2),
    ],
)
@pytest.mark.fault("numbers", "all predictions are equal", "correlations are 0; `summary` notes it")
def test_a_metric_is_what_is_worked_out_by_hand(compares, name, predictions, labels, expected):
    scores = compute_metrics(compares, [name], predictions, labels)
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
    assert compute_metrics(compares, (name,), predictions, labels) == expected


# The list is short, so that texts share words; normalising removes some words and keeps others.
WORDS = [
    *("a", "an", "the", "The", "cat", "Cat", "dog", "cat-dog", "cat's", "ÉTÉ", "–", "“a”"),
    *("...", ""),
]
SEPARATORS = [" ", "  ", "\t", "\n", "\u00a0", ", ", "-"]
TEXTS = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(SEPARATORS) | st.sampled_from("éÀßİΣ東½_“–"),
    max_size=8,
).map("".join)
ANSWERS = st.lists(TEXTS, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("a an the", ""),
        ("?!...", ""),
        # An article is a whole word.
        ("another theatre", "another theatre"),
        # Punctuation is removed without a space, before articles are removed.
        ("well-known", "wellknown"),
        ("a-b", "ab"),
        # Punctuation outside ASCII is kept, and separates words.
        ("“the cat”", "“ cat”"),
        ("a–b", "–b"),
        # A letter outside ASCII is a letter.
        ("ÉCOLE", "école"),
        ("東京 the 塔", "東京 塔"),
    ],
)
def test_a_text_is_normalised_as_squad_does(text, expected):
    assert normalise_answer(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "expected_f1"),
    [
        ("the Denver Broncos", ["Denver Broncos!"], 1, 1),
        ("Denver", ["Broncos", "Denver Broncos", "Denver."], 1, 1),
        # Precision 1/3, recall 1/2.
        ("in Denver today", ["Denver Broncos"], 0, 2 / 5),
        # The word is three times in the prediction and once in the answer: precision 1/3, recall 1.
        ("cat cat cat", ["cat"], 0, 1 / 2),
        # The word is twice in both, of three words and of two: precision 2/3, recall 1.
        ("cat dog cat", ["cat cat"], 0, 4 / 5),
        # Half of the first answer, two thirds of the second: F1 2/3 and 4/5.
        ("red cat", ["red cat of old times now", "red cat runs"], 0, 4 / 5),
        ("", ["cat"], 0, 0),
        # No word on either side: an exact match, but no word in common.
        ("", ["the"], 1, 0),
    ],
)
def test_answers_are_compared_as_texts_and_as_bags_of_words(
    prediction, answers, exact, expected_f1
):
    assert exact_match(prediction, answers) == exact
    assert word_f1(prediction, answers) == pytest.approx(expected_f1, abs=1e-15)


def best_f1_word_by_word(prediction, answers):
    """F1 by its definition: each word of the prediction removes an equal word of the answer."""
    best = 0
    for answer in answers:
        predicted, accepted = normalise_answer(prediction).split(), normalise_answer(answer).split()
        left = list(accepted)
        for word in predicted:
            if word in left:
                left.remove(word)
        shared = len(accepted) - len(left)
        if shared:
            precision, recall = shared / len(predicted), shared / len(accepted)
            best = max(best, 2 * precision * recall / (precision + recall))
    return best


@given(TEXTS, ANSWERS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(prediction, answers):
    assert word_f1(prediction, answers) == pytest.approx(best_f1_word_by_word(prediction, answers))
