"""Training and records of runs, and predictions of recorded runs."""

import contextlib
import json
import math
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import safetensors.torch
import torch

import subtune
from subtune.core.jobs import device_name
from subtune.data.batches import divided
from subtune.models.encoder import Encoder
from subtune.runs import records
from subtune.runs.records import is_recorded
from subtune.selections.specs import Fit, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.checkpoints import Checkpoints
from subtune.training.evaluation import (
    Result,
    checked_for_padding,
    examples_that_train,
    logits_of,
)
from subtune.training.sweeps import Job, model_of
from subtune.training.values import applied, from_stored, to_stored

# Packages whose versions are recorded in addition to this package's.
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "datasets")
# The columns that every table of predictions has.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def train_and_record(
    specs: Sequence[RunSpec],
    store: Path,
    model: Encoder,
    tokens: datasets.DatasetDict,
    rankings: Mapping[str, Mapping[str, np.ndarray]],
    report: Callable[[str], None],
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train the runs of a sweep that are not recorded, and record each as soon as it is done.

    Args:
        specs: the sweep's runs, which share model and tokens.
        store: the directory of records.
        rankings: by ranking id, the rank of every entry, for runs that train a top fraction.
        report: a function that gets lines about every epoch and record.
        max_side_by_side: the largest number of runs in one pass.
        checkpoints: the sweep's checkpoints; without them an interrupted run starts again.

    Raises:
        StoppedError: the job was asked to stop.
        SubtuneError: a record cannot be written.
    """
    task = specs[0].tokens.data.task
    reads = model.reads
    if isinstance(specs[0].recipe, Fit):
        reads = embeddings.tokens_pooled(specs[0].model, model)
    examples = {split: Examples(tokens[split], reads) for split in task.labelled if split in tokens}
    job = Job(model, examples, task, rankings, max_side_by_side, checkpoints)
    # Runs whose learning rates were found may be the same.
    missing = {spec.id: spec for spec in specs if not is_recorded(store, spec.id)}
    runs = {f"run {number}": spec for number, spec in enumerate(missing.values(), 1)}
    for name, spec in runs.items():
        report(f"{name}  {spec.id}  {spec.selection.canonical()}  {spec.recipe.canonical()}")
    origin = provenance(model.device)

    def report_and_note(line: str, name: str | None = None) -> None:
        if name:
            origin[name] = line
        report(line)

    for number, (name, result) in enumerate(job.train(runs, report_and_note), 1):
        spec = runs[name]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        run_examples = job.examples_of(spec.recipe)
        write_record(store, spec, result, run_examples, origin | {"recorded": now})
        report(f"recorded {number}/{len(runs)}: {spec.id}")


def write_record(
    store: Path,
    spec: RunSpec,
    result: Result,
    examples: Mapping[str, Examples],
    origin: Mapping[str, Any],
) -> None:
    """Write a run's record with `subtune.runs.records.write`."""
    task = spec.tokens.data.task

    def fill(folder: Path) -> None:
        outcome: dict[str, Any] = {
            "best_epoch": result.best_epoch,
            # JSON holds only finite numbers.
            "scores": {
                split: {m: value if math.isfinite(value) else None for m, value in scores.items()}
                for split, scores in result.best.scores.items()
            },
            "trainable": result.trainable,
            "diverged": result.diverged,
        }
        if (share := examples["train"].share_read) is not None:
            outcome["share_read"] = round(share, 4)
        (folder / "scores.json").write_text(json.dumps(outcome, indent=2, allow_nan=False) + "\n")
        pd.DataFrame(result.history).to_csv(folder / "history.csv", index=False)
        predictions = _predictions(task, result.best.predictions, examples)
        predictions.to_parquet(folder / "predictions.parquet", index=False)
        if not result.diverged:
            tables = (_predictions(task, by_split, examples) for by_split in result.predictions)
            every = pd.concat(dict(enumerate(tables, 1)), names=["epoch"]).reset_index("epoch")
            every = every.drop(columns=["label", "answers"], errors="ignore")
            every.to_parquet(folder / records.EPOCHS, index=False, compression="zstd")
        changes = [(name, *change) for name, change in result.changes.items()]
        table = pd.DataFrame(changes, columns=["parameter", "mean_abs_change", "size"])
        table.to_csv(folder / "changes.csv", index=False)
        safetensors.torch.save_file(to_stored(result.delta), folder / records.DELTA)
        (folder / "provenance.json").write_text(json.dumps(origin, indent=2) + "\n")

    records.write(store, spec, fill)


