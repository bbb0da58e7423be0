"""Training labels, training rows, and evaluations of a run."""

import copy
import math
import re
from dataclasses import replace
from itertools import pairwise

import datasets
import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn.functional import cross_entropy

from subtune.core.errors import SubtuneError
from subtune.models.encoder import with_new_classifier
from subtune.models.families import MEAN_CLASSIFICATION
from subtune.models.operations import PerRun
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training import recipe
from subtune.training.evaluation import (
    Evaluation,
    TrainingResult,
    autocast,
    compute_split_logits,
    make_nan_evaluation,
)
from subtune.training.fisher_information import fisher_information
from subtune.training.recipe import train
from subtune.training.training_set import (
    compute_label_weights,
    draw_training_indices,
    to_training_labels,
)
from subtune.training.values import changed_tensors
from tests.helpers import examples
from tests.unit.training.results import in_double, loaded, member

STSB, SST2 = TASKS["stsb"], TASKS["sst2"]


@pytest.fixture
def regression(tiny_bert):
    return loaded(STSB, tiny_bert)[0]


@pytest.fixture
def scored(tiny_bert):
    """Examples whose labels are numbers."""
    return loaded(STSB, tiny_bert)[1]


def by_hand(scored, index):
    """The examples with labels standardised by numpy, and mean and deviation."""
    labels = scored["train"].labels
    mean, deviation = labels[index].mean(), labels[index].std()
    standardised = copy.copy(scored["train"])
    standardised.labels = ((labels - mean) / deviation).astype(np.float32)
    return scored | {"train": standardised}, mean, deviation


@pytest.mark.parametrize("method", ["full", "bitfit", "lora", "rand_uniform"])
@pytest.mark.parametrize("train_rows", [None, 6])
def test_standard_labels_are_labels_standardised_by_hand(method, train_rows, regression, scored):
    standard, raw = (
        member(method, regression, labels=labels, train_rows=train_rows)
        for labels in ("standard", "raw")
    )
    index = draw_training_indices(scored["train"], raw.recipe.train_rows, np.random.default_rng(0))
    prepared, mean, deviation = by_hand(scored, index)
    [ours] = train(regression, scored, STSB, [standard])
    [theirs] = train(regression, prepared, STSB, [raw])
    losses = [row["train_loss"] * deviation**2 for row in theirs.history]
    assert [row["train_loss"] for row in ours.history] == pytest.approx(losses, rel=1e-5)
    predicted = theirs.best.predictions["validation"] * deviation + mean
    assert ours.best_epoch == theirs.best_epoch
    assert ours.best.predictions["validation"] == pytest.approx(predicted, abs=1e-5)


def test_labels_that_are_all_equal_are_one_line(scored):
    scored["train"].labels[:] = 2.5
    with pytest.raises(
        SubtuneError, match=re.escape("labels: all 3 training examples have the label 2.5")
    ):
        to_training_labels(scored["train"], np.arange(3), "standard")


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("mnli", [0, 2, 2], "'neutral' in none of 3 training examples"),
        ("toxic", [[1, 0, 1], [0, 0, 1], [0, 1, 1]], "'threat' in all of 3 training examples"),
        ("toxic", [[1, 0, 1], [0, 0, 1], [0, 0, 0]], "'insult' in none of 3 training examples"),
    ],
)
def test_a_label_without_a_row_cannot_be_weighed(task, labels, message):
    # Only training rows count.
    rows = examples.packable([[1]] * 4, [labels[0], *labels])
    recipe = examples.recipe(class_weights="balanced")
    with pytest.raises(SubtuneError, match=f"class_weights: found label {message}"):
        compute_label_weights(examples.TASKS[task], rows, np.arange(1, 4), recipe)


