"""Run records: what a run leaves on disk, and how it is read.

A record is a directory named after the run's content id. It is written once, by an atomic rename::

    spec.json            everything that decided the result, without fields that have their
                         default; records of earlier versions have these, too
    scores.json          best epoch, its scores, the number of trained parameters, divergence
    history.csv          one row per epoch
    predictions.parquet  split, idx, label and prediction (logits, labels of words, or spans with
                         all accepted answers) for the evaluation splits, at the best epoch
    epochs.parquet       epoch, split, idx and prediction of the same rows at every epoch; there is
                         none if the run diverged, and in records of earlier versions
    changes.csv          mean |change| and size of every trained tensor
    search.csv           if the run searched its learning rate: every rate, its score and loss on
                         trial, and where it trained whole the run and its score
    provenance.json      device, versions, commit and time
    delta.safetensors    the values that changed, and where a tensor changed in part, which
    checksums.json       of every other file; each file is checked whenever it is read

A run that diverged has a learning curve. Its best epoch and scores are null, and its predictions,
changes and delta are empty.

Every function that reads a record raises a `SubtuneError` if the record is missing, cannot be
read, or is not what was recorded.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from pyarrow.parquet import ParquetFile

from subtune.core.content_ids import canonical, id_of
from subtune.core.errors import SubtuneError
from subtune.core.layout import new_directory
from subtune.runs.integrity import (
    damaged_files,
    how_to_repair,
    read_bytes,
    read_checksums,
    write_checksums,
)
from subtune.selections.specs import RunSpec

DELTA = "delta.safetensors"
EPOCHS = "epochs.parquet"


def is_recorded(store: Path, run: str) -> bool:
    """Return whether the run's record is there; a record is there whole or not at all."""
    return (store / run / "spec.json").is_file()


def all_runs(store: Path) -> list[str]:
    """Return the ids of all recorded runs."""
    return sorted(path.parent.name for path in store.glob("[0-9a-f]*/spec.json"))


def find(store: Path, start: str) -> str:
    """Return the id of the one recorded run whose id starts with ``start``.

    Raises:
        SubtuneError: there is none, or several.
    """
    matches = [run for run in all_runs(store) if run.startswith(start)]
    if len(matches) != 1:
        raise SubtuneError(
            f"found {len(matches)} runs {start!r} in {store}, expected one; "
            "`subtune runs` lists them"
        )
    return matches[0]


def problems_of(store: Path, run: str) -> list[str]:
    """Return a line for each fault of a record: damaged files, or a spec of another run."""
    problems = damaged_files(store, run)
    if problems:
        return problems
    try:
        read_spec(store, run)
    except SubtuneError as error:
        return [str(error)]
    return []


def write(store: Path, spec: RunSpec, fill: Callable[[Path], object]) -> None:
    """Write a run's record, unless it is there already.

    ``fill`` writes files into a folder, to which the spec and the checksums are added. The run's id
    is the hash of the spec as it is written, in every later version too.

    Raises:
        SubtuneError: the disk is full, or the store cannot be written.
    """
    if is_recorded(store, spec.id):
        return
    try:
        with new_directory(store / spec.id) as draft:
            fill(draft)
            text = json.dumps(spec.written(), indent=2, ensure_ascii=False)
            (draft / "spec.json").write_text(text + "\n", encoding="utf-8")
            write_checksums(draft)
    except SubtuneError as error:
        # A job on a lost node may have recorded the same run meanwhile.
        if not is_recorded(store, spec.id):
            raise SubtuneError(f"{error}; runs recorded so far are kept") from None


def read_spec(store: Path, run: str) -> RunSpec:
    """Return the spec of a recorded run."""
    path = store / run / "spec.json"
    try:
        data = json.loads(read_bytes(store, run, path.name))
        written = id_of(canonical(data))
        spec = RunSpec.model_validate(data)
    except ValueError:
        raise SubtuneError(f"{path} is not a run spec; {how_to_repair(store)}") from None
    if written != run:
        raise SubtuneError(f"{path} is the spec of run {written}; {how_to_repair(store)}")
    return spec


def read_outcome(store: Path, run: str) -> dict[str, Any]:
    """Return ``best_epoch``, ``scores``, ``trainable`` and ``diverged``.

    ``scores`` maps split to metric to value. A run that searched has its ``learning_rate``, too. A
    run that diverged has no best epoch, and its scores are NaN.
    """
    outcome = json.loads(read_bytes(store, run, "scores.json"))
    if outcome["diverged"]:
        of_splits = outcome["scores"].items()
        outcome["scores"] = {s: dict.fromkeys(by_metric, math.nan) for s, by_metric in of_splits}
    return outcome


