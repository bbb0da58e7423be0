"""One run: which epochs count, and what becomes of one that diverges."""

import math

import datasets
import numpy as np
import pytest
import torch

from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models.load import load_model
from subtune.tasks import TASKS
from subtune.training.delta import ChangedTensor
from subtune.training.evaluation import Evaluation, without_scores
from subtune.training.recipe import Member, train
from subtune.training.run import Run
from tests.helpers import examples

TASK = TASKS["sst2"]


@pytest.fixture
def model(tiny_bert):
    return load_model(tiny_bert, SEQUENCE_CLASSIFICATION, 2)


@pytest.fixture
def rows(tiny_bert):
    return examples.examples_of(TASK, examples.tokens(TASK, tiny_bert))


def evaluation(score):
    delta = {"pooler.dense.bias": ChangedTensor(torch.zeros(2))}
    logits = {"validation": np.zeros((3, 2))}
    return Evaluation({"validation": {"accuracy": score}}, logits, delta, {"pooler": (0.1, 2)})


def run():
    return Run(0, examples.recipe(), [torch.nn.Parameter(torch.zeros(2))])


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_run_that_diverges_later_has_no_best_epoch_and_keeps_nothing_of_an_earlier_one(loss):
    one = run()
    one.end_epoch(1, 0.5, 1.0, evaluation(0.9))
    assert not one.diverged
    one.end_epoch(2, loss, 1.0, without_scores(TASK))
    result = one.result()
    assert result.diverged and result.best_epoch is None
    assert not result.best.delta and not result.best.predictions and not result.best.changes
    assert [row["validation/accuracy"] for row in result.history] == [
        0.9,
        pytest.approx(math.nan, nan_ok=True),
    ]


def test_a_run_that_predicts_nothing_finite_of_one_dev_row_diverges_though_its_loss_is_finite(
    model, tiny_bert
):
    unused = 4
    tokens = examples.tokens(TASK, tiny_bert)
    assert unused not in np.concatenate(tokens["train"]["input_ids"])
    model.parameters["embeddings.word_embeddings.weight"][unused] = math.nan
    dev = tokens["validation"].to_list()
    dev[2]["input_ids"][1] = unused
    tokens["validation"] = datasets.Dataset.from_list(dev, tokens["validation"].features)
    rows = examples.examples_of(TASK, tokens)
    reports = []
    recipe = examples.recipe()
    [result] = train(
        model,
        rows,
        TASK,
        [Member(examples.entries_of("bitfit", model), recipe, 0)],
        lambda number, report: reports.append(report.event),
    )
    [epoch] = result.history
    assert math.isfinite(epoch["train_loss"]) and math.isnan(epoch["validation/accuracy"])
    assert result.diverged and result.best_epoch is None
    assert reports[-1] == "diverged"
