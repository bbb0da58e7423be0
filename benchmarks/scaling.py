"""The time of a run's step, by model size, length of examples and number of runs.

Weights are random, because they do not change the time; the tokens are real.
"""

import gc
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from transformers import AutoModel, BertConfig

from benchmarks import inputs, trainer
from benchmarks.measurements import flops_per_token, timed
from subtune.core.errors import SubtuneError, error_reason
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
# Larger models take minutes in fp32 alone.
CPU_PRECISIONS = {"MiniLM": ("fp32", "bf16"), "BERT-base": ("fp32",), "BERT-large": ("fp32",)}
CPU_TURNS = {"MiniLM": 3, "BERT-base": 1, "BERT-large": 1}
GPU_RUNS = {"full": (1, 4, 8), "layernorm": (1, 8, 32), "lora": (8,)}
STEPS = {"MiniLM": 8, "BERT-base": 4, "BERT-large": 1}
GPU_STEPS = 24
# The last epoch counts. A GPU captures and compiles steps in the first ones.
EPOCHS = {"cpu": 2, "cuda": 4}
TRAINER, SUBTUNE = "Trainer", "subtune"
COMPILED = ", torch.compile"


class Cell(NamedTuple):
    """One measurement: runs of a method on a task, side by side."""

    model: str
    task: str
    way: str
    method: str
    precision: str
    runs: int


def cells(models: Sequence[str], tasks: Sequence[str]) -> list[Cell]:
    """Return the cells of a device in the order in which they are measured."""
    of_device = _of_gpu if inputs.device() == "cuda" else _of_cpu
    return [cell for model in models for cell in of_device(model, tasks)]


def _of_cpu(model: str, tasks: Sequence[str]) -> Iterator[Cell]:
    """Yield cells of LayerNorm alone. Ways take turns; the fastest time of each way counts."""
    for task, _, precision in itertools.product(
        tasks, range(CPU_TURNS[model]), CPU_PRECISIONS[model]
    ):
        ways = [(TRAINER, 1), *((SUBTUNE, runs) for runs in CPU_RUNS)]
        if precision == "bf16":
            ways.insert(1, (TRAINER + COMPILED, 1))
        for way, runs in ways:
            yield Cell(model, task, way, "layernorm", precision, runs)


def _of_gpu(model: str, tasks: Sequence[str]) -> Iterator[Cell]:
    """Yield cells of several methods. Those with the most runs come first.

    The compiled Trainer comes last, because it takes a minute.
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
    """Models with random weights, and tokens of tasks, kept until the next model is requested."""

    def __init__(self, glue_dir: Path, folder: Path, rows: int | None = None):
        self._glue_dir, self._folder, self._rows = glue_dir, folder, rows
        self._model = ""
        self._settings: dict[str, inputs.Setting] = {}
        self._flops: dict[tuple[str, str], float] = {}

    def of(self, model: str, task: str) -> inputs.Setting:
        """Return a model and as many first rows of a task as the model's steps need."""
        if model != self._model:
            self._model = model
            self._settings, self._flops = {}, {}
            AutoModel.from_config(SHAPES[model]).save_pretrained(self._folder)
        if task not in self._settings:
            rows = inputs.BATCH * (GPU_STEPS if inputs.device() == "cuda" else STEPS[model])
            rows = min(rows, self._rows or rows)
            self._settings[task] = inputs.glue(
                task, self._glue_dir, self._folder, train=rows, others=1
            )
        return self._settings[task]

    def flops(self, cell: Cell) -> float:
        """Return the products that a run needs for a token."""
        setting = self.of(cell.model, cell.task)
        key = cell.task, cell.method
        if key not in self._flops:
            (member,) = inputs.members(setting.model, (1e-3,), 1, cell.method)
            self._flops[key] = flops_per_token(setting, member)
        return self._flops[key]


@contextmanager
def settings(glue_dir: Path, rows: int | None = None) -> Iterator[Settings]:
    """Yield settings, and remove their models in the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield Settings(glue_dir, Path(folder), rows)


def members_of(cell: Cell, setting: inputs.Setting, epochs: int) -> list[Run]:
    """Return the runs of a cell."""
    runs = inputs.members(setting.model, (1e-4,) * cell.runs, epochs, cell.method)
    return [inputs.at_precision(run, cell.precision) for run in runs]


def measure(
    glue_dir: Path,
    of: Sequence[Cell],
    report: Callable[[dict[str, Any]], None],
    rows: int | None = None,
    seconds: float = math.inf,
) -> list[dict[str, Any]]:
    """Measure cells until ``seconds`` are over.

    Returns:
        One row per cell: ``seconds`` of a run's step, its products and tokens per second, the
        seconds of the ``first_epoch``, and the device's largest memory in gigabytes. A cell that
        fails has the ``problem`` instead.
    """
    end = time.monotonic() + seconds
    measured = []
    with settings(glue_dir, rows) as every:
        for cell in of:
            if time.monotonic() > end:
                report({"stopped_before": list(cell)})
                break
            title = TASKS[cell.task].title
            try:
                row = _measure(cell, every)
            # The other cells are worth their time whatever happens to this one.
            except Exception as error:
                row = {"problem": error_reason(error)[:300]}
            row = cell._asdict() | {"task": title} | row
            report(row)
            measured.append(row)
            _free()
    return measured


def _measure(cell: Cell, every: Settings) -> dict[str, Any]:
    setting = every.of(cell.model, cell.task)
    if inputs.device() == "cuda":
        torch.cuda.reset_peak_memory_stats()
    first, *_, last = _epochs(cell, setting)
    memory = torch.cuda.max_memory_allocated() / 1e9 if inputs.device() == "cuda" else None
    of_step = last / cell.runs / setting.steps
    tokens = float(setting.examples["train"].lengths.sum()) / setting.steps
    return {
        "tokens": tokens,
        "seconds": of_step,
        "tokens_per_second": tokens / of_step,
        "flops_per_second": every.flops(cell) * tokens / of_step,
        "first_epoch": first,
        "gigabytes": memory,
    }


def _epochs(cell: Cell, setting: inputs.Setting) -> list[float]:
    """Return the seconds of each epoch of a cell's runs, without evaluation."""
    way, is_compiled = cell.way.removesuffix(COMPILED), cell.way.endswith(COMPILED)
    if way == TRAINER:
        (run,) = members_of(cell, setting, epochs=2)
        return trainer.epochs(setting, run, torch_compile=is_compiled)
    runs = members_of(cell, setting, EPOCHS[inputs.device()])
    largest = runs_at_once(setting.model, setting.examples["train"], runs)
    if largest < cell.runs:
        raise SubtuneError(f"at most {largest} runs train side by side")
    with compiled(is_compiled), timed(setting.steps) as epochs:
        train(setting.model, setting.examples, setting.task, runs)
    return epochs


def compiled(is_compiled: bool) -> AbstractContextManager:
    """Compile operations on a GPU as in a long job, or do not, as in a short job."""
    return patch.object(recipe, "TOKENS_WORTH_COMPILING", 0 if is_compiled else math.inf)


def _free() -> None:
    """Free the memory of a cell's runs for the next cell."""
    gc.collect()
    if inputs.device() == "cuda":
        torch.cuda.empty_cache()
