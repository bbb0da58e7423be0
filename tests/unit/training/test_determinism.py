"""The same bits come out of a run whatever trains beside it, and in whatever order."""

import pytest
import torch

from subtune.models.load import load_model
from subtune.training.delta import to_stored
from subtune.training.recipe import Member
from subtune.training.sweeps import train_sweep
from tests.helpers import examples

KINDS = ("layernorm", "bitfit", "top", "lora-I", "bitfit", "lora-I")


def results_of(model, rows, task, members, side_by_side):
    """History, scores and delta of every member, by name."""
    results = train_sweep(model, rows, task, members, lambda line: None, side_by_side)
    return {name: (r.history, r.best.scores, to_stored(r.best.delta)) for name, r in results}


def assert_same_bits(results, expected):
    assert results.keys() == expected.keys()
    for name, (history, scores, delta) in results.items():
        for of_epoch, of_expected in zip(history, expected[name][0], strict=True):
            assert of_epoch | {"seconds": 0} == of_expected | {"seconds": 0}
        assert scores == expected[name][1]
        torch.testing.assert_close(delta, expected[name][2], rtol=0, atol=0)


# Twelve rows in batches of 11 leave a batch of one.
@pytest.mark.parametrize(("name", "batch_size"), [("sst2", 11), ("stsb", 3)])
def test_a_run_has_the_same_bits_alone_and_beside_others_in_any_order(name, batch_size, minilm):
    task = examples.TASKS[name]
    rows = examples.examples_of(task, examples.tokens(task, minilm))
    model = load_model(minilm, task.of_kind.head, task.outputs)
    recipe = examples.recipe(batch_size=batch_size, epochs=2)
    members = {
        str(number): Member(examples.entries_of(kind, model), recipe, seed=0)
        for number, kind in enumerate(KINDS)
    }
    alone = results_of(model, rows, task, members, 1)
    for side_by_side in (2, 4):
        assert_same_bits(results_of(model, rows, task, members, side_by_side), alone)
        members = dict(reversed(members.items()))
