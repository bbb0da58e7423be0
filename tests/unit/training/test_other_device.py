"""Training, evaluation and Fisher information leave no tensor behind on the CPU."""

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "task", "kinds", "precision"),
    [
        ("tiny_bert", "sst2", "layernorm,top", "fp32"),
        pytest.param(
            "tiny_roberta", "stsb", "rand_row_col,lora-II", "bf16", marks=pytest.mark.nightly
        ),
        # Through transformers' own code.
        pytest.param("modernbert", "stsb", "layernorm", "fp32", marks=pytest.mark.nightly),
    ],
)
def test_every_tensor_is_where_the_model_is_and_one_that_is_not_is_noticed(
    model, task, kinds, precision, request, directory_of
):
    packed = model.startswith("tiny")
    directory = request.getfixturevalue(model) if packed else directory_of(model)
    command = [sys.executable, "-m", "tests.helpers.other_device", str(directory)]
    done = subprocess.run([*command, task, kinds, precision], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