def read_predictions(store: Path, run: str) -> dict[str, np.ndarray]:
    """Return the columns of the predictions on the evaluation splits, at the best epoch."""
    return _columns(store, run, "predictions.parquet")


def read_predictions_of_epochs(store: Path, run: str) -> dict[str, np.ndarray] | None:
    """Return the columns of the predictions of every epoch; none of earlier versions' records.

    ``epoch`` counts from 1. An epoch's rows are those of `read_predictions`, in that order.
    """
    return _columns(store, run, EPOCHS) if EPOCHS in read_checksums(store, run) else None


def number_of_rows(predicted: Mapping[str, np.ndarray], split: str) -> int:
    """Return how many rows of a split have predictions, as `read_predictions` returns them."""
    return len(set(predicted["idx"][predicted["split"] == split]))


def gives_one_answer(predicted: Mapping[str, np.ndarray]) -> bool:
    """Return whether predictions are the same for every row of each split.

    Its accuracy is then the share of one class, and no correlation is defined. A run that diverged
    predicts nothing.
    """
    logits = [values for name, values in predicted.items() if name.startswith("logit_")]
    if len(logits) > 1:
        answers = np.argmax(logits, axis=0)
    else:
        answers = logits[0] if logits else predicted.get("prediction", predicted["label"])
    splits = predicted["split"]
    by_split = [set(answers[splits == split].tolist()) for split in set(splits)]
    return bool(len(answers)) and all(len(different) == 1 for different in by_split)


def read_provenance(store: Path, run: str) -> dict[str, Any]:
    """Return where, when and with what the run was trained."""
    return json.loads(read_bytes(store, run, "provenance.json"))


def read_epochs(store: Path, run: str) -> list[dict[str, float]]:
    """Return the learning curve: one row per epoch, as `subtune.training.run.Result` has it."""
    return _rows(store, run, "history.csv")


def read_trials(store: Path, run: str) -> list[dict[str, Any]]:
    """Return the trials of a run that searched its learning rate: one row per rate."""
    return _rows(store, run, "search.csv")


def seconds_of(history: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of training and evaluation over all epochs."""
    return float(np.sum([epoch["seconds"] for epoch in history]))


def delta_bytes(store: Path, run: str) -> int:
    """Return the size on disk of the values that changed."""
    path = store / run / DELTA
    if not path.is_file():
        raise SubtuneError(f"{path} is missing; {how_to_repair(store)}")
    return path.stat().st_size


def read_delta(store: Path, run: str) -> dict[str, np.ndarray]:
    """Return the values that changed, as `subtune.training.delta` describes them.

    Raises:
        SubtuneError: the run diverged, or its record is damaged.
    """
    if read_outcome(store, run)["diverged"]:
        raise SubtuneError(
            f"run {run} diverged in epoch {len(read_epochs(store, run))} (its loss or a "
            "prediction is not finite): it has no values to predict with"
        )
    return safetensors.numpy.load(read_bytes(store, run, DELTA))


def read_changes(store: Path, run: str) -> pd.DataFrame:
    """Return ``parameter``, ``mean_abs_change`` and ``size`` of every trained tensor."""
    content = read_bytes(store, run, "changes.csv")
    return pd.read_csv(io.BytesIO(content), float_precision="round_trip")


def read_sizes(store: Path, run: str) -> dict[str, int]:
    """Return the size of every trained tensor by its name."""
    return {row["parameter"]: row["size"] for row in _rows(store, run, "changes.csv")}


def _columns(store: Path, run: str, name: str) -> dict[str, np.ndarray]:
    content = read_bytes(store, run, name)
    # Reading by pandas takes ten times as long, which counts for thousands of records.
    table = ParquetFile(io.BytesIO(content)).read(use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}


def _rows(store: Path, run: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, of which pandas would take a millisecond each to start.

    Its numbers are numbers, its other cells text.
    """
    header, *rows = csv.reader(io.StringIO(read_bytes(store, run, name).decode()))
    return [dict(zip(header, map(_cell, row), strict=True)) for row in rows]


def _cell(text: str) -> float | str:
    try:
        return int(text) if text.isdecimal() else float(text or "nan")
    except ValueError:
        return text
