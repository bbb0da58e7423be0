"""Measure trained parameters, time and memory of each method in docs/leaderboard.md.

Each method trains alone: MiniLM on 1,000 examples of SST-2, as in examples/leaderboard.yaml. The
time is measured in the last epoch, because a GPU captures CUDA graphs in the first ones. Memory is
the peak memory of tensors on a GPU, without the pretrained model. It is not measured on a CPU.
"""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks import inputs
from subtune.methods import find_selection
from subtune.training.groups import train_runs

EXAMPLE = Path(__file__).parents[1] / "examples" / "leaderboard.yaml"
TASK, ROWS, BATCH = "sst2", 1000, 32
EPOCHS = {"cpu": 1, "cuda": 4}
# Evaluate on one example, so that evaluation takes almost no time.
EVALUATED = 1
MEGABYTE = 2**20


def leaderboard_methods() -> list[str]:
    """Return the methods of the leaderboard that have learning rates."""
    trial = yaml.safe_load(EXAMPLE.read_text("utf-8"))["experiments"]["leaderboard"]
    return [method for method, rates in trial["methods"].items() if rates]


def measure(glue_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield one row per method: its number of trained parameters, time per step, and memory."""
    setting = inputs.load_glue(TASK, glue_dir, train=ROWS, others=EVALUATED)
    steps = -(-ROWS // BATCH)
    recipe = inputs.linear_recipe(1e-3, EPOCHS[inputs.device()]).replace(batch_size=BATCH)
    for method in leaderboard_methods():
        before = _reset_peak_memory()
        runs = {method: inputs.run_spec(setting.task, find_selection(method, {}), recipe)}
        [(_, result, _)] = train_runs(setting.model, setting.examples, runs, {}, lambda *line: None)
        row = {"method": method, "parameters": result.trainable}
        row["milliseconds"] = 1000 * result.history[-1]["seconds"] / steps
        if before is not None:
            row["megabytes"] = (torch.cuda.max_memory_allocated() - before) / MEGABYTE
        yield row


def _reset_peak_memory() -> int | None:
    """Reset the peak memory of the GPU; return the bytes in use, or None on a CPU."""
    gc.collect()
    if not torch.cuda.is_available():
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()