def _predictions(
    task: TaskSpec, by_split: Mapping[str, np.ndarray], examples: Mapping[str, Examples]
) -> pd.DataFrame:
    parts = [] if by_split else [pd.DataFrame(columns=["split", "idx", "label"])]
    for split, predictions in by_split.items():
        part = task.of_kind.table(examples[split], predictions)
        part.insert(0, "split", split)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def provenance(device: torch.device) -> dict[str, Any]:
    """Return ``device``, ``threads``, ``commit`` and ``versions`` of this job.

    ``versions`` has the versions of Python and of packages that affect results. ``commit`` is the
    commit of this code's repository: None outside a repository, with ``-dirty`` at its end if files
    were changed.
    """
    versions = {"python": platform.python_version(), "subtune": subtune.__version__}
    versions |= {name: version(name) for name in PACKAGES}
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    commit = None
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(subtune.__file__).parent
        commit = subprocess.check_output(describe, cwd=folder, stderr=subprocess.DEVNULL, text=True)
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "commit": commit and commit.strip(),
        "versions": versions,
    }


def score_on_training_rows(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> dict[str, float]:
    """Return a run's metrics on its training rows; NaN if the run diverged or a prediction is not
    finite.

    ``model`` is the pretrained model, and ``split`` has the training split's tokens.

    Raises:
        SubtuneError: the run's delta cannot be read.
    """
    task = spec.tokens.data.task
    kind, nan = task.of_kind, dict.fromkeys(task.metrics, math.nan)
    if records.read_outcome(store, spec.id)["diverged"]:
        return nan
    every = Examples(split, model.reads)
    if spec.recipe.fold:
        every, _ = divided(every, task, spec.recipe.fold)
    training = examples_that_train(every, spec.recipe, np.random.default_rng(spec.seed))
    examples = every.part(np.sort(training))
    logits = _logits(trained_model(store, spec, model), examples, spec)
    if not np.isfinite(logits).all():
        return nan
    return kind.score(task, examples, kind.predict(examples, logits))


def predict_test_rows(
    store: Path, specs: Iterable[RunSpec], model: Encoder, tokens: datasets.DatasetDict
) -> pd.DataFrame:
    """Return predictions of one task's runs on its test splits, if there are any.

    ``model`` is the pretrained model, and ``tokens`` has the test splits.

    Returns:
        ``run``, ``split``, and the columns of the kind's table without labels.

    Raises:
        SubtuneError: a run's delta cannot be read, or the run diverged.
    """
    parts = [NO_PREDICTIONS]
    for spec in specs:
        trained = trained_model(store, spec, model)
        kind = spec.tokens.data.task.of_kind
        for split, rows in tokens.items():
            examples = Examples(rows, model.reads)
            part = kind.table(examples, kind.predict(examples, _logits(trained, examples, spec)))
            part = part.drop(columns=["label", "answers"], errors="ignore")
            parts.append(part.assign(run=spec.id, split=split))
    return pd.concat(parts, ignore_index=True)


def trained_model(store: Path, spec: RunSpec, model: Encoder) -> Encoder:
    """Return the pretrained model with the values that a run changed.

    Raises:
        SubtuneError: the run's delta cannot be read, or the run diverged.
    """
    delta = from_stored(records.read_delta(store, spec.id))
    initial = model_of(spec, model)
    return replace(initial, parameters=applied(initial.parameters, delta))


def _logits(trained: Encoder, examples: Examples, spec: RunSpec) -> np.ndarray:
    proven = checked_for_padding(trained, [examples])
    return logits_of(proven, examples, spec.recipe.precision)[0]
