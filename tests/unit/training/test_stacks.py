"""Runs that train matrices side by side, as on a GPU, compared with each run alone."""

from dataclasses import replace

import pytest
import torch

from subtune.models.encoder import load_encoder
from subtune.tasks import TASKS
from subtune.training import recipe
from subtune.training.deltas import delta_to_tensors
from subtune.training.groups import reason_to_train_alone
from subtune.training.recipe import train
from tests.helpers import examples
from tests.unit.training.results import in_double, member

KINDS = ["full", "rand_row_col", "top", "rand_uniform", "lora-II", "bitfit", "layernorm"]
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def deltas(model, rows, members, task):
    return [delta_to_tensors(of.delta) for of in train(model, rows, task, members)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["sst2", "stsb"])
def test_runs_side_by_side_are_the_runs_alone(kind, task, tiny_bert, monkeypatch):
    task = TASKS[task]
    model = in_double(load_encoder(tiny_bert, task.of_kind.head, task.outputs))
    rows = examples.examples_of(task, examples.tokens(task, tiny_bert))
    members = [
        member(kind, model, learning_rate=rate, weight_decay=decay, max_grad_norm=norm)
        for rate, decay, norm in ((1e-3, 0.0, 1.0), (3e-3, 0.1, 0.5), (1e-2, 0.0, 1e-3))
    ]
    alone = [deltas(model, rows, [one], task)[0] for one in members]
    # Batches as on a GPU, with a tail, and with attention within examples.
    pack = recipe.pack
    monkeypatch.setattr(recipe, "pack", lambda *of: replace(pack(*of[:3], True), buckets=()))
    together = deltas(model, rows, members, task)
    torch.testing.assert_close(together, alone, **EXACT)


@pytest.mark.parametrize("kind", ["full", "rand_uniform"])
def test_gradients_of_parts_of_one_length_add_up(kind, directory_of, monkeypatch):
    task = TASKS["sst2"]
    directory = directory_of("gpt2")
    model = in_double(load_encoder(directory, task.of_kind.head, task.outputs))
    rows = examples.examples_of(task, examples.tokens(task, directory))
    members = [member(kind, model, learning_rate=rate) for rate in (1e-3, 3e-3)]
    alone = [deltas(model, rows, [one], task)[0] for one in members]
    sees_padding = replace(model.transformers, sees_padding=True)
    together = deltas(replace(model, transformers=sees_padding), rows, members, task)
    torch.testing.assert_close(together, alone, **EXACT)
    assert reason_to_train_alone(model, rows["train"], members) is None
