"""Runs that train and are recorded, and the models of recorded runs."""

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
from subtune.models.encoder import Encoder
from subtune.models.forward import hidden_states
from subtune.runs import records
from subtune.runs.spec import Fit, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.checkpoints import Checkpoints
from subtune.training.embeddings import features, tokens_pooled
from subtune.training.evaluation import Result, check_padding, split_logits
from subtune.training.groups import add_modules, train_runs
from subtune.training.training_set import training_examples
from subtune.training.values import Delta, changed_tensors

# Packages whose versions are recorded in addition to this package's.
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "datasets")


def train_and_record(
    specs: Sequence[RunSpec],
    store: Path,
    model: Encoder,
    tokens: datasets.DatasetDict,
    rankings: Mapping[str, Mapping[str, np.ndarray]],
    report: Callable[[str], None],
    checkpoints: Checkpoints | None = None,
    scored_runs: Collection[str] = (),
) -> None:
    """Train the runs of a sweep that are not recorded, and record each as soon as it is done.

    Args:
        specs: the runs, which share model and tokens. Runs that appear twice are trained once.
        store: the directory of records.
        model: the pretrained model.
        tokens: the task's token ids, by split.
        rankings: by ranking id, the rank of every entry, for runs that train a top fraction.
        report: a function that gets lines about every epoch and record.
        checkpoints: the sweep's checkpoints; without them an interrupted run starts again.
        scored_runs: ids of the runs that are also scored on their training rows.

    Raises:
        StoppedError: the job was asked to stop.
        SubtuneError: a record cannot be written.
    """
    examples = _examples(specs[0], model, tokens)
    missing = {spec.id: spec for spec in specs if not records.is_recorded(store, spec.id)}
    by_name = {f"run {number}": spec for number, spec in enumerate(missing.values(), 1)}
    for name, spec in by_name.items():
        report(f"{name}  {spec.id}  {spec.selection.canonical()}  {spec.recipe.canonical()}")
    origin = provenance(model.device)

    def report_and_note(line: str, field: str | None = None) -> None:
        """Report a line, and add it to the provenance of later records if it has a field there."""
        if field:
            origin[field] = line
        report(line)

    trained = train_runs(model, examples, by_name, rankings, report_and_note, checkpoints)
    for number, (name, result, own) in enumerate(trained, 1):
        spec = by_name[name]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if spec.id in scored_runs:
            scores = score_training_rows(spec, model, result.delta, own["train"])
            result.best.scores[records.TRAIN] = scores
        write_record(store, spec, result, own, origin | {"recorded": now})
        report(f"recorded {number}/{len(by_name)}: {spec.id}")


def _examples(spec: RunSpec, model: Encoder, tokens: datasets.DatasetDict) -> dict[str, Examples]:
    """Return a run's examples by split, with the tokens that its classifier or regression reads."""
    reads = model.reads
    if isinstance(spec.recipe, Fit):
        reads = embeddings.tokens_pooled(spec.model, model)
    splits = [split for split in spec.tokens.data.task.labelled_splits if split in tokens]
    return {split: Examples(tokens[split], reads) for split in splits}


def write_record(
    store: Path,
    spec: RunSpec,
    result: Result,
    examples: Mapping[str, Examples],
    origin: Mapping[str, Any],
) -> None:
    """Write a run's record with `subtune.runs.records.write_files`.

    Args:
        store: the directory of records.
        spec: the run.
        result: what its training gave.
        examples: the run's examples by split.
        origin: the content of ``provenance.json``.
    """
    task = spec.tokens.data.task
    # TF-IDF reads whole texts.
    share_read = None if spec.reads_texts else examples["train"].share_read

    def fill(folder: Path) -> None:
        _write_json(folder / "scores.json", _outcome(result, share_read))
        _write_json(folder / "provenance.json", origin)
        pd.DataFrame(result.history).to_csv(folder / "history.csv", index=False)
        predictions = _predictions(task, result.best.predictions, examples)
        predictions.to_parquet(folder / "predictions.parquet", index=False)
        if not result.diverged:
            tables = (_predictions(task, of.predictions, examples) for of in result.evaluations)
            every = pd.concat(dict(enumerate(tables, 1)), names=["epoch"]).reset_index("epoch")
            every = every.drop(columns=["label", "answers"], errors="ignore")
            every.to_parquet(folder / records.EPOCHS, index=False, compression="zstd")
        changes = [(name, *change) for name, change in result.changes.items()]
        table = pd.DataFrame(changes, columns=["parameter", "mean_abs_change", "size"])
        table.to_csv(folder / "changes.csv", index=False)
        safetensors.torch.save_file(result.delta, folder / records.DELTA)

    records.write_files(store, spec, fill)


