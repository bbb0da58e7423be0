"""Groups of runs that train side by side."""

import pytest

from subtune.data.batches import CPU_TOKENS
from subtune.training.sweeps import group_runs, runs_at_once
from tests.unit.training.results import member


@pytest.fixture
def train_rows(rows):
    return rows["train"]


def test_runs_share_a_pass_whatever_vectors_they_train_and_however_fast(model, train_rows):
    members = [
        member("layernorm", model),
        member("bitfit", model, learning_rate=1e-4),
        member("layernorm", model, schedule="constant", weight_decay=0.1, max_grad_norm=9.0),
    ]
    assert group_runs(model, train_rows, members) == [[0, 1, 2]]


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "layernorm", "seed": 1},
        {"kind": "layernorm", "batch_size": 8},
        {"kind": "layernorm", "epochs": 3},
        {"kind": "layernorm", "train_rows": 5},
        {"kind": "layernorm", "precision": "bf16"},
        {"kind": "layernorm", "class_weights": "balanced"},
        {"kind": "lora-I"},
        {"kind": "full"},
        {"kind": "rand_row_col"},
        # Alone it needs no backward pass through the encoder.
        {"kind": "frozen"},
    ],
    ids=lambda other: "-".join(map(str, other.values())),
)
def test_runs_of_another_kind_do_not(other, model, train_rows):
    members = [member("layernorm", model), member(model=model, **other)] * 2
    others = [[1], [3]] if other["kind"] in ("full", "rand_row_col") else [[1, 3]]
    assert group_runs(model, train_rows, members) == [[0, 2], *others]


def test_a_pass_holds_as_many_runs_as_it_may(model, train_rows):
    members = [member("layernorm", model)] * 7
    assert group_runs(model, train_rows, members, max_side_by_side=3) == [[0, 1, 2], [3, 4, 5], [6]]


def test_on_a_cpu_the_tokens_of_a_pass_are_bounded(model, train_rows):
    members = [member("layernorm", model, batch_size=4)] * 100
    runs = runs_at_once(model, train_rows, members)
    tokens = train_rows.lengths.mean() * 4
    assert runs * tokens <= CPU_TOKENS < (runs + 1) * tokens
    assert runs_at_once(model, train_rows, [member("layernorm", model, batch_size=10**6)]) >= 1
