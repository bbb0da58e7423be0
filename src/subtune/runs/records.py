"""Run records: their files, and how they are written, read and checked.

A record is a directory named after the run's content id. It is written once, by an atomic rename::

    spec.json            everything that decided the result, without fields that have their
                         default; records of earlier versions have these, too
    scores.json          best epoch, its scores, the number of trained parameters, divergence
    history.csv          one row per epoch
    predictions.parquet  split, idx, label and prediction (logits, labels of words, or spans with
                         all accepted answers) for the evaluation splits, at the best epoch
    epochs.parquet       epoch, split, idx and prediction of the same rows at every epoch; there is
                         no such file if the run diverged
    changes.csv          mean |change| and size of every trained tensor
    provenance.json      device, versions, commit and time
    delta.safetensors    the values that changed and, in partly changed tensors, their indices
    checksums.json       checksums of all other files; each file is checked whenever it is read

If a run diverged, its record keeps the learning curve; the best epoch and scores are null, and
predictions, changes and delta are empty.

Every function that reads a record raises a `SubtuneError` if the record is missing, cannot be
read, or is not what was recorded.
"""

import contextlib
import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from pyarrow.parquet import ParquetFile

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, checksum, new_directory
from subtune.core.ids import content_id
from subtune.runs.spec import RunSpec

CHECKSUMS = "checksums.json"
DELTA = "delta.safetensors"
EPOCHS = "epochs.parquet"
# The split of scores on training rows, in the records of some runs.
TRAIN = "train"
RUN_ID = re.compile("[0-9a-f]{12}")


class EarlierVersionError(SubtuneError):
    """A whole record whose spec this version does not read."""


def is_recorded(store: Path, run_id: str) -> bool:
    """Return whether the run's record exists; there are no partial records."""
    return (store / run_id / "spec.json").is_file()


def list_run_ids(store: Path) -> list[str]:
    """Return the ids of all recorded runs."""
    return sorted(path.parent.name for path in store.glob("[0-9a-f]*/spec.json"))


def find_run_id(store: Path, start: str) -> str:
    """Return the id of the one recorded run whose id starts with ``start``.

    Raises:
        SubtuneError: there is no such run, or there are several.
    """
    matches = [run_id for run_id in list_run_ids(store) if run_id.startswith(start)]
    if len(matches) != 1:
        raise SubtuneError(
            f"found {len(matches)} runs {start!r} in {store}, expected one; "
            "`subtune runs` lists them"
        )
    return matches[0]


def write_files(store: Path, spec: RunSpec, fill: Callable[[Path], object]) -> None:
    """Write a run's record, unless it exists.

    ``fill`` writes files into a folder, to which the spec and the checksums are added. In every
    version, the run's id is the hash of the spec as written.

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
        # A job on a lost node may have recorded the same run in the meantime.
        if not is_recorded(store, spec.id):
            raise SubtuneError(f"{error}; runs recorded so far are kept") from None


def write_checksums(folder: Path) -> None:
    """Write the last file of a record: the checksums of all other files."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS]
    sums = {path.name: checksum(path.read_bytes()) for path in paths}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n")


def read_spec(store: Path, run_id: str) -> RunSpec:
    """Return the spec of a recorded run.

    Raises:
        EarlierVersionError: the spec is what was recorded, but this version does not read it.
    """
    path = store / run_id / "spec.json"
    try:
        data = json.loads(_read_file(path))
        written = content_id(data)
    except ValueError:
        raise _damage_error(store, f"{path} is not a run spec") from None
    if written != run_id:
        raise _damage_error(store, f"{path} is the spec of run {written}")
    try:
        return RunSpec.model_validate(data)
    except ValueError:
        raise EarlierVersionError(f"run {run_id} in {store} is of an earlier version") from None


