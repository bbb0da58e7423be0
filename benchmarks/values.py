"""Compare trained values with and without CUDA graphs, and of runs side by side and alone.

A small BERT is trained in float32 without dropout.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel, BertConfig

from benchmarks import inputs
from subtune.core.errors import error_reason
from subtune.methods import Selection, find_selection
from subtune.methods.rules import choose_entries
from subtune.methods.single_entries import ChosenEntries
from subtune.models.encoder import Encoder
from subtune.runs.spec import RunSpec
from subtune.training.groups import train_runs
from subtune.training.training_step import Graphs

SHAPE = BertConfig(
    vocab_size=30_522,
    hidden_size=64,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=128,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
MASK = "30 % of LayerNorm"
METHODS = (
    *("layernorm", "bitfit", MASK, "rand_row_col", "rand_uniform", "lora", "lora-II"),
    *("SPAFIT-0-1-I", "full", "adapter", "adapter-pfeiffer", "ia3", "vera"),
)
RATES = (1e-4, 3e-4, 1e-3)
# A learning rate so small that all values stay as they were.
ZERO_RATE = 1e-30
STEPS, EPOCHS = 5, 4
# The bias of a key does not change the attention. Its gradient is only rounding error, which AdamW
# scales up to full steps.
WITHOUT_EFFECT = ".key.bias"


def measure(
    glue_dir: Path, tasks: Sequence[str], methods: Sequence[str] = METHODS
) -> Iterator[dict[str, Any]]:
    """Train each method in two ways, and yield one row per task, method and comparison.

    In a row, the *difference* is that between the two ways, the *change* that between trained and
    initial values, and *norm* is the L2 norm over all runs and tensors except key biases:

    * ``of_movement``: ``norm(difference) / norm(change)``;
    * ``of_values``: ``norm(difference) / norm(values)``;
    * ``moved``: ``norm(change) / norm(values)``;
    * ``largest``: ``max(abs(difference)) / max(abs(change))``;
    * ``worst``: the name of the tensor with the largest difference;
    * ``keys``: ``max(abs(difference))`` of key biases.
    """
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        AutoModel.from_config(SHAPE).save_pretrained(folder)
        for task in tasks:
            # Five examples fewer, so that the last batch is smaller than the others.
            rows = STEPS * inputs.BATCH - 5
            setting = inputs.load_glue(task, glue_dir, Path(folder), train=rows, others=1)
            for method in methods:
                about = {"task": setting.task.title, "method": method}
                try:
                    for row in _compare_ways(setting, method):
                        yield about | row
                # Continue with the other methods, whatever the error.
                except Exception as error:
                    yield about | {"problem": error_reason(error)[:300]}


def _compare_ways(setting: inputs.Setting, method: str) -> list[dict[str, Any]]:
    selection: Selection = ChosenEntries(entries=MASK)
    if method != MASK:
        selection = find_selection(method, {})
    still, *specs = (
        inputs.run_spec(
            setting.task, selection, inputs.linear_recipe(rate, EPOCHS).replace(refit=EPOCHS)
        )
        for rate in (ZERO_RATE, *RATES)
    )
    (start,) = _trained_values(setting, [still])
    beside = _trained_values(setting, specs)
    alone = [values for spec in specs for values in _trained_values(setting, [spec])]
    compared = {"side by side, alone": (beside, alone)}
    if inputs.device() == "cuda":
        with patch.object(Graphs, "_capture", lambda *_: None):
            compared["graph, no graph"] = beside, _trained_values(setting, specs)
    return [
        {"compared": name} | _compare_values(found, expected, start)
        for name, (found, expected) in compared.items()
    ]


def _trained_values(setting: inputs.Setting, specs: list[RunSpec]) -> list[dict[str, Tensor]]:
    """Train runs side by side; return the float values of their deltas in float64, by name."""
    runs = {str(number): spec for number, spec in enumerate(specs)}
    masks = {MASK: _draw_mask(setting.model)}
    trained = train_runs(setting.model, setting.examples, runs, masks, _print_warnings)
    deltas = {name: result.delta for name, result, _ in trained}
    return [
        {
            name: values.double().cpu()
            for name, values in deltas[run].items()
            if values.is_floating_point()
        }
        for run in runs
    ]


def _draw_mask(model: Encoder) -> dict[str, np.ndarray]:
    """Draw 30 % of all LayerNorm entries."""
    shapes = {name: of for name, of in model.shapes.items() if ".output.LayerNorm." in name}
    random = np.random.default_rng(0)
    scores = {name: random.random(of) for name, of in shapes.items()}
    return choose_entries(scores, int(0.3 * sum(map(math.prod, shapes.values()))))


def _print_warnings(line: str, *_: Any) -> None:
    """Print log lines other than the progress of epochs."""
    if "epoch" not in line:
        print(line, flush=True)


def _compare_values(
    found: list[dict[str, Tensor]], expected: list[dict[str, Tensor]], start: dict[str, Tensor]
) -> dict[str, Any]:
    """Compute the statistics of `measure` from the values of the same runs in two ways."""
    ours, theirs = (
        {name: torch.stack([of[name] for of in every]) for name in start}
        for every in (found, expected)
    )
    differ = {name: ours[name] - theirs[name] for name in start}
    moved = {name: theirs[name] - start[name] for name in start}
    keys = [name for name in start if name.endswith(WITHOUT_EFFECT)]
    others = [name for name in start if name not in keys]
    worst = max(others, key=lambda name: _largest(differ, [name]))
    return {
        "moved": _norm(moved, others) / _norm(theirs, others),
        "of_movement": _norm(differ, others) / _norm(moved, others),
        "of_values": _norm(differ, others) / _norm(theirs, others),
        "largest": _largest(differ, others) / _largest(moved, others),
        "worst": worst,
        "keys": _largest(differ, keys),
    }


def _norm(of: dict[str, Tensor], names: list[str]) -> float:
    return math.sqrt(sum(float(of[name].square().sum()) for name in names))


def _largest(of: dict[str, Tensor], names: list[str]) -> float:
    return max((float(of[name].abs().max()) for name in names), default=0.0)
