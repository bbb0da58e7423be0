"""Diff pruning, compared with plain trainings of transformers' model."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from subtune.core.process import StoppedError
from subtune.methods import SELECTION
from subtune.methods.roles import is_classifier
from subtune.methods.single_entries import DiffPruningSettings
from subtune.models.encoder import draw_classifier
from subtune.tasks import TASKS
from subtune.training.checkpoints import Checkpoints, CheckpointStore
from subtune.training.diff_pruning import GateTraining
from subtune.training.groups import train_runs
from subtune.training.values import INDEX, changed_tensors
from tests.helpers import examples, plain_diff_pruning, reference
from tests.unit.training.results import in_double, loaded

TASK = TASKS["sst2"]
SEED = 3
SHARE = 0.05
TOLERANCE = 1e-10
RECIPE = {"epochs": 1, "schedule": "linear", "warmup": 0.0, "learning_rate": 1e-3}


def draws(model, steps, structured):
    """The uniform draws of a run, in the order of its requests, by transformers' name."""
    generator = torch.Generator().manual_seed(SEED)
    uniform = {}
    for step in range(steps + 1):
        for name, value in model.parameters.items():
            if not is_classifier(name):
                for shape in [value.shape, ()] if structured else [value.shape]:
                    drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
                    uniform[step, model.exported_name(name), tuple(shape)] = drawn
    return lambda step, name, shape: uniform[step, name, tuple(shape)]


def batches(train, batch_size):
    order = np.random.default_rng(SEED)
    chosen = order.permutation(len(train.row_indices))
    permutation = order.permutation(len(chosen))
    for first in range(0, len(chosen), batch_size):
        index = chosen[permutation[first : first + batch_size]]
        inputs = reference.padded(reference.rows_at(train.inputs, index))
        yield inputs | {"labels": torch.from_numpy(train.labels[index])}


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_both_trainings_end_where_plain_ones_end(structured, family, directory, monkeypatch):
    # The published initial α leaves most gates open, so draws have little effect.
    monkeypatch.setattr(plain_diff_pruning, "FIRST_GATE", 1.0)
    monkeypatch.setattr("subtune.training.diff_pruning.FIRST_GATE", 1.0)
    model, rows = loaded(TASK, directory)
    model = in_double(model)
    settings = {"share": SHARE, "structured": structured, "penalty": 1e-5}
    selection = SELECTION.validate_python({"diff_pruning": settings})
    spec = examples.run_spec(selection, **RECIPE).replace(seed=SEED)
    [(_, result, _)] = train_runs(model, rows, {"run": spec}, {}, lambda of: None)

    theirs = AutoModelForSequenceClassification.from_pretrained(
        directory, num_labels=2, dtype=torch.float64
    )
    start = model.parameters | draw_classifier(model, SEED)
    theirs.load_state_dict({model.exported_name(n): v for n, v in start.items()})
    every = list(batches(rows["train"], spec.recipe.batch_size))
    noise = draws(model, len(every), structured)
    torch.set_default_dtype(torch.float64)
    try:
        state = plain_diff_pruning.train(
            theirs, every, noise, structured, penalty_weight=1e-5, learning_rate=1e-3
        )
        masks = plain_diff_pruning.project(state, SHARE)
        differences = plain_diff_pruning.train_masked(
            theirs, every, state.weights, masks, learning_rate=1e-3
        )
    finally:
        torch.set_default_dtype(torch.float32)
    trained = model.parameters | changed_tensors(model.parameters, result.delta)
    for name, value in start.items():
        expected = value + differences[model.exported_name(name)]
        assert (trained[name] - expected).abs().max() < TOLERANCE, name
    classifier = sum(value.numel() for value in draw_classifier(model, SEED).values())
    assert result.trainable == classifier + sum(int(mask.sum()) for mask in masks.values())


def test_a_first_training_that_was_stopped_goes_on_to_the_same_differences(tiny_bert, tmp_path):
    model, rows = loaded(TASK, tiny_bert)
    settings = DiffPruningSettings(share=SHARE)
    recipe = examples.recipe(**RECIPE)
    arguments = model, rows["train"], TASK, recipe, SEED, settings
    whole = GateTraining(*arguments).run()
    steps = iter([None, "a signal"])
    stopping = Checkpoints(tmp_path, 0, lambda: next(steps))
    with pytest.raises(StoppedError):
        GateTraining(*arguments).run(CheckpointStore(stopping, ["run"], print))
    keeper = CheckpointStore(Checkpoints(tmp_path, 0), ["run"], print)
    resumed = GateTraining(*arguments).run(keeper)
    assert resumed[2] > 0
    assert str(resumed[0]) == str(whole[0])
    torch.testing.assert_close(resumed[1], whole[1], rtol=0, atol=0)


def test_the_first_training_of_a_model_that_sees_padding_has_no_padding(directory_of):
    model, rows = loaded(TASK, directory_of("fnet"))
    selection = SELECTION.validate_python({"diff_pruning": {"share": SHARE}})
    spec = examples.run_spec(selection, **RECIPE).replace(seed=SEED)
    without = replace(model, transformers=replace(model.transformers, sees_padding=True))
    settings = selection.diff_pruning
    arguments = rows["train"], TASK, spec.recipe, SEED, settings
    (expected, *_), (padded, *_) = (GateTraining(m, *arguments).run() for m in (without, model))
    [(_, result, _)] = train_runs(model, rows, {"run": spec}, {}, lambda *of: None)
    chosen = {name: entry.flat for name, entry in expected.items() if not is_classifier(name)}
    assert {name: result.delta[name + INDEX].tolist() for name in chosen} == {
        name: flat.tolist() for name, flat in chosen.items()
    }
    assert str(expected) != str(padded)


def test_the_seconds_of_the_first_training_count(tiny_bert, monkeypatch):
    model, rows = loaded(TASK, tiny_bert)
    selection = SELECTION.validate_python({"diff_pruning": {"share": SHARE}})
    spec = examples.run_spec(selection, **RECIPE | {"epochs": 2})
    take_step = GateTraining.take_step

    def take_long_step(training):
        take_step(training)
        training.seconds += 100

    monkeypatch.setattr(GateTraining, "take_step", take_long_step)
    [(_, result, _)] = train_runs(model, rows, {"run": spec}, {}, lambda *of: None)
    steps = 2 * math.ceil(len(rows["train"]) / spec.recipe.batch_size)
    first, second = (row["seconds"] for row in result.history)
    assert 100 * steps < first < 100 * steps + 50
    assert second < 50
