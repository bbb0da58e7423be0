"""One run: which epochs count, and what becomes of one that diverges."""

import math

import datasets
import numpy as np
import pytest
import torch

from subtune.tasks import TASKS
from subtune.training.evaluation import Evaluation, Run, without_scores
from subtune.training.recipe import train
from subtune.training.values import ChangedTensor
from tests.helpers import examples
from tests.unit.training.results import member

TASK = TASKS["sst2"]


def evaluation(score):
    delta = {"pooler.dense.bias": ChangedTensor(torch.zeros(2))}
    logits = {"validation": np.zeros((3, 2))}
    return Evaluation({"validation": {"accuracy": score}}, logits, delta, {"pooler": (0.1, 2)})


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_run_that_diverges_later_has_no_best_epoch_and_keeps_nothing_of_an_earlier_one(loss):
    one = Run(0, examples.recipe(), [torch.nn.Parameter(torch.zeros(2))])
    one.end_epoch(1, 0.5, 1.0, evaluation(0.9))
    assert not one.diverged
    one.end_epoch(2, loss, 1.0, without_scores(TASK))
    result = one.result()
    assert result.diverged and result.best_epoch is None
    assert not result.best.delta and not result.best.predictions and not result.best.changes
    scores = [row["validation/accuracy"] for row in result.history]
    assert scores == pytest.approx([0.9, math.nan], nan_ok=True)


def test_a_run_that_predicts_nothing_finite_of_one_dev_row_diverges_though_its_loss_is_finite(
    model, tokens
):
    unused = 4
    assert unused not in np.concatenate(tokens["train"]["input_ids"])
    model.parameters["embeddings.word_embeddings.weight"][unused] = math.nan
    dev = tokens["validation"].to_list()
    dev[2]["input_ids"][1] = unused
    dev = datasets.Dataset.from_list(dev, tokens["validation"].features)
    rows = examples.examples_of(TASK, {**tokens, "validation": dev})
    lines = []
    members = [member("bitfit", model)]
    [result] = train(model, rows, TASK, members, lambda number, line: lines.append(line))
    [epoch] = result.history
    assert math.isfinite(epoch["train_loss"]) and math.isnan(epoch["validation/accuracy"])
    assert result.diverged and result.best_epoch is None
    assert "is not finite" in lines[-1]
