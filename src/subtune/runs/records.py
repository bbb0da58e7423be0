"""Write, read and check run records.

A record is a directory whose name is the run's content id. Its files are written once, to a
temporary directory that is then renamed atomically::

    spec.json            the run's spec, without fields that have their default value
    scores.json          best epoch, its scores, number of trained parameters, whether it diverged
    history.csv          one row per epoch
    predictions.parquet  split, idx, label and prediction (logits, word labels, or answers) of every
                         evaluation example at the best epoch; for answers, also all accepted
                         answers
    epochs.parquet       epoch, split, idx and prediction of the same examples at every epoch;
                         this file does not exist if the run diverged
    changes.csv          mean |change| and size of every trained tensor
    provenance.json      device, versions, commit and time
    delta.safetensors    the changed values, and their indices in partly changed tensors
    checksums.json       checksums of all other files, which are verified at every reading

In the record of a diverged run, the best epoch and the scores are null, and predictions, changes
and delta are empty. Functions that read a record raise a `SubtuneError` if a file is
missing, cannot be read, or does not match its checksum.
"""

import contextlib
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from pyarrow.parquet import ParquetFile

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, hash_bytes, new_directory
from subtune.runs.spec import RunSpec
from subtune.tasks import TaskSpec

CHECKSUMS = "checksums.json"
DELTA = "delta.safetensors"
EPOCHS = "epochs.parquet"
# The split name of scores on training examples, which only some records contain.
TRAIN = "train"
RUN_ID = re.compile("[0-9a-f]{12}")


def is_recorded(store: Path, run_id: str) -> bool:
    """Return whether a run has a record. A record is never incomplete."""
    return (store / run_id / "spec.json").is_file()


def list_run_ids(store: Path) -> list[str]:
    """List the ids of all recorded runs, in alphabetical order."""
    return sorted(path.parent.name for path in store.glob("[0-9a-f]*/spec.json"))


def find_run_id(store: Path, start: str) -> str:
    """Complete the beginning of a run's id, which must match exactly one recorded run."""
    matches = [run_id for run_id in list_run_ids(store) if run_id.startswith(start)]
    if len(matches) != 1:
        raise SubtuneError(
            f"found {len(matches)} runs in {store} whose ids start with {start!r}, expected one; "
            "see `subtune runs`"
        )
    return matches[0]


def write_record_files(store: Path, spec: RunSpec, fill: Callable[[Path], object]) -> None:
    """Write the record of a run, unless the record exists.

    ``fill`` writes all files except ``spec.json`` and ``checksums.json`` to a folder. A full disk
    or a store without write permission raises a `SubtuneError`.
    """
    if is_recorded(store, spec.id):
        return
    try:
        with new_directory(store / spec.id) as draft:
            fill(draft)
            text = json.dumps(spec.json_types, indent=2, ensure_ascii=False)
            (draft / "spec.json").write_text(text + "\n", encoding="utf-8")
            write_checksums(draft)
    except SubtuneError as error:
        # A job on a node that seemed lost may have recorded the same run in the meantime.
        if not is_recorded(store, spec.id):
            raise SubtuneError(f"{error}; runs recorded so far are kept") from None


def write_checksums(folder: Path) -> None:
    """Write ``checksums.json`` for the files in the folder of a record."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS]
    sums = {path.name: hash_bytes(path.read_bytes()) for path in paths}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n")


def read_spec(store: Path, run_id: str) -> RunSpec:
    """Read the spec of a recorded run."""
    path = store / run_id / "spec.json"
    try:
        spec = RunSpec.model_validate_json(_read_file(path))
    except ValueError:
        raise _damage_error(store, f"{path} is not a run spec") from None
    if spec.id != run_id:
        raise _damage_error(store, f"{path} is the spec of run {spec.id}")
    return spec


def read_outcome(store: Path, run_id: str) -> dict[str, Any]:
    """Read ``scores.json``.

    The keys are ``best_epoch`` (None if the run diverged), ``scores`` (maps each split to a dict
    from metric to score; all NaN if the run diverged), ``trainable`` (the number of trained
    parameters), ``diverged`` and, if known, ``share_read``.
    """
    outcome = json.loads(_read_file(store / run_id / "scores.json"))
    for by_metric in outcome["scores"].values():
        for metric, value in by_metric.items():
            if value is None or outcome["diverged"]:
                by_metric[metric] = math.nan
    return outcome


def first_score(outcome: Mapping[str, Any], task: TaskSpec) -> float:
    """Return the first metric on the first evaluation split. Refits are not scored: NaN."""
    return outcome["scores"].get(task.evaluation[0], {}).get(task.metrics[0], math.nan)


def read_score(store: Path, run: RunSpec) -> float | None:
    """Read a run's `first_score`, or return None without a record."""
    if not is_recorded(store, run.id):
        return None
    return first_score(read_outcome(store, run.id), run.tokens.data.task)


