"""Training, evaluation and Fisher information leave no tensor behind on the CPU."""

import subprocess
import sys

import pytest

KINDS = "full,bitfit,top,random,rand_row_col,lora-II,frozen"


def on_other_device(directory, *arguments):
    """Run a training on a device without values in a process of its own."""
    command = [sys.executable, "-m", "tests.helpers.other_device", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fixture", "task", "precisions"),
    [("tiny_bert", "sst2", "fp32,bf16"), ("tiny_roberta", "stsb", "fp32")],
)
def test_every_tensor_is_where_the_model_is(fixture, task, precisions, request):
    done = on_other_device(request.getfixturevalue(fixture), task, KINDS, precisions)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "task"), [("electra", "sst2"), ("modernbert", "stsb")])
def test_every_tensor_of_transformers_own_models_is_where_the_model_is(family, task, directory_of):
    done = on_other_device(directory_of(family), task, "layernorm,lora-II", "fp32")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_tensor_that_is_left_behind_is_noticed(tiny_bert):
    done = on_other_device(tiny_bert, "sst2", "bitfit", "fp32", "--mistake")
    assert done.returncode != 0
    assert "found at least two devices, fakegpu:0 and cpu" in done.stderr
