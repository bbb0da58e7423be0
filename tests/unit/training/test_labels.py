"""Standardised labels: training sees mean 0 and deviation 1, and everything else the own unit."""

import copy
import re

import numpy as np
import pytest

from subtune.core.errors import SubtuneError
from subtune.models.encoder import shapes_of
from subtune.models.load import load_model
from subtune.selections.methods import METHODS
from subtune.tasks import TASKS
from subtune.training.fisher import fisher_information
from subtune.training.labels import Unit, in_training
from subtune.training.recipe import Member, examples_that_train, train
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


def test_fisher_information_is_that_of_standardised_labels(model, tiny_bert, rows):
    tokens = examples.tokens(TASK, tiny_bert)["train"]
    prepared, *_ = by_hand(rows, np.arange(len(tokens)))
    labels = prepared["train"].labels.astype(float).tolist()
    by_hand_tokens = tokens.remove_columns("label").add_column("label", labels)
    expected = fisher_information(model, by_hand_tokens, TASK).sums["information"].to_numpy()
    found = fisher_information(model, tokens, TASK, labels="standard").sums["information"]
    assert found.to_numpy() == pytest.approx(expected, rel=1e-4)
