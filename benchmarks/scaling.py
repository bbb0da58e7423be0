"""Measure the time of a training step by model size, example length and number of runs.

Weights are random, because the time does not depend on them. The token ids are those of GLUE.
"""

import gc
import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from transformers import AutoModel, BertConfig

from benchmarks import inputs, trainer
from benchmarks.measurements import flops_per_token, time_epochs
from subtune.core.errors import SubtuneError, error_reason
from subtune.runs.spec import Precision
from subtune.tasks import TASKS
from subtune.training import recipe
from subtune.training.groups import runs_at_once
from subtune.training.recipe import Run, train

VOCABULARY = 30_522
SHAPES = {
    "MiniLM": BertConfig(
        vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, intermediate_size=1536
    ),
    "BERT-base": BertConfig(vocab_size=VOCABULARY),
    "BERT-large": BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
}
CPU_RUNS = (1, 2, 4, 8, 16)
# Larger models are measured only in fp32, which already takes minutes.
CPU_PRECISIONS: dict[str, tuple[Precision, ...]] = {
    "MiniLM": ("fp32", "bf16"),
    "BERT-base": ("fp32",),
    "BERT-large": ("fp32",),
}
CPU_TURNS = {"MiniLM": 3, "BERT-base": 1, "BERT-large": 1}
GPU_RUNS = {"full": (1, 4, 8), "layernorm": (1, 8, 32), "lora": (8,)}
STEPS = {"MiniLM": 8, "BERT-base": 4, "BERT-large": 1}
GPU_STEPS = 24
# The last epoch is timed, because a GPU captures and compiles steps in the first ones.
EPOCHS = {"cpu": 2, "cuda": 4}
TRAINER, SUBTUNE = "Trainer", "subtune"
COMPILED = ", torch.compile"


class Cell(NamedTuple):
    """One measurement: runs of one method on one task, which train side by side."""

    model: str
    task: str
    way: str
    method: str
    precision: Precision
    runs: int


def cells_of_device(models: Sequence[str], tasks: Sequence[str]) -> list[Cell]:
    """Return the cells for this machine's device, in the order of their measurement."""
    device_cells = _gpu_cells if inputs.device() == "cuda" else _cpu_cells
    return [cell for model in models for cell in device_cells(model, tasks)]


