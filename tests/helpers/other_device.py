"""Training on another device than the CPU, without one: its tensors have shapes and no values.

Run as a script, because it registers a device for its whole process:

python -m tests.helpers.other_device MODEL TASK KIND,…

It trains, evaluates, continues from a state on the CPU and estimates Fisher information, and fails
if tensors of two devices meet. As a last check, it leaves labels on the CPU and expects the
failure.
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
import transformers.initialization  # noqa: F401
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


class OnHost:
    """Keeps the first states of a training as files would: on the CPU."""

    states: list[State] | None = None

    def newest(self) -> list[State] | None:
        return self.states

    def keep(self, take: Callable[[], list[State]]) -> None:
        self.states = self.states or tree_map(on_host, take())


def on_host(value: object) -> object:
    """Return a part of a state as a file would keep it.

    A generator's state is always a real tensor on the CPU.
    """
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return value.detach().cpu() if isinstance(value, FakeTensor) else value


def stand_in(mode: FakeTensorMode) -> None:
    """Let values cross between host and device: what comes back is zeros of the right shape."""
    from_numpy, generator = torch.from_numpy, torch.Generator
    torch.from_numpy = lambda array: mode.from_tensor(from_numpy(array))
    # The device has no random numbers and no autocast of its own; nothing is dropped or cast here.
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
        pack = recipe.pack
        recipe.pack = lambda *of: replace(pack(*of), labels=pack(*of).labels.cpu())
        with pytest.raises(RuntimeError, match=f"at least two devices, {DEVICE}:0 and cpu"):
            train(there, split_examples, task, runs)


if __name__ == "__main__":
    main(*sys.argv[1:])
