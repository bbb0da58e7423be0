"""Training and recording of runs, and predictions with the models of recorded runs."""

import contextlib
import json
import math
import platform
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import safetensors.torch
import torch

from subtune.core import VERSION
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.core.process import device_name
from subtune.methods.selection import Mask
from subtune.models.encoder import Encoder
from subtune.models.forward import compute_hidden_states
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples, Reads
from subtune.training.checkpoints import Checkpoints
from subtune.training.embeddings import pooled_tokens, predict_embedded
from subtune.training.evaluation import (
    TrainingResult,
    check_padding,
    compute_split_logits,
    score_splits,
)
from subtune.training.groups import add_adapter_modules, train_runs
from subtune.training.training_set import draw_training_indices
from subtune.training.values import Delta, changed_tensors

# Packages whose versions are recorded, in addition to the version of this package.
VERSIONED_PACKAGES = ("torch", "transformers", "peft", "tokenizers", "datasets")


def train_and_record(
    specs: Sequence[RunSpec],
    store: Path,
    model: Encoder,
    tokens: datasets.DatasetDict,
    masks: Mapping[str, Mask],
    report: Callable[[str], None],
    checkpoints: Checkpoints | None = None,
    runs_scored_on_training_set: Collection[str] = (),
) -> None:
    """Train the runs of a sweep that are not recorded yet, and record each run when it has ended.

    Args:
        specs: the specs of the runs, which share the model and the token ids.
        store: the directory of records.
        tokens: the token ids of the task, by split.
        masks: see `subtune.training.groups.train_runs`.
        report: is called with a line per epoch and per record.
        checkpoints: where checkpoints are written. If None, an interrupted run restarts from the
            beginning.
        runs_scored_on_training_set: ids of runs that are also scored on their training examples.

    Raises:
        StoppedError: the job was asked to stop.
    """
    reads = find_tokens_read(specs[0], model)
    splits = filter(tokens.__contains__, specs[0].tokens.data.task.labelled_splits)
    examples = {split: Examples(tokens[split], reads) for split in splits}
    missing = {spec.id: spec for spec in specs if not records.is_recorded(store, spec.id)}
    by_name = {f"run {number}": spec for number, spec in enumerate(missing.values(), 1)}
    for name, spec in by_name.items():
        report(f"{name}  {spec.id}  {spec.selection.canonical()}  {spec.recipe.canonical()}")
    origin = provenance(model.device)

    def report_and_record(line: str, field: str | None = None) -> None:
        """Log a line. If ``field`` is given, add the line to the provenance of later records."""
        if field:
            origin[field] = line
        report(line)

    trained = train_runs(model, examples, by_name, masks, report_and_record, checkpoints)
    for number, (name, result, run_examples) in enumerate(trained, 1):
        spec = by_name[name]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if spec.id in runs_scored_on_training_set:
            scores = score_training_examples(spec, model, result.delta, run_examples["train"])
            result.best.scores[records.TRAIN] = scores
        write_record(store, spec, result, run_examples, origin | {"recorded": now})
        report(f"recorded {number}/{len(by_name)}: {spec.id}")


def find_tokens_read(spec: RunSpec, model: Encoder) -> Reads:
    """Return the tokens whose hidden states a run reads."""
    return pooled_tokens(spec.model, model) if spec.is_baseline else model.tokens_read


def write_record(
    store: Path,
    spec: RunSpec,
    result: TrainingResult,
    examples: Mapping[str, Examples],
    origin: Mapping[str, Any],
) -> None:
    """Write a run's record to the directory ``store``, with ``origin`` as ``provenance.json``."""
    task = spec.tokens.data.task
    # TF-IDF reads whole texts, so no text is truncated.
    share_read = None if spec.reads_texts else examples["train"].share_read

    def fill(folder: Path) -> None:
        _write_json(folder / "scores.json", _scores_content(result, share_read))
        _write_json(folder / "provenance.json", origin)
        pd.DataFrame(result.history).to_csv(folder / "history.csv", index=False)
        predictions = _merge_predictions(task, result.best.predictions, examples)
        predictions.to_parquet(folder / "predictions.parquet", index=False)
        if not result.diverged:
            by_epoch = {
                epoch: _merge_predictions(task, evaluation.predictions, examples)
                for epoch, evaluation in enumerate(result.evaluations, 1)
            }
            epochs = pd.concat(by_epoch, names=["epoch"]).reset_index("epoch")
            epochs = epochs.drop(columns=["label", "answers"], errors="ignore")
            epochs.to_parquet(folder / records.EPOCHS, index=False, compression="zstd")
        changes = [(name, *change) for name, change in result.changes.items()]
        table = pd.DataFrame(changes, columns=["parameter", "mean_abs_change", "size"])
        table.to_csv(folder / "changes.csv", index=False)
        safetensors.torch.save_file(result.delta, folder / records.DELTA)

    records.write_record_files(store, spec, fill)


