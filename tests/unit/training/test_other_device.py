"""Training, evaluation and Fisher information leave no tensor behind on the CPU."""

import subprocess
import sys

import pytest


def on_other_device(directory, *arguments):
    """Run a training on a device without values in a process of its own."""
    command = [sys.executable, "-m", "tests.helpers.other_device", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "task", "kinds", "precision"),
    [
        ("tiny_bert", "sst2", "full,layernorm,top", "fp32"),
        pytest.param(
            "tiny_roberta", "stsb", "rand_row_col,lora-II", "bf16", marks=pytest.mark.nightly
        ),
        # Through transformers' own code.
        pytest.param("modernbert", "stsb", "layernorm", "fp32", marks=pytest.mark.nightly),
    ],
)
def test_every_tensor_is_where_the_model_is(model, task, kinds, precision, request, directory_of):
    packed = model.startswith("tiny")
    directory = request.getfixturevalue(model) if packed else directory_of(model)
    done = on_other_device(directory, task, kinds, precision)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_tensor_that_is_left_behind_is_noticed(tiny_bert):
    done = on_other_device(tiny_bert, "sst2", "bitfit", "fp32", "--mistake")
    assert done.returncode != 0
    assert "found at least two devices, fakegpu:0 and cpu" in done.stderr