def read_recorded_predictions(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Read the columns of ``predictions.parquet``, which has the predictions of the best epoch."""
    return _read_columns(store / run_id / "predictions.parquet")


def read_predictions_of_epochs(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Read the columns of ``epochs.parquet``, which does not exist if the run diverged.

    ``epoch`` counts from 1. Each epoch has the examples of ``predictions.parquet`` in the same
    order.
    """
    return _read_columns(store / run_id / EPOCHS)


def count_examples(predicted: Mapping[str, np.ndarray], split: str) -> int:
    """Count the examples of a split in predictions that `read_recorded_predictions` returned."""
    return len(set(predicted["idx"][predicted["split"] == split]))


def has_constant_predictions(predicted: Mapping[str, np.ndarray]) -> bool:
    """Return whether all predictions in each split are equal; False if the run diverged."""
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
    """Read the device, package versions, commit and time of a run's training."""
    return json.loads(_read_file(store / run_id / "provenance.json"))


def read_epochs(store: Path, run_id: str) -> list[dict[str, float]]:
    """Read the learning curve: one row per epoch, as in the ``history`` of a `TrainingResult`."""
    return _read_csv(store / run_id / "history.csv")


def read_curve(store: Path, run_id: str, column: str) -> list[float]:
    """Read one column of the learning curve, such as ``validation/f1``: one value per epoch."""
    return [epoch[column] for epoch in read_epochs(store, run_id)]


def total_seconds(history: Sequence[Mapping[str, float]]) -> float:
    """Sum the seconds of training and evaluation over the epochs of a learning curve."""
    return float(np.sum([epoch["seconds"] for epoch in history]))


def delta_bytes(store: Path, run_id: str) -> int:
    """Return the size in bytes of a run's delta on disk."""
    path = store / run_id / DELTA
    if not path.is_file():
        raise _damage_error(store, f"{path} is missing")
    return path.stat().st_size


def read_delta(store: Path, run_id: str) -> dict[str, np.ndarray]:
    """Read a delta, as in `subtune.training.values`. A diverged run raises a `SubtuneError`."""
    if read_outcome(store, run_id)["diverged"]:
        raise SubtuneError(
            f"run {run_id} diverged in epoch {len(read_epochs(store, run_id))} (its loss or a "
            "prediction is not finite); choose a run that did not diverge"
        )
    return safetensors.numpy.load(_read_file(store / run_id / DELTA))


def read_parameter_changes(store: Path, run_id: str) -> pd.DataFrame:
    """Read one row per trained tensor: ``parameter``, ``mean_abs_change`` and ``size``."""
    rows = _read_csv(store / run_id / "changes.csv")
    return pd.DataFrame(rows, columns=["parameter", "mean_abs_change", "size"])


def read_sizes(store: Path, run_id: str) -> dict[str, int]:
    """Read the number of entries of every trained tensor, by the tensor's name."""
    return {row["parameter"]: row["size"] for row in _read_csv(store / run_id / "changes.csv")}


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    # pandas is ten times slower, which matters for thousands of records.
    table = ParquetFile(io.BytesIO(_read_file(path))).read(use_threads=False)
    return {name: table[name].to_numpy() for name in table.column_names}


def _read_csv(path: Path) -> list[dict[str, Any]]:
    """Read a CSV file into one dict per row. Cells that are not numbers are strings."""
    header, *rows = csv.reader(io.StringIO(_read_file(path).decode()))
    return [dict(zip(header, map(_parse_cell, row), strict=True)) for row in rows]


def _parse_cell(text: str) -> float | str:
    try:
        return int(text) if text.isdecimal() else float(text or "nan")
    except ValueError:
        return text


def _read_file(path: Path) -> bytes:
    """Read a file of a record, and verify its checksum."""
    return _read_and_check(path, _read_checksums(path.parent))


def _read_checksums(record: Path) -> dict[str, str]:
    path = record / CHECKSUMS
    try:
        return json.loads(_read_and_check(path, {}))
    except ValueError:
        raise _damage_error(record.parent, f"{path} is not readable JSON") from None


def _read_and_check(path: Path, sums: Mapping[str, str]) -> bytes:
    """Read a file of a record, and verify its checksum if ``sums`` contains the file's name."""
    store = path.parent.parent
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        missing = path if path.parent.exists() else path.parent
        raise _damage_error(store, f"{missing} is missing") from None
    except OSError as error:
        raise SubtuneError(f"{path} cannot be read: {error.strerror}") from None
    if path.name in sums and sums[path.name] != hash_bytes(content):
        raise _damage_error(store, f"{path} has the wrong checksum")
    return content


def _damage_error(store: Path, problem: str) -> SubtuneError:
    """Build an error that says that a record is damaged, and how to train its run again."""
    return SubtuneError(
        f"{problem}; `subtune verify --results {store.parent}` lists the files to delete; delete "
        "them, and run snakemake again"
    )


def require_undamaged(store: Path, run_id: str) -> None:
    """Raise a `SubtuneError` unless a record matches its checksums and its spec matches the id."""
    sums = _read_checksums(store / run_id)
    for name in sorted(sums):
        _read_and_check(store / run_id / name, sums)
    read_spec(store, run_id)


def find_damage(layout: Layout) -> tuple[dict[str, str], list[Path]]:
    """Find damaged records, and missing records of finished sweeps and searches.

    Returns:
        The error message of each affected run, by run id; and the paths (records and outputs of
        sweeps and searches) that must be deleted for Snakemake to train exactly these runs again.
    """
    store, finished = Path(layout.records()), dict[Path, set[str]]()
    for pattern in map(Path, (layout.sweep("[!.]*"), layout.searches("[!.]*"))):
        finished |= {path: read_run_ids(path) for path in sorted(pattern.parent.glob(pattern.name))}
    damage = {}
    for run_id in sorted({*list_stored_ids(layout)}.union(*finished.values())):
        try:
            require_undamaged(store, run_id)
        except SubtuneError as error:
            damage[run_id] = str(error)
    records = [store / run_id for run_id in damage if (store / run_id).exists()]
    outputs = [path for path, runs in finished.items() if not runs.isdisjoint(damage)]
    return damage, records + outputs


def require_recorded(store: Path, outputs: Iterable[str]) -> None:
    """Raise a `SubtuneError` if a run of a finished sweep or search has no record.

    ``outputs`` are the output files of sweeps and searches. Missing files are skipped.
    """
    for path in filter(Path.is_file, map(Path, outputs)):
        for run_id in sorted(read_run_ids(path)):
            if not is_recorded(store, run_id):
                read_spec(store, run_id)


def read_run_ids(output: Path) -> set[str]:
    """Read the ids of all runs of a finished sweep or search from its output.

    A damaged file has no ids, because it does not show which runs were trained.
    """
    ids: list[str] = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error):
        text = output.read_text(encoding="utf-8")
        if output.suffix == ".json":
            ids = [rate["run"] for found in json.loads(text).values() for rate in found["tried"]]
        else:
            ids = [row["run"] for row in csv.DictReader(io.StringIO(text), restval="")]
    return {*filter(RUN_ID.fullmatch, ids)}


def list_stored_ids(layout: Layout) -> list[str]:
    """List the ids of all runs with a directory in the store, even if the spec is missing."""
    names = (path.name for path in sorted(Path(layout.records()).glob("*")))
    return [name for name in names if RUN_ID.fullmatch(name)]