def _scores_content(result: TrainingResult, share_read: float | None) -> dict[str, Any]:
    # JSON has no NaN.
    scores = {
        split: {metric: v if math.isfinite(v) else None for metric, v in by_metric.items()}
        for split, by_metric in result.best.scores.items()
    }
    outcome: dict[str, Any] = {"best_epoch": result.best_epoch, "scores": scores}
    outcome |= {"trainable": result.trainable, "diverged": result.diverged}
    return outcome | ({} if share_read is None else {"share_read": round(share_read, 4)})


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _merge_predictions(
    task: TaskSpec, by_split: Mapping[str, np.ndarray], examples: Mapping[str, Examples]
) -> pd.DataFrame:
    if not by_split:
        return pd.DataFrame(columns=["split", "idx", "label"])
    parts = []
    for split, predictions in by_split.items():
        part = task.of_kind.prediction_table(examples[split], predictions)
        part.insert(0, "split", split)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def provenance(device: torch.device) -> dict[str, Any]:
    """Describe the device and the software of this process, for the records of its runs.

    The keys are ``device`` (its name), ``threads`` (of torch), ``commit`` (of subtune's repository,
    with ``-dirty`` at the end if files were changed; None without a repository), and ``versions``
    (of Python and of the packages that affect results).
    """
    versions = {"python": platform.python_version(), "subtune": VERSION}
    versions |= {name: version(name) for name in VERSIONED_PACKAGES}
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    commit = None
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        folder = Path(__file__).parent
        commit = subprocess.check_output(describe, cwd=folder, stderr=subprocess.DEVNULL, text=True)
    return {
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "commit": commit and commit.strip(),
        "versions": versions,
    }


# An empty table with the columns that all tables of predictions have in common.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def score_training_examples(
    spec: RunSpec, model: Encoder, delta: Delta, train: Examples
) -> dict[str, float]:
    """Compute the metrics of a run on its training examples; NaN if it diverged.

    The delta is empty if the run diverged. ``train`` lacks the examples of the run's fold.
    """
    task = spec.tokens.data.task
    generator = np.random.default_rng(spec.seed)
    training = draw_training_indices(train, spec.recipe.train_rows, generator)
    examples = {records.TRAIN: train.select(np.sort(training))}
    scores: dict[str, dict[str, float]] = {}
    if delta:
        logits = _compute_logits(spec, model, delta, examples[records.TRAIN])
        scores = score_splits(task, examples, {records.TRAIN: logits}).scores
    return scores.get(records.TRAIN, dict.fromkeys(task.metrics, math.nan))


def predict_test_rows(
    store: Path, specs: Iterable[RunSpec], model: Encoder, tokens: datasets.DatasetDict
) -> pd.DataFrame:
    """Predict test splits with recorded runs. ``tokens`` maps splits to token ids; it may be empty.

    The table has the columns ``run`` (the run's id), ``split``, and those of the task kind's
    ``prediction_table``, except labels. A `SubtuneError` is raised if a run diverged.
    """
    parts = [NO_PREDICTIONS]
    for spec in specs:
        kind = spec.tokens.data.task.of_kind
        for split, rows in tokens.items():
            examples, logits = predict_logits(store, spec, model, rows)
            part = kind.prediction_table(examples, kind.predict(examples, logits))
            part = part.drop(columns=["label", "answers"], errors="ignore")
            parts.append(part.assign(run=spec.id, split=split))
    return pd.concat(parts, ignore_index=True)


def predict_logits(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> tuple[Examples, np.ndarray]:
    """Return the examples of a split, and a recorded run's logits with one column per output."""
    examples = Examples(split, find_tokens_read(spec, model))
    return examples, _compute_logits(spec, model, records.read_delta(store, spec.id), examples)


def pretrained_directory(layout: Layout, spec: RunSpec) -> str:
    """Return the directory of a run's pretrained model; raise a `SubtuneError` if it is missing."""
    directory = layout.model(spec.model.id)
    if not Path(directory).is_dir():
        raise SubtuneError(f"{directory}: this directory is missing, expected the pretrained model")
    return directory


def with_delta(spec: RunSpec, model: Encoder, delta: Mapping[str, Any]) -> Encoder:
    """Return a copy of the pretrained model with the arrays or tensors of a saved delta."""
    initial = add_adapter_modules(spec, model)
    tensors = {key: torch.as_tensor(v, device=model.device) for key, v in delta.items()}
    changed = changed_tensors(initial.parameters, tensors)
    return replace(initial, parameters=initial.parameters | changed)


def _compute_logits(
    spec: RunSpec, model: Encoder, delta: Mapping[str, Any], examples: Examples
) -> np.ndarray:
    if spec.is_baseline:
        # A regression on embeddings uses the pretrained model without changes.
        bias, weight = (np.asarray(values) for _, values in sorted(delta.items()))
        model = check_padding(model, [examples], compute_hidden_states)
        return predict_embedded(model, weight, bias, examples)
    trained = check_padding(with_delta(spec, model, delta), [examples])
    return compute_split_logits(trained, examples, spec.recipe.precision)[0]
