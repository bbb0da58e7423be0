"""The mini tasks can be learnt, by a frozen encoder in part, and not to perfection."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from subtune.data.builtin import DRAWS
from subtune.data.load import load, tokenize
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.models import encoder
from subtune.models.load import load_model
from subtune.selections.methods import METHODS
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
from subtune.training.evaluation import logits_of
from subtune.training.recipe import Member, train
from tests.helpers import examples

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def mini(name, minilm, max_length=64, doc_stride=None):
    task = TASKS[name]
    data = load(DataSpec(task=task, source="builtin", version="1"))
    return task, examples.examples_of(task, tokenize(task, data, minilm, max_length, doc_stride))


def majority(labels):
    labels = np.hstack(labels)
    return np.bincount(labels).max() / len(labels)


def pooled(model, rows):
    """The frozen encoder's pooled first token ``[examples, hidden]``."""
    # A classifier that hands on what it reads.
    whole = {"classifier.weight": torch.eye(model.config.hidden_size)}
    whole["classifier.bias"] = torch.zeros(model.config.hidden_size)
    return logits_of(replace(model, parameters=model.parameters | whole), rows, "fp32")


def gain_of_a_linear_probe(name, minilm):
    """Dev accuracy above the majority's; of a regression, Spearman's correlation."""
    task, rows = mini(name, minilm)
    model = load_model(minilm, SEQUENCE_CLASSIFICATION, task.outputs)
    estimator = Ridge(1000) if task.labels is None else LogisticRegression(C=0.01, max_iter=1000)
    probe = make_pipeline(StandardScaler(), estimator)
    probe.fit(pooled(model, rows["train"]), rows["train"].labels)
    dev = rows[task.evaluation[0]]
    predicted = probe.predict(pooled(model, dev))
    if task.labels is None:
        return spearmanr(predicted, dev.labels).statistic
    return (predicted == dev.labels).mean() - majority(dev.labels)


def test_a_frozen_minilm_clearly_beats_the_majority_on_most_tasks(minilm):
    gains = {name: gain_of_a_linear_probe(name, minilm) for name in DRAWS}
    clear = [name for name, gain in gains.items() if gain > 0.1]
    assert len(clear) > len(gains) / 2, gains


def trained(name, minilm, batch_size, epochs, *lengths, **recipe):
    """The dev split, and the best epoch's scores there."""
    task, rows = mini(name, minilm, *lengths)
    model = load_model(minilm, task.of_kind.head, task.outputs)
    entries = METHODS["full"].resolve(encoder.shapes_of(model), seed=0)
    recipe = examples.recipe(learning_rate=3e-4, batch_size=batch_size, epochs=epochs, **recipe)
    [result] = train(model, rows, task, [Member(entries, recipe, seed=0)])
    return rows["validation"], result.best.scores["validation"]


@pytest.mark.parametrize(
    ("name", "gain", "recipe"),
    [
        *((name, 0.15, {"batch_size": 16, "epochs": 3}) for name in ("sst2", "rte", "mrpc")),
        ("ud_ewt", 0.4, {"batch_size": 8, "epochs": 2, "schedule": "constant"}),
    ],
)
def test_a_tuned_minilm_clearly_beats_the_majority_and_is_not_perfect(name, gain, recipe, minilm):
    dev, scores = trained(name, minilm, **recipe)
    assert majority(dev.labels) + gain < scores["accuracy"] < 1


def test_answers_to_questions_are_learnt_and_not_to_perfection(minilm):
    _, scores = trained("squad", minilm, 8, 3, 128, 32, schedule="constant")
    assert 0.25 < scores["exact_match"] <= scores["f1"] < 1