def read_outcome(store: Path, run_id: str) -> dict[str, Any]:
    """Return ``best_epoch``, ``scores``, ``trainable`` and ``diverged``.

    ``scores`` maps split to metric to value. A run that diverged has no best epoch, and its scores
    are NaN.
    """
    outcome = json.loads(_read_file(store / run_id / "scores.json"))
    for by_metric in outcome["scores"].values():
        for metric, value in by_metric.items():
            if value is None or outcome["diverged"]:
                by_metric[metric] = math.nan
    return outcome


def read_predictions(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Return the columns of the predictions on the evaluation splits, at the best epoch."""
    return _read_columns(store / run_id / "predictions.parquet")


def read_predictions_of_epochs(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Return the columns of the predictions of every epoch of a run that did not diverge.

    ``epoch`` counts from 1. Each epoch has the rows of `read_predictions`, in the same order.
    """
    return _read_columns(store / run_id / EPOCHS)


def count_rows(predicted: Mapping[str, np.ndarray], split: str) -> int:
    """Return the number of a split's rows in the predictions of `read_predictions`."""
    return len(set(predicted["idx"][predicted["split"] == split]))


def gives_one_answer(predicted: Mapping[str, np.ndarray]) -> bool:
    """Return whether predictions are the same for every row of each split.

    If so, accuracy is the share of one class, and no correlation is defined. A run that diverged
    predicts nothing.
    """
    logits = [values for name, values in predicted.items() if name.startswith("logit_")]
    if len(logits) > 1 and predicted["label"].dtype == object:
        # An answer of a multi-label task is a set of labels.
        answers = np.unique(np.array(logits) > 0, axis=1, return_inverse=True)[1]
    elif len(logits) > 1:
        answers = np.argmax(logits, axis=0)
    else:
        answers = logits[0] if logits else predicted.get("prediction", predicted["label"])
    splits = predicted["split"]
    by_split = [set(answers[splits == split].tolist()) for split in set(splits)]
    return bool(len(answers)) and all(len(different) == 1 for different in by_split)


def read_provenance(store: Path, run_id: str) -> dict[str, Any]:
    """Return the device, versions, commit and time of a run's training."""
    return json.loads(_read_file(store / run_id / "provenance.json"))


def read_epochs(store: Path, run_id: str) -> list[dict[str, float]]:
    """Return the learning curve: one row per epoch, as in `subtune.training.evaluation.Result`."""
    return _read_rows(store / run_id / "history.csv")


def read_curve(store: Path, run_id: str, column: str) -> list[float]:
    """Return one column of the learning curve, such as ``validation/f1``: a score per epoch."""
    return [epoch[column] for epoch in read_epochs(store, run_id)]


def total_seconds(history: Sequence[Mapping[str, float]]) -> float:
    """Return the seconds of training and evaluation over all epochs."""
    return float(np.sum([epoch["seconds"] for epoch in history]))


def delta_bytes(store: Path, run_id: str) -> int:
    """Return the size on disk of the values that changed."""
    path = store / run_id / DELTA
    if not path.is_file():
        raise _damage_error(store, f"{path} is missing")
    return path.stat().st_size


def read_delta(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Return the values that changed, as `subtune.training.values` describes them.

    Raises:
        SubtuneError: the run diverged, or its record is damaged.
    """
    if read_outcome(store, run_id)["diverged"]:
        raise SubtuneError(
            f"run {run_id} diverged in epoch {len(read_epochs(store, run_id))} (its loss or a "
            "prediction is not finite): it has no values to predict with"
        )
    return safetensors.numpy.load(_read_file(store / run_id / DELTA))


def read_changes(store: Path, run_id: str) -> pd.DataFrame:
    """Return ``parameter``, ``mean_abs_change`` and ``size`` of every trained tensor."""
    rows = _read_rows(store / run_id / "changes.csv")
    return pd.DataFrame(rows, columns=["parameter", "mean_abs_change", "size"])


def read_sizes(store: Path, run_id: str) -> dict[str, int]:
    """Return the size of every trained tensor by its name."""
    return {row["parameter"]: row["size"] for row in _read_rows(store / run_id / "changes.csv")}


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    # Reading with pandas takes ten times as long, which matters for thousands of records.
    table = ParquetFile(io.BytesIO(_read_file(path))).read(use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, with numbers as numbers and other cells as text.

    Pandas would take a millisecond per table.
    """
    header, *rows = csv.reader(io.StringIO(_read_file(path).decode()))
    return [dict(zip(header, map(_parse_cell, row), strict=True)) for row in rows]


def _parse_cell(text: str) -> float | str:
    try:
        return int(text) if text.isdecimal() else float(text or "nan")
    except ValueError:
        return text


def _read_file(path: Path) -> bytes:
    """Return the content of a record's file after checking it."""
    return _read_and_check(path, _read_checksums(path.parent))


def _read_checksums(record: Path) -> dict[str, str]:
    """Return the checksum of each file of a record."""
    path = record / CHECKSUMS
    try:
        return json.loads(_read_and_check(path, {}))
    except ValueError:
        raise _damage_error(record.parent, f"{path} is not readable JSON") from None


def _read_and_check(path: Path, sums: Mapping[str, str]) -> bytes:
    store = path.parent.parent
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        missing = path if path.parent.exists() else path.parent
        raise _damage_error(store, f"{missing} is missing") from None
    except OSError as error:
        raise SubtuneError(f"{path} cannot be read: {error.strerror}") from None
    if path.name in sums and sums[path.name] != checksum(content):
        raise _damage_error(store, f"{path} is not what was recorded")
    return content


def _damage_error(store: Path, problem: str) -> SubtuneError:
    """Return the error about a damaged record, which says how to train its run again."""
    return SubtuneError(
        f"{problem}; `subtune verify --results {store.parent}` lists the files to delete, and the "
        "next call of snakemake trains those runs again"
    )


def require_undamaged(store: Path, run_id: str) -> None:
    """Raise a `SubtuneError` about the first damaged file of a record, or another run's spec.

    Raises:
        EarlierVersionError: the record is whole, but this version does not read it.
    """
    sums = _read_checksums(store / run_id)
    for name in sorted(sums):
        _read_and_check(store / run_id / name, sums)
    read_spec(store, run_id)


def find_damage(layout: Layout) -> tuple[dict[str, str], list[Path]]:
    """Find records that are damaged, or missing though their sweep has finished.

    Returns:
        A line about each of these runs, by id, and the paths without which Snakemake trains these
        runs again, and no other runs: their records and the tables of their sweeps.
    """
    store, sweeps = Path(layout.records()), dict[Path, set[str]]()
    for table in sorted(Path(layout.sweep("*")).parent.glob("[!.]*.csv")):
        # Damaged tables are skipped.
        with contextlib.suppress(OSError, ValueError, KeyError, csv.Error):
            sweeps[table] = {*filter(RUN_ID.fullmatch, read_sweep(table).values())}
    damage = {}
    for run_id in sorted({*list_stored_ids(layout)}.union(*sweeps.values())):
        try:
            require_undamaged(store, run_id)
        except EarlierVersionError:
            continue
        except SubtuneError as error:
            damage[run_id] = str(error)
    records = [store / run_id for run_id in damage if (store / run_id).exists()]
    return damage, records + [
        table for table, runs in sweeps.items() if not runs.isdisjoint(damage)
    ]


def read_sweep(table: str | Path) -> dict[str, str]:
    """Return the run that each planned run of a finished sweep became, by key."""
    with open(table, encoding="utf-8", newline="") as file:
        # Sweeps of earlier versions have no keys: all their runs were known before.
        return {row.get("key", row["run"]): row["run"] for row in csv.DictReader(file, restval="")}


def list_stored_ids(layout: Layout) -> list[str]:
    """Return the run ids with an entry in the store, complete or not."""
    names = (path.name for path in sorted(Path(layout.records()).glob("*")))
    return [name for name in names if RUN_ID.fullmatch(name)]