def test_the_loss_of_a_curve_is_the_weighted_mean_over_all_rows(tiny_bert):
    task = examples.TASKS["mnli"]
    model, rows = loaded(task, tiny_bert)
    settings = {"batch_size": 5, "epochs": 1, "learning_rate": 1e-12, "class_weights": "balanced"}
    [result] = train(model, rows, task, [member("bitfit", model, **settings)])
    logits = torch.from_numpy(
        compute_split_logits(with_new_classifier(model, 0), rows["train"], "fp32")[0]
    )
    labels = torch.from_numpy(rows["train"].labels)
    weights = compute_class_weight("balanced", classes=np.arange(3), y=labels.numpy())
    expected = cross_entropy(logits.double(), labels, torch.from_numpy(weights))
    assert result.history[0]["train_loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_fisher_information_is_that_of_standardised_labels(regression, tiny_bert, scored):
    tokens = examples.tokens(STSB, tiny_bert)["train"]
    prepared, *_ = by_hand(scored, np.arange(len(tokens)))
    labels = prepared["train"].labels.astype(float).tolist()
    by_hand_tokens = tokens.remove_columns("label").add_column("label", labels)
    expected = fisher_information(regression, by_hand_tokens, STSB).sums["information"].to_numpy()
    found = fisher_information(regression, tokens, STSB, labels="standard").sums["information"]
    assert found.to_numpy() == pytest.approx(expected, rel=1e-4)


SIDE_BY_SIDE = [
    ("bert", "sst2", "", ["layernorm", "bitfit", "top"]),
    ("roberta", "sst2", "", ["lora-II", "lora-II"]),
    ("bert", "sst2", "", ["full"]),
    ("bert", "sst2", "", ["random"]),
    ("bert", "sst2", MEAN_CLASSIFICATION, ["layernorm", "bitfit"]),
    ("bert", "stsb", "", ["layernorm", "bitfit"]),
    ("bert", "stsb", "", ["full"]),
    ("bert", "ud_ewt", "", ["layernorm", "bitfit"]),
    ("bert", "squad", "", ["layernorm", "bitfit"]),
    ("electra", "stsb", "", ["layernorm", "bitfit", "layernorm"]),
    ("electra", "sst2", "", ["lora-II", "lora-II"]),
    ("electra", "sst2", MEAN_CLASSIFICATION, ["layernorm", "bitfit"]),
    ("electra", "sst2", "", ["random"]),
]


@pytest.mark.parametrize(("family", "name", "head", "kinds"), SIDE_BY_SIDE)
def test_runs_evaluated_side_by_side_are_the_models_that_they_end_as(
    family, name, head, kinds, directory, monkeypatch
):
    monkeypatch.setattr(recipe._Group, "passes_left", lambda group: [[*range(len(group.running))]])
    task = TASKS[name]
    model, rows = loaded(task, directory, head)
    model = in_double(model)
    settings = {"labels": "standard" if name == "stsb" else "raw", "train_rows": 4}
    members = [
        member(kind, model, learning_rate=1e-3 * number, **settings)
        for number, kind in enumerate(kinds, 1)
    ]
    for result in train(model, rows, task, members):
        parameters = model.parameters | changed_tensors(model.parameters, result.delta)
        [alone] = compute_split_logits(
            replace(model, parameters=parameters), rows["validation"], "fp32"
        )
        expected = task.of_kind.predict(rows["validation"], alone)
        found = result.best.predictions["validation"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_a_table_of_the_words_in_training_also_evaluates_other_words(model, rows):
    table = "embeddings.word_embeddings.weight"
    rows_in_training = torch.tensor([5, 7])
    values = model.parameters[table][rows_in_training] + 1
    weights = {table: PerRun(values[None], rows_in_training)}
    whole = model.parameters[table].index_copy(0, rows_in_training, values)
    changed = replace(model, parameters=model.parameters | {table: whole})
    found = compute_split_logits(model, rows["train"], "fp32", weights)
    assert (found == compute_split_logits(changed, rows["train"], "fp32")).all()


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_run_that_diverges_later_has_no_best_epoch(loss):
    result = TrainingResult()
    good = Evaluation({"validation": {"accuracy": 0.9}}, {"validation": np.zeros((3, 2))})
    result.end_epoch(1, 0.5, 1.0, good)
    assert not result.diverged
    result.end_epoch(2, loss, 1.0, make_nan_evaluation(SST2))
    assert result.diverged and result.best_epoch is None
    assert not result.best.predictions
    scores = [row["validation/accuracy"] for row in result.history]
    assert scores == pytest.approx([0.9, math.nan], nan_ok=True)


def test_a_prediction_that_is_not_finite_diverges_though_the_loss_is(model, tokens):
    unused = 4
    assert unused not in np.concatenate(tokens["train"]["input_ids"])
    model.parameters["embeddings.word_embeddings.weight"][unused] = math.nan
    dev = tokens["validation"].to_list()
    dev[2]["input_ids"][1] = unused
    dev = datasets.Dataset.from_list(dev, tokens["validation"].features)
    rows = examples.examples_of(SST2, {**tokens, "validation": dev})
    lines = []
    members = [member("bitfit", model)]
    [result] = train(model, rows, SST2, members, lines.append)
    [epoch] = result.history
    assert math.isfinite(epoch["train_loss"]) and math.isnan(epoch["validation/accuracy"])
    assert result.diverged and result.best_epoch is None
    assert "is not finite" in lines[-1]


def test_only_tf32_lets_a_gpu_shorten_products():
    for precision, is_short in [("tf32", True), ("fp32", False), ("tf32", True), ("bf16", False)]:
        with autocast(torch.device("cpu"), precision):
            x = torch.ones(1, 1) @ torch.ones(1, 1)
        assert torch.backends.cuda.matmul.allow_tf32 is is_short
        assert torch.backends.cudnn.allow_tf32 is is_short
        assert x.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)


def rows_of(rows, train_rows, seed=0):
    """The training rows of a set, from the row number of each example."""
    columns = {"input_ids": [[1, 2]] * len(rows), "label": [0] * len(rows), "row": rows}
    train = Examples(datasets.Dataset.from_dict(columns))
    drawn = examples.recipe(train_rows=train_rows).train_rows
    return train.row[draw_training_indices(train, drawn, np.random.default_rng(seed))].tolist()


def test_smaller_parts_of_a_training_set_are_within_larger_ones():
    parts = [set(rows_of(range(50), size)) for size in (5, 10, 40, None)]
    assert [len(part) for part in parts] == [5, 10, 40, 50]
    assert all(smaller < larger for smaller, larger in pairwise(parts))
    assert parts[1] != set(rows_of(range(50), 10, seed=1))


def test_a_row_of_several_examples_counts_once_and_trains_whole():
    rows = rows_of([number // 3 for number in range(30)], 4)
    assert len(rows) == 12 and len(set(rows)) == 4
