"""Deltas in memory and in a file."""

import pytest
import safetensors.numpy
import torch

from subtune.training.delta import (
    AddedUpdate,
    ChangedEntries,
    ChangedTensor,
    applied,
    from_stored,
    to_stored,
)

DELTA = {
    "bias": ChangedTensor(torch.tensor([5.0, 6.0])),
    "sparse": ChangedEntries(torch.tensor([7.0, 8.0]), torch.tensor([0, 3])),
    "adapted": AddedUpdate(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]), 0.5),
}
STORED = [
    "bias",
    "sparse",
    "sparse.index",
    "adapted.lora_A",
    "adapted.lora_B",
    "adapted.lora_scale",
]


def test_a_file_has_a_name_for_every_part_of_a_change():
    assert list(to_stored(DELTA)) == STORED


def test_a_delta_comes_back_from_its_file(tmp_path):
    path = tmp_path / "delta.safetensors"
    stored = {name: values.numpy() for name, values in to_stored(DELTA).items()}
    safetensors.numpy.save_file(stored, path)
    delta = from_stored(safetensors.numpy.load_file(path))
    assert {name: type(c) for name, c in delta.items()} == {n: type(c) for n, c in DELTA.items()}
    assert all(torch.equal(v, to_stored(DELTA)[n]) for n, v in to_stored(delta).items())
    assert delta["adapted"].scale == 0.5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bias", [5.0, 6.0]),
        ("sparse", [[7.0, 1.0], [1.0, 8.0]]),
        ("adapted", [[2.5, 4.0], [3.0, 5.0]]),
        ("frozen", [1.0]),
    ],
)
def test_applied_a_delta_changes_what_trained_and_nothing_else(name, expected):
    ones = {"bias": torch.ones(2), "sparse": torch.ones(2, 2), "adapted": torch.ones(2, 2)}
    parameters = ones | {"frozen": torch.ones(1)}
    assert applied(parameters, DELTA)[name].tolist() == expected
    assert all((value == 1).all() for value in parameters.values())
