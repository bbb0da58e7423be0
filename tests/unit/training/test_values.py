"""Deltas in memory and in a file."""

import safetensors.numpy
import safetensors.torch
import torch

from subtune.training.values import (
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


def test_a_delta_comes_back_from_its_file(tmp_path):
    path = tmp_path / "delta.safetensors"
    stored = to_stored(DELTA)
    update = ["adapted.lora_A", "adapted.lora_B", "adapted.lora_scale"]
    assert list(stored) == ["bias", "sparse", "sparse.index", *update]
    safetensors.torch.save_file(stored, path)
    delta = from_stored(safetensors.numpy.load_file(path))
    assert {name: type(c) for name, c in delta.items()} == {n: type(c) for n, c in DELTA.items()}
    torch.testing.assert_close(to_stored(delta), stored, rtol=0, atol=0)


def test_an_applied_delta_changes_trained_values_alone():
    ones = {"bias": torch.ones(2), "sparse": torch.ones(2, 2), "adapted": torch.ones(2, 2)}
    parameters = ones | {"frozen": torch.ones(1)}
    assert {name: values.tolist() for name, values in applied(parameters, DELTA).items()} == {
        "bias": [5.0, 6.0],
        "sparse": [[7.0, 1.0], [1.0, 8.0]],
        "adapted": [[2.5, 4.0], [3.0, 5.0]],
        "frozen": [1.0],
    }
    assert all((value == 1).all() for value in parameters.values())
