"""The same bits come out of a run whatever trains beside it, and in whatever order."""

import pytest

from subtune.models.encoder import load_model
from subtune.training.sweeps import train_sweep
from tests.helpers import examples
from tests.unit.training.results import assert_same, member

KINDS = ("layernorm", "bitfit", "top", "lora-I", "bitfit", "lora-I")


@pytest.mark.parametrize(
    ("name", "batch_size"), [("sst2", 11), pytest.param("stsb", 3, marks=pytest.mark.nightly)]
)
def test_a_run_has_the_same_bits_alone_and_beside_others_in_any_order(name, batch_size, minilm):
    """Twelve rows in batches of 11 leave a batch of one."""
    task = examples.TASKS[name]
    rows = examples.examples_of(task, examples.tokens(task, minilm))
    model = load_model(minilm, task.of_kind.head, task.outputs)
    members = {
        str(number): member(kind, model, batch_size=batch_size, epochs=1)
        for number, kind in enumerate(KINDS)
    }

    def results(side_by_side, order):
        chosen = {name: members[name] for name in order}
        found = dict(train_sweep(model, rows, task, chosen, lambda line: None, side_by_side))
        return [found[name] for name in members]

    alone = results(1, members)
    assert_same(results(2, members), alone)
    assert_same(results(4, reversed(members)), alone)