def _cpu_cells(model: str, tasks: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells for a CPU, all of them with LayerNorm tuning.

    The Trainer and subtune alternate `CPU_TURNS` times, and the shortest time is reported.
    """
    for task, _, precision in itertools.product(
        tasks, range(CPU_TURNS[model]), CPU_PRECISIONS[model]
    ):
        ways = [(TRAINER, 1), *((SUBTUNE, runs) for runs in CPU_RUNS)]
        if precision == "bf16":
            ways.insert(1, (TRAINER + COMPILED, 1))
        for way, runs in ways:
            yield Cell(model, task, way, "layernorm", precision, runs)


def _gpu_cells(model: str, tasks: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells for a GPU: several methods, the largest numbers of runs first.

    The compiled Trainer comes last, because its compilation takes a minute.
    """
    ours = [(method, runs) for method, counts in GPU_RUNS.items() for runs in counts]
    first = [("full", max(GPU_RUNS["full"])), ("layernorm", max(GPU_RUNS["layernorm"]))]
    others = [cell for cell in ours if cell not in first]
    trainers = [("full", 1), ("layernorm", 1)]
    parts = [
        ((SUBTUNE + COMPILED, SUBTUNE), first),
        ((TRAINER,), trainers),
        ((SUBTUNE + COMPILED, SUBTUNE), others),
        ((TRAINER + COMPILED,), trainers),
    ]
    for (ways, methods), task in itertools.product(parts, tasks):
        for (method, runs), way in itertools.product(methods, ways):
            yield Cell(model, task, way, method, "bf16", runs)


class Settings:
    """Loads models with random weights and tokenized tasks, and caches those of the last model."""

    def __init__(self, glue_dir: Path, folder: Path, rows: int | None = None):
        self._glue_dir, self._folder, self._rows = glue_dir, folder, rows
        self._model = ""
        self._settings: dict[str, inputs.Setting] = {}
        self._flops: dict[tuple[str, str], float] = {}

    def load(self, model: str, task: str) -> inputs.Setting:
        """Load a model and the training examples that its measured steps need."""
        if model != self._model:
            self._model = model
            self._settings, self._flops = {}, {}
            AutoModel.from_config(SHAPES[model]).save_pretrained(self._folder)
        if task not in self._settings:
            rows = inputs.BATCH * (GPU_STEPS if inputs.device() == "cuda" else STEPS[model])
            rows = min(rows, self._rows or rows)
            self._settings[task] = inputs.load_glue(
                task, self._glue_dir, self._folder, train=rows, others=1
            )
        return self._settings[task]

    def flops_per_token(self, cell: Cell) -> float:
        """Return the FLOPs of a run of this cell per training token."""
        setting = self.load(cell.model, cell.task)
        key = cell.task, cell.method
        if key not in self._flops:
            (member,) = inputs.runs_of_method(setting.model, cell.method, (1e-3,), epochs=1)
            self._flops[key] = flops_per_token(setting, member)
        return self._flops[key]


def runs_of_cell(cell: Cell, setting: inputs.Setting, epochs: int) -> list[Run]:
    """Build the runs of a cell, which are all equal."""
    rates = (1e-4,) * cell.runs
    return inputs.runs_of_method(setting.model, cell.method, rates, epochs, cell.precision)


def measure(
    glue_dir: Path, cells: Sequence[Cell], rows: int | None = None, seconds: float = math.inf
) -> Iterator[dict[str, Any]]:
    """Measure cells one by one, and yield the row of each; start none after ``seconds``.

    At most ``rows`` training examples are used. ``seconds`` of a row is the time of a step divided
    by the number of runs, ``first_epoch`` the seconds of the first epoch, and ``gigabytes`` the
    peak memory of the GPU. If the cell failed, its row has the error as ``problem`` instead.
    """
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(glue_dir, Path(folder), rows)
        for cell in cells:
            if time.monotonic() > end:
                yield {"stopped_before": list(cell)}
                break
            try:
                row = _measure(cell, settings)
            # Continue with the other cells, whatever the error.
            except Exception as error:
                row = {"problem": error_reason(error)[:300]}
            yield cell._asdict() | {"task": TASKS[cell.task].title} | row
            # Free the memory of the cell.
            gc.collect()
            if inputs.device() == "cuda":
                torch.cuda.empty_cache()


def _measure(cell: Cell, settings: Settings) -> dict[str, Any]:
    setting = settings.load(cell.model, cell.task)
    if inputs.device() == "cuda":
        torch.cuda.reset_peak_memory_stats()
    first, *_, last = _time_epochs(cell, setting)
    memory = torch.cuda.max_memory_allocated() / 1e9 if inputs.device() == "cuda" else None
    seconds_of_step = last / cell.runs / setting.steps
    tokens = float(setting.examples["train"].lengths.sum()) / setting.steps
    return {
        "tokens": tokens,
        "seconds": seconds_of_step,
        "tokens_per_second": tokens / seconds_of_step,
        "flops_per_second": settings.flops_per_token(cell) * tokens / seconds_of_step,
        "first_epoch": first,
        "gigabytes": memory,
    }


def _time_epochs(cell: Cell, setting: inputs.Setting) -> list[float]:
    """Train the runs of a cell; return the seconds of each epoch, without evaluation."""
    way, is_compiled = cell.way.removesuffix(COMPILED), cell.way.endswith(COMPILED)
    if way == TRAINER:
        (run,) = runs_of_cell(cell, setting, epochs=2)
        return trainer.time_epochs(setting, run, torch_compile=is_compiled)
    runs = runs_of_cell(cell, setting, EPOCHS[inputs.device()])
    largest = runs_at_once(setting.model, setting.examples["train"], runs)
    if largest < cell.runs:
        raise SubtuneError(f"at most {largest} runs can train side by side")
    with compile_operations(is_compiled), time_epochs(setting.steps) as epochs:
        train(setting.model, setting.examples, setting.task, runs)
    return epochs


def compile_operations(is_compiled: bool) -> AbstractContextManager:
    """Switch the compilation of operations on a GPU on (as in long jobs) or off."""
    return patch.object(recipe, "TOKENS_WORTH_COMPILING", 0 if is_compiled else math.inf)