def _outcome(result: Result, share_read: float | None) -> dict[str, Any]:
    """Return the content of ``scores.json``.

    Args:
        result: what the run's training gave.
        share_read: the share of tokens that the model read after texts were cut, if it is known.
    """
    # JSON holds only finite numbers.
    scores = {
        split: {
            metric: value if math.isfinite(value) else None for metric, value in by_metric.items()
        }
        for split, by_metric in result.best.scores.items()
    }
    outcome: dict[str, Any] = {
        "best_epoch": result.best_epoch,
        "scores": scores,
        "trainable": result.trainable,
        "diverged": result.diverged,
    }
    if share_read is not None:
        outcome["share_read"] = round(share_read, 4)
    return outcome


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n")


def _predictions(
    task: TaskSpec, by_split: Mapping[str, np.ndarray], examples: Mapping[str, Examples]
) -> pd.DataFrame:
    """Return the predictions of all splits in one table."""
    if not by_split:
        return pd.DataFrame(columns=["split", "idx", "label"])
    parts = []
    for split, predictions in by_split.items():
        part = task.of_kind.prediction_table(examples[split], predictions)
        part.insert(0, "split", split)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def provenance(device: torch.device) -> dict[str, Any]:
    """Return what a record says about the job that trained its run.

    Returns:
        ``device`` and ``threads``; ``commit``: the commit of this code's repository, with
        ``-dirty`` at its end if files were changed, or None outside a repository; ``versions``:
        the versions of Python and of packages that affect results.
    """
    versions = {"python": platform.python_version(), "subtune": VERSION}
    versions |= {name: version(name) for name in PACKAGES}
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


# The columns that every table of predictions has.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def score_training_rows(
    spec: RunSpec, model: Encoder, delta: Delta, train: Examples
) -> dict[str, float]:
    """Return a run's metrics on the rows on which it trained.

    The metrics are NaN if the run diverged, so that ``delta`` is empty, or if a prediction is not
    finite.

    Args:
        model: the pretrained model.
        delta: the values that the run changed.
        train: the training split, without the rows of the run's fold.
    """
    task = spec.tokens.data.task
    training = training_examples(train, spec.recipe, np.random.default_rng(spec.seed))
    examples = train.select(np.sort(training))
    if delta:
        logits = _logits(spec, model, delta, examples)
        if np.isfinite(logits).all():
            predictions = task.of_kind.predict(examples, logits)
            return task.of_kind.score(task, task.of_kind.prediction_table(examples, predictions))
    return dict.fromkeys(task.metrics, math.nan)


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
    """Return a split's examples, as a run reads them, and its logits ``[q, o]`` for them.

    ``model`` is the pretrained model, and ``split`` has token ids.

    Raises:
        SubtuneError: the run's delta cannot be read, or the run diverged.
    """
    is_fitted = isinstance(spec.recipe, Fit)
    examples = Examples(split, tokens_pooled(spec.model, model) if is_fitted else model.reads)
    return examples, _logits(spec, model, records.read_delta(store, spec.id), examples)


def pretrained_directory(layout: Layout, spec: RunSpec) -> str:
    """Return the directory of the model that a run started from.

    Raises:
        SubtuneError: the model is missing.
    """
    directory = layout.model(spec.model.id)
    if not Path(directory).is_dir():
        raise SubtuneError(f"found no pretrained model {directory}, which the run started from")
    return directory


def with_delta(spec: RunSpec, model: Encoder, delta: Mapping[str, Any]) -> Encoder:
    """Return the pretrained model of a run with the values that the run changed.

    ``delta`` has arrays or tensors by their keys in a file.
    """
    initial = add_modules(spec, model)
    tensors = {key: torch.as_tensor(v, device=model.device) for key, v in delta.items()}
    changed = changed_tensors(initial.parameters, tensors)
    return replace(initial, parameters=initial.parameters | changed)


def _logits(
    spec: RunSpec, model: Encoder, delta: Mapping[str, Any], examples: Examples
) -> np.ndarray:
    """Return a run's logits ``[q, o]`` for examples; ``model`` is the pretrained model."""
    if isinstance(spec.recipe, Fit):
        # A regression on embeddings reads the model as it was pretrained.
        bias, weight = (np.asarray(values) for _, values in sorted(delta.items()))
        model = check_padding(model, [examples], hidden_states)
        return features(model, examples, np.arange(len(examples))) @ weight.T + bias
    proven = check_padding(with_delta(spec, model, delta), [examples])
    return split_logits(proven, examples, spec.recipe.precision)[0]
