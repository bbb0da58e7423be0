"""Training runs that are not on record yet, and recording each as soon as it is done."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import safetensors.torch

from subtune.directories import new_directory
from subtune.errors import SubtuneError
from subtune.hardware import EnergyMeter
from subtune.models.encoder import Encoder, shapes_of
from subtune.runs import events
from subtune.runs.provenance import provenance
from subtune.runs.records import is_recorded
from subtune.specs import RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.checkpoints import Checkpoints
from subtune.training.delta import to_stored
from subtune.training.recipe import Member
from subtune.training.reports import ONE_BY_ONE, WITHOUT_PADDING, Report
from subtune.training.run import Result
from subtune.training.sweeps import train_sweep


def train_and_record(
    specs: Sequence[RunSpec],
    store: Path,
    model: Encoder,
    tokens: datasets.DatasetDict,
    rankings: Mapping[str, Mapping[str, np.ndarray]],
    report: Callable[[Report], None],
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> None:
    """Train those runs of a sweep that are not on record, and record each as soon as it is done.

    Args:
        specs: the sweep's runs, which share model and tokens.
        store: where records go.
        model: the pretrained model.
        tokens: all splits of the task.
        rankings: ranking id to the rank of every entry, for the runs that train a top fraction.
        report: is told of every epoch and every record.
        max_side_by_side: where more could train side by side.
        checkpoints: of this sweep; without them a run that is cut off starts anew.

    Raises:
        StoppedError: it was asked to stop.
        SubtuneError: a record cannot be written.
    """
    task = specs[0].tokens.data.task
    shapes = shapes_of(model)
    to_train = {spec.id: spec for spec in specs if not is_recorded(store, spec.id)}
    members = {}
    for run, spec in to_train.items():
        ranking = spec.selection.ranking
        ranks = rankings[ranking] if ranking else None
        entries = spec.selection.resolve(shapes, spec.seed, ranks)
        members[run] = Member(entries, spec.recipe, spec.seed)
        report(Report(f"{run}  {spec.selection.canonical()}  {spec.recipe.canonical()}"))
    examples = {split: Examples(tokens[split], task.of_kind.reads) for split in task.labelled}
    origin, energy = provenance(model.device), EnergyMeter(model.device)

    def report_and_read_energy(of: Report) -> None:
        energy.read()
        if of.event in (ONE_BY_ONE, WITHOUT_PADDING):
            origin[of.event] = of.text
        report(of)

    results = train_sweep(
        model, examples, task, members, report_and_read_energy, max_side_by_side, checkpoints
    )
    for number, (run, result) in enumerate(results, 1):
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        of_run = origin | {"recorded": now, "joules": energy.spent()}
        write_record(store, to_train[run], result, examples, of_run)
        text = f"recorded {number}/{len(members)}: {run}"
        report(Report(text, events.RECORDED, {"run": run}))


def write_record(
    store: Path,
    spec: RunSpec,
    result: Result,
    examples: Mapping[str, Examples],
    origin: Mapping[str, Any],
) -> Path:
    """Write a run's record. If the record is there already, it stays as it is.

    Raises:
        SubtuneError: the disk is full, or the store cannot be written.
    """
    target = store / spec.id
    if is_recorded(store, spec.id):
        return target
    try:
        with new_directory(target) as draft:
            _write_files(draft, spec, result, examples, origin)
    except SubtuneError as error:
        # A node that was given up for lost may have finished the same run meanwhile.
        if is_recorded(store, spec.id):
            return target
        raise SubtuneError(f"{error}; runs recorded so far are kept") from None
    return target


def _write_files(
    folder: Path,
    spec: RunSpec,
    result: Result,
    examples: Mapping[str, Examples],
    origin: Mapping[str, Any],
) -> None:
    scores = {
        "best_epoch": result.best_epoch,
        "scores": {
            split: {metric: events.finite_or_none(value) for metric, value in by_metric.items()}
            for split, by_metric in result.best.scores.items()
        },
        "trainable": result.trainable,
        "diverged": result.diverged,
    }
    (folder / "scores.json").write_text(json.dumps(scores, indent=2, allow_nan=False) + "\n")
    pd.DataFrame(result.history).to_csv(folder / "history.csv", index=False)
    predictions = _predictions(spec.tokens.data.task, result, examples)
    predictions.to_parquet(folder / "predictions.parquet", index=False)
    changes = [(name, *change) for name, change in result.best.changes.items()]
    pd.DataFrame(changes, columns=["parameter", "mean_abs_change", "size"]).to_csv(
        folder / "changes.csv", index=False
    )
    safetensors.torch.save_file(to_stored(result.best.delta), folder / "delta.safetensors")
    (folder / "provenance.json").write_text(json.dumps(origin, indent=2) + "\n")
    (folder / "spec.json").write_text(spec.model_dump_json(indent=2, exclude_none=True) + "\n")


def _predictions(task: TaskSpec, result: Result, examples: Mapping[str, Examples]) -> pd.DataFrame:
    parts = [pd.DataFrame(columns=["split", "idx", "label"])] if result.diverged else []
    for split, predictions in result.best.predictions.items():
        part = task.of_kind.table(examples[split], predictions)
        part.insert(0, "split", split)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
