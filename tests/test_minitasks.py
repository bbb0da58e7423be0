"""The mini tasks can be learnt, and not to perfection."""

import numpy as np
import pytest

from subtune.data.load import load
from subtune.data.tokens import tokenize
from subtune.models import encoder
from subtune.selection import SELECTIONS, resolve
from subtune.specs import DataSpec
from subtune.tasks import TASKS
from subtune.training.recipe import train
from tests import examples


@pytest.mark.parametrize("name", ["sst2", "rte", "mrpc"])
def test_a_tuned_minilm_clearly_beats_the_majority_and_is_not_perfect(name, minilm):
    task = TASKS[name]
    rows = load(DataSpec(task=task, source="builtin", version="1"))
    data = examples.rows_of(task, tokenize(rows, minilm, 64))
    model = encoder.load(minilm, task.num_labels)
    shapes = {key: tuple(p.shape) for key, p in encoder.canonical_parameters(model).items()}
    entries = resolve(SELECTIONS["full"], shapes, seed=0)
    recipe = examples.recipe(learning_rate=3e-4, batch_size=16, epochs=3)
    result = train(model, data, task, entries, recipe, seed=0)
    labels = data["validation"].labels
    majority = np.bincount(labels).max() / len(labels)
    accuracy = (result.logits["validation"].argmax(1) == labels).mean()
    assert majority + 0.15 < accuracy < 1
