"""Check on a CPU that training works on another device, with a fake device.

    python -m tests.helpers.other_device MODEL TASK KIND,…

Tensors on the fake device have shapes but no values. This is a script, because the device is
registered for the whole process. It trains, evaluates, continues from a checkpoint on the CPU, and
estimates Fisher information. It fails if an operation has tensors on two devices. As a last check,
it leaves the labels on the CPU and expects this failure.
"""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

# Imported before torch's classes are replaced, because its first import reads them.
import transformers.initialization
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from subtune.models.encoder import load_encoder
from subtune.tasks import TASKS
from subtune.training import recipe
from subtune.training.checkpoints import State
from subtune.training.fisher_information import fisher_information
from subtune.training.recipe import Run, train
from subtune.training.values import is_matrix
from tests.helpers import examples

DEVICE = "fakegpu"
# Values of a truncated normal distribution are drawn until all are within its bounds, but fake
# tensors have no values.
transformers.initialization.TORCH_INIT_FUNCTIONS["trunc_normal_"] = lambda tensor, **_: tensor


class OnHost:
    """A checkpoint keeper that stores the first states of a training on the CPU, as files do."""

    states: list[State] | None = None

    def read_newest(self) -> list[State] | None:
        return self.states

    def write_if_due(self, take: Callable[[], list[State]]) -> None:
        self.states = self.states or tree_map(on_host, take())


def on_host(value: object) -> object:
    """Move a part of a state to the CPU.

    The state of a random generator is always a real CPU tensor, so it is returned unchanged.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return value.detach().cpu() if isinstance(value, FakeTensor) else value


def stand_in(mode: FakeTensorMode) -> None:
    """Patch torch so that copies between CPU and fake device work.

    Copies to NumPy or Python are zeros of the right shape.
    """
    from_numpy, generator = torch.from_numpy, torch.Generator
    torch.from_numpy = lambda array: mode.from_tensor(from_numpy(array))
    # The fake device has no random generator and no autocast, and this check needs neither.
    torch.Generator = lambda device="cpu": generator("cpu")
    torch.autocast = lambda *arguments, **options: contextlib.nullcontext()

    def numpy(tensor: Tensor) -> np.ndarray:
        assert tensor.device.type == "cpu", "numpy cannot read another device"
        return np.zeros(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))

    Tensor.numpy = numpy
    Tensor.item = lambda tensor: 0
    Tensor.tolist = lambda tensor: np.zeros(tuple(tensor.shape)).tolist()


def main(directory: str, task_name: str, kinds: str) -> None:
    _setup_privateuseone_for_python_backend(DEVICE)
    task = TASKS[task_name]
    model = load_encoder(Path(directory), task.of_kind.head, task.outputs)
    tokens = examples.tokens(task, Path(directory), rows=8, evaluation=4)
    split_examples = examples.examples_of(task, tokens)
    mode = FakeTensorMode()
    stand_in(mode)
    with mode:
        moved = {n: mode.from_tensor(v).to(DEVICE) for n, v in model.parameters.items()}
        there = replace(model, parameters=moved)
        if model.transformers is not None:
            buffers = {
                n: mode.from_tensor(v).to(DEVICE) for n, v in model.transformers.buffers.items()
            }
            there = replace(there, transformers=replace(model.transformers, buffers=buffers))
        for kind in kinds.split(","):
            entries = examples.entries_of(kind, model)
            alone = any(is_matrix(model, name, entry) for name, entry in entries.items())
            run = Run(entries, examples.recipe(epochs=1), 0)
            runs = [run] * (1 if alone else 2)
            keeper = OnHost()
            for _ in ("from the start", "from the state"):
                for result in train(there, split_examples, task, runs, keeper=keeper):
                    assert len(result.history) == 1
        for in_full in ((), there.parameters):
            fisher_information(there, tokens["train"], task, in_full=in_full)
        pack = recipe.pack_micro_batches
        recipe.pack_micro_batches = lambda *of: [
            (places, replace(packed, labels=packed.labels.cpu())) for places, packed in pack(*of)
        ]
        with pytest.raises(RuntimeError, match=f"at least two devices, {DEVICE}:0 and cpu"):
            train(there, split_examples, task, runs)


if __name__ == "__main__":
    main(*sys.argv[1:])
