"""Train small runs and record them as jobs do."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from subtune.core.files import Layout
from subtune.data.load import read_examples
from subtune.methods import METHODS
from subtune.models.encoder import load_encoder
from subtune.models.model_files import model_version
from subtune.runs import records
from subtune.runs.spec import FitRecipe, RunSpec
from subtune.training import recorded_runs
from tests.helpers import examples


def record(store: Path, specs, directory: Path, checkpoints=None) -> list[str]:
    """Train runs of one task on random examples and record them; return the log lines."""
    task = examples.TASKS[specs[0].tokens.data.task.name]
    model = load_encoder(directory, task.of_kind.head, task.outputs, specs[0].model.pooling)
    tokens = examples.tokens(task, directory, apart=specs[0].tokens.apart)
    lines: list = []
    recorded_runs.train_and_record(specs, store, model, tokens, {}, lines.append, checkpoints)
    return [str(line) for line in lines]


def recorded(
    results: Path,
    directory: Path,
    selection,
    task="sst2",
    learning_rate=3e-2,
    seeds=1,
    pooling=None,
    labels="raw",
):
    """Record the runs and the model of a task in ``results``.

    Returns:
        The spec of the first run, and the token ids.
    """
    spec = examples.run_spec(selection, task, learning_rate=learning_rate, labels=labels)
    model = spec.model.replace(version=model_version(directory), pooling=pooling)
    spec = spec.replace(model=model)
    shutil.copytree(directory, results / "models" / spec.model.id, dirs_exist_ok=True)
    record(results / "runs", [spec.replace(seed=seed) for seed in range(seeds)], directory)
    return spec, examples.tokens(examples.TASKS[task], directory)


def recorded_embeddings(results: Path, directory: Path, task="rte", pooling=None) -> RunSpec:
    """Record a regression on embeddings and its model in ``results``; return its spec."""
    trained = examples.run_spec(task=task)
    is_pair = len(examples.TASKS[task].text) > 1
    spec = trained.replace(
        model=trained.model.replace(pooling=pooling),
        tokens=trained.tokens.replace(apart=is_pair),
        selection=METHODS["embeddings"],
        recipe=FitRecipe(),
    )
    record(results / "runs", [spec], directory)
    shutil.copytree(directory, results / "models" / spec.model.id)
    return spec


def recorded_baseline(
    results: Path, directory: Path, task="rte", fold=None, selection=METHODS["tf-idf"], code=None
) -> RunSpec:
    """Record a baseline and its inputs in ``results``; return its spec."""
    apart = not selection.reads_texts and len(examples.TASKS[task].text) > 1
    spec = examples.run_spec(selection, task).replace(recipe=FitRecipe(fold=fold, code=code))
    spec = spec.replace(tokens=spec.tokens.replace(apart=apart))
    layout, rows = Layout(str(results)), examples.rows_of(examples.TASKS[task])
    paths = layout.tokens(spec.tokens.key), layout.dataset(spec.tokens.data.key)
    examples.tokens(examples.TASKS[task], directory, apart=apart).save_to_disk(paths[0])
    rows.save_to_disk(paths[1])
    head, outputs = examples.TASKS[task].of_kind.head, examples.TASKS[task].outputs
    model, store = load_encoder(directory, head, outputs), results / "runs"
    read = read_examples(*paths[: 1 + selection.reads_texts])
    recorded_runs.train_and_record([spec], store, model, read, {}, print)
    shutil.copytree(directory, results / "models" / spec.model.id)
    return spec


def on_record(results: Path, spec: RunSpec) -> pd.DataFrame:
    """Read the recorded predictions of a run for the validation split."""
    table = pd.DataFrame(records.read_recorded_predictions(results / "runs", spec.id))
    return table[table["split"] == "validation"]


def logits_on_record(results: Path, spec: RunSpec) -> np.ndarray:
    return on_record(results, spec).filter(like="logit_").to_numpy()


def flip_a_bit(path: Path) -> None:
    """Flip one bit in a file, as a failing disk does."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
