"""A tuned encoder learns something of the mini tasks of words and of spans."""

import numpy as np
import pytest

from subtune.data.load import load
from subtune.data.tokens import tokenize
from subtune.models import encoder
from subtune.models.load import load_model
from subtune.selections.methods import METHODS
from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS
from subtune.training.recipe import Member, train
from tests.helpers import examples

pytestmark = pytest.mark.nightly


def trained(name, minilm, epochs, doc_stride=None):
    """The dev split, and the scores there of the best epoch."""
    task = TASKS[name]
    data = load(DataSpec(task=task, source="builtin", version="1"))
    rows = examples.examples_of(task, tokenize(task, data, minilm, 128, doc_stride))
    model = load_model(minilm, task.of_kind.head, task.outputs)
    entries = METHODS["full"].resolve(encoder.shapes_of(model), seed=0)
    recipe = examples.recipe(learning_rate=3e-4, batch_size=8, epochs=epochs, schedule="constant")
    [result] = train(model, rows, task, [Member(entries, recipe, seed=0)])
    return rows["validation"], result.best.scores["validation"]


def test_tags_of_words_are_learnt_and_not_to_perfection(minilm):
    dev, scores = trained("ud_ewt", minilm, epochs=2)
    labels = np.concatenate(dev.labels)
    majority = np.bincount(labels).max() / len(labels)
    assert majority + 0.4 < scores["accuracy"] < 1


def test_answers_to_questions_are_learnt_and_not_to_perfection(minilm):
    _, scores = trained("squad", minilm, epochs=3, doc_stride=32)
    assert 0.25 < scores["exact_match"] <= scores["f1"] < 1
