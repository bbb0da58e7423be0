"""The memory of a training step, beside the estimate that decides how many runs fit."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import inputs
from subtune.data.batches import by_length
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder, shapes_of
from subtune.models.forward import logits
from subtune.models.packed import Packed, pack
from subtune.selections.entries import Entries
from subtune.selections.methods import METHODS
from subtune.training.activations import step_bytes
from subtune.training.matrices import Matrices
from subtune.training.stacked import StackedParameters


def measure(glue_dir: Path, tasks: list[str], runs: int = 4) -> list[dict[str, Any]]:
    """One row per task and method: bytes that are allocated at once, and the estimate."""
    return [row for task in tasks for row in _measure(inputs.glue(task, glue_dir), runs)]


def _measure(setting: inputs.Setting, runs: int) -> list[dict[str, Any]]:
    train = setting.examples["train"]
    index = np.arange(inputs.BATCH)
    batch = pack(train, by_length(index, train.lengths), setting.model)
    measured = []
    for method in ("layernorm", "bitfit", "lora-II"):
        entries = METHODS[method].resolve(shapes_of(setting.model), seed=0)
        grids = [grid.size for grid in batch.grids]
        run, once = step_bytes(setting.model, entries, len(batch.ids), grids)
        measured.append(
            {
                "task": setting.task.title,
                "method": method,
                "runs": runs,
                "estimated": runs * run + once,
                "allocated": peak_bytes(setting.model, entries, runs, batch),
            }
        )
    return measured


def peak_bytes(model: Encoder, entries: Entries, runs: int, batch: Packed) -> int:
    """The most that is allocated at once while two steps are made."""
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        _two_steps(model, entries, runs, batch)
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        _two_steps(model, entries, runs, batch)
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


def _two_steps(model: Encoder, entries: Entries, runs: int, batch: Packed) -> None:
    stacked, matrices = StackedParameters(model, [entries] * runs, seed=0), Matrices(model, entries)
    optimizers = [
        torch.optim.AdamW([values, *matrices.leaves], fused=True) for values in stacked.values
    ]
    for _ in range(2):
        masks = DropoutMasks(0, model.device)
        trained = stacked.weights() | matrices.weights()
        logits(model, batch, trained, masks).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        matrices.write()
