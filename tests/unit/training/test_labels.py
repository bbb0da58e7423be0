"""Standardised labels: training sees mean 0 and deviation 1, and everything else the own unit.

Weights of labels: what they make of a loss, and labels that have none.
"""

import copy
import re

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn.functional import cross_entropy

from subtune.core.errors import SubtuneError
from subtune.models.encoder import load_model, shapes_of, with_new_classifier
from subtune.selections.methods import METHODS
from subtune.tasks import TASKS
from subtune.training.evaluation import (
    Unit,
    examples_that_train,
    in_training,
    logits_of,
    weights_of,
)
from subtune.training.fisher import fisher_information
from subtune.training.recipe import Member, train
from tests.helpers import examples

TASK = TASKS["stsb"]


@pytest.fixture
def model(tiny_bert):
    return load_model(tiny_bert, TASK.of_kind.head, 1)


@pytest.fixture
def rows(tiny_bert):
    return examples.examples_of(TASK, examples.tokens(TASK, tiny_bert))


def member(model, labels, method="bitfit", **changes):
    recipe = examples.recipe(labels=labels, **changes)
    return Member(METHODS[method].resolve(shapes_of(model), 0), recipe, 0)


def by_hand(rows, index):
    """The rows with labels that numpy has standardised, and mean and deviation."""
    mean, deviation = rows["train"].labels[index].mean(), rows["train"].labels[index].std()
    standardised = copy.copy(rows["train"])
    standardised.labels = ((rows["train"].labels - mean) / deviation).astype(np.float32)
    return rows | {"train": standardised}, mean, deviation


@pytest.mark.parametrize("method", ["full", "bitfit", "lora", "rand_uniform"])
@pytest.mark.parametrize("train_rows", [None, 6])
def test_it_is_training_on_labels_standardised_by_hand_and_predicts_in_their_unit(
    method, train_rows, model, rows
):
    one = member(model, "standard", method, train_rows=train_rows)
    index = examples_that_train(rows["train"], one.recipe, np.random.default_rng(0))
    prepared, mean, deviation = by_hand(rows, index)
    [ours] = train(model, rows, TASK, [one])
    [raw] = train(model, prepared, TASK, [member(model, "raw", method, train_rows=train_rows)])
    for mine, theirs in zip(ours.history, raw.history, strict=True):
        expected = theirs["train_loss"] * deviation**2
        assert mine["train_loss"] == pytest.approx(expected, rel=1e-5)
    predicted = raw.best.predictions["validation"] * deviation + mean
    assert ours.best_epoch == raw.best_epoch
    assert ours.best.predictions["validation"] == pytest.approx(predicted, abs=1e-5)


def test_runs_with_other_labels_do_not_change_a_run(model, rows):
    [alone] = train(model, rows, TASK, [member(model, "standard")])
    two = [member(model, "standard"), member(model, "standard", learning_rate=1e-3)]
    [beside, _] = train(model, rows, TASK, two)
    assert [row["validation/spearmanr"] for row in alone.history] == pytest.approx(
        [row["validation/spearmanr"] for row in beside.history]
    )


def test_raw_labels_are_left_as_they_are(rows):
    assert in_training(rows["train"], np.arange(4), "raw") == (rows["train"], Unit())


def test_labels_of_the_rows_that_train_have_mean_0_and_deviation_1(rows):
    index = np.array([0, 3, 5, 7])
    standardised, unit = in_training(rows["train"], index, "standard")
    assert standardised.labels[index].mean() == pytest.approx(0, abs=1e-6)
    assert standardised.labels[index].std() == pytest.approx(1, abs=1e-6)
    own = standardised.labels * unit.deviation + unit.mean
    assert own == pytest.approx(rows["train"].labels, abs=1e-6)


def test_labels_that_are_all_equal_are_one_line(rows):
    rows["train"].labels[:] = 2.5
    with pytest.raises(SubtuneError, match=re.escape("labels: found 2.5 in all 3 rows that train")):
        in_training(rows["train"], np.arange(3), "standard")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("mnli", [0, 2, 2], "'neutral' in none of 3 rows"),
        ("toxic", [[1, 0, 1], [0, 0, 1], [0, 1, 1]], "'threat' in all of 3 rows"),
        ("toxic", [[1, 0, 1], [0, 0, 1], [0, 0, 0]], "'insult' in none of 3 rows"),
    ],
)
def test_a_label_without_a_row_cannot_be_weighed(task, labels, message):
    # A row that does not train does not count.
    rows = examples.packable([[1]] * 4, [labels[0], *labels])
    recipe = examples.recipe(class_weights="balanced")
    with pytest.raises(SubtuneError, match=f"class_weights: found label {message} to train on"):
        weights_of(examples.TASKS[task], rows, np.arange(1, 4), recipe)


def test_without_class_weights_there_are_none(rows):
    assert weights_of(TASK, rows["train"], np.arange(4), examples.recipe()) is None


def test_the_loss_of_a_curve_is_the_weighted_mean_over_all_rows(tiny_bert):
    task = examples.TASKS["mnli"]
    model = load_model(tiny_bert, task.of_kind.head, 3)
    rows = examples.examples_of(task, examples.tokens(task, tiny_bert))
    settings = {"batch_size": 5, "epochs": 1, "learning_rate": 1e-12, "class_weights": "balanced"}
    one = Member(METHODS["bitfit"].resolve(shapes_of(model), 0), examples.recipe(**settings), 0)
    [result] = train(model, rows, task, [one])
    logits = torch.from_numpy(logits_of(with_new_classifier(model, 0), rows["train"], "fp32"))
    labels = torch.from_numpy(rows["train"].labels)
    weights = compute_class_weight("balanced", classes=np.arange(3), y=labels.numpy())
    expected = cross_entropy(logits.double(), labels, torch.from_numpy(weights))
    assert result.history[0]["train_loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_fisher_information_is_that_of_standardised_labels(model, tiny_bert, rows):
    tokens = examples.tokens(TASK, tiny_bert)["train"]
    prepared, *_ = by_hand(rows, np.arange(len(tokens)))
    labels = prepared["train"].labels.astype(float).tolist()
    by_hand_tokens = tokens.remove_columns("label").add_column("label", labels)
    expected = fisher_information(model, by_hand_tokens, TASK).sums["information"].to_numpy()
    found = fisher_information(model, tokens, TASK, labels="standard").sums["information"]
    assert found.to_numpy() == pytest.approx(expected, rel=1e-4)
