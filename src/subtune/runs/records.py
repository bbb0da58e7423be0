"""Run records: what a run leaves on disk, and how it is read.

A record is a directory named after the run's content id, written once, whole, by an atomic rename::

    spec.json            everything that decided the result, without fields that have their
                         default; records of earlier versions have these, too
    scores.json          best epoch, its scores, the number of trained parameters, divergence
    history.csv          one row per epoch
    predictions.parquet  split, idx, label and what was predicted of the evaluation splits, at the
                         best epoch: logits, labels of words, or spans
    changes.csv          mean |change| and size of every trained tensor
    search.csv           of a run that found its learning rate: every one that it tried, its score
                         and loss on trial, and of those that trained whole the run and the score
    provenance.json      device, versions, commit and time; joules of the job since it last recorded
    delta.safetensors    the values that changed, and where a tensor changed in part, which
    checksums.json       of every other file, which is checked whenever it is read; records of
                         earlier versions have none

A run that diverged has its learning curve; the best epoch and its scores are null, and predictions,
changes and delta are empty.
"""

import contextlib
import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]
from safetensors import SafetensorError

from subtune.core.content_ids import canonical, checksum, id_of
from subtune.core.errors import SubtuneError, one_line
from subtune.selections.specs import RunSpec

CHECKSUMS = "checksums.json"
# Of every record, whatever its version.
FILES = (
    "spec.json", "scores.json", "history.csv", "predictions.parquet", "changes.csv",
    "delta.safetensors",
)  # fmt: skip

# Up to recipe version 4: how a task is presented, and which test rows it has.
NO_LONGER_IN_A_TASK = ("title", "test", "submission", "score_range")


def is_recorded(store: Path, run: str) -> bool:
    """Whether the run's record is there; a record is there whole or not at all."""
    return (store / run / "spec.json").is_file()


def read_spec(store: Path, run: str) -> RunSpec:
    """The spec of a recorded run; of one of an older form what it says in today's.

    Raises:
        SubtuneError: there is no such record, or its spec is not what its name says.
    """
    path = store / run / "spec.json"
    content = _content(store, run, path.name)
    try:
        data = json.loads(content)
        # Of what is written, whose id is the run's in every form.
        written = id_of(canonical(data))
        spec = RunSpec.model_validate(_in_todays_form(data))
    except ValueError:  # of JSON, of its encoding, or of the values in it
        raise SubtuneError(f"{path} is not a run spec; {_mend(store)}") from None
    if written != run:
        raise SubtuneError(f"{path} is the spec of run {written}; {_mend(store)}")
    return spec


def _in_todays_form(data: Any) -> Any:
    """The JSON of a spec, from which is taken what decides nothing and older forms had in it."""
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        for name in NO_LONGER_IN_A_TASK:
            data["tokens"]["data"]["task"].pop(name, None)
    return data


def read_outcome(store: Path, run: str) -> dict[str, Any]:
    """``best_epoch``, ``scores`` (split to metric to value), ``trainable`` and ``diverged``; of a
    run that found its learning rate ``learning_rate``.

    A run that diverged has no best epoch, and every score is NaN, whatever an older record says.

    Raises:
        SubtuneError: there is no such record, or it cannot be read.
    """
    outcome = {"diverged": False} | _read_json(store, run, "scores.json")
    if outcome["diverged"]:
        of_splits = outcome["scores"].items()
        scores = {split: dict.fromkeys(by_metric, math.nan) for split, by_metric in of_splits}
        outcome |= {"best_epoch": None, "scores": scores}
    return outcome


def read_predictions(store: Path, run: str) -> dict[str, np.ndarray]:
    """Return the columns of the predictions on the evaluation splits, at the best epoch.

    Raises:
        SubtuneError: there is no such record, or it cannot be read.
    """
    content = _content(store, run, "predictions.parquet")
    with readable(store, run):
        # A table of pandas' takes ten times as long, which counts where records are many.
        table = ParquetFile(io.BytesIO(content)).read(use_threads=False)
        return {name: table[name].to_numpy() for name in table.column_names}


def gives_one_answer(store: Path, run: str) -> bool:
    """Whether a run predicts the same class, number, label or span of every row of each split.

    Its accuracy is then that of the class, and no correlation is defined. A run that diverged
    predicts nothing.

    Raises:
        SubtuneError: there is no such record, or it cannot be read.
    """
    predicted = read_predictions(store, run)
    logits = [values for name, values in predicted.items() if name.startswith("logit_")]
    match len(logits):
        case 0:
            answers = predicted.get("prediction", predicted["label"])
        case 1:
            answers = logits[0]
        case _:
            answers = np.argmax(logits, axis=0)
    splits = predicted["split"]
    by_split = [set(answers[splits == split].tolist()) for split in set(splits)]
    return bool(len(answers)) and all(len(different) == 1 for different in by_split)


def read_provenance(store: Path, run: str) -> dict[str, Any]:
    """Where, when and with what the run was trained; empty for a record that does not say so.

    Raises:
        SubtuneError: it cannot be read.
    """
    name = "provenance.json"
    return _read_json(store, run, name) if (store / run / name).is_file() else {}


def read_history(store: Path, run: str) -> pd.DataFrame:
    """The learning curve: one row per epoch, as `subtune.training.run.Result` describes it.

    An epoch whose loss is not finite has no scores, whatever an older record says.

    Raises:
        SubtuneError: there is no such record.
    """
    history = _read_csv(store, run, "history.csv")
    scores = [column for column in history if "/" in column]
    history.loc[~np.isfinite(history["train_loss"]), scores] = math.nan
    return history


def read_epochs(store: Path, run: str) -> list[dict[str, float]]:
    """As `read_history`, for readers of many records: a table of pandas' takes a millisecond.

    Raises:
        SubtuneError: there is no such record.
    """
    epochs = _rows(store, run, "history.csv")
    for epoch in epochs:
        if not math.isfinite(epoch["train_loss"]):
            epoch |= {name: math.nan for name in epoch if "/" in name}
    return epochs


def seconds_of(history: Sequence[Mapping[str, float]]) -> float:
    """Seconds of training and evaluation over all epochs."""
    return float(np.sum([epoch["seconds"] for epoch in history]))


def delta_path(store: Path, run: str) -> Path:
    """The file with the values that changed."""
    return store / run / "delta.safetensors"


def delta_bytes(store: Path, run: str) -> int:
    """The size on disk of the values that changed.

    Raises:
        SubtuneError: there is no such record.
    """
    try:
        return delta_path(store, run).stat().st_size
    except FileNotFoundError:
        raise SubtuneError(_lost(delta_path(store, run))) from None


def read_delta(store: Path, run: str) -> dict[str, np.ndarray]:
    """The values that changed, as `subtune.training.delta` describes them.

    Raises:
        SubtuneError: there is no such record, it cannot be read, or the run diverged.
    """
    if read_outcome(store, run)["diverged"]:
        raise SubtuneError(
            f"run {run} diverged in epoch {len(read_history(store, run))} (its loss or a "
            "prediction is not finite): it has no values to predict with"
        )
    path = delta_path(store, run)
    content = _content(store, run, path.name)
    try:
        return safetensors.numpy.load(content)
    except SafetensorError:
        raise SubtuneError(f"{path} is not readable; {_mend(store)}") from None


def find(store: Path, start: str) -> str:
    """The id of the one recorded run whose id starts with ``start``.

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


def all_runs(store: Path) -> list[str]:
    """Ids of all recorded runs."""
    return sorted(path.parent.name for path in store.glob("[0-9a-f]*/spec.json"))


def read_changes(store: Path, run: str) -> pd.DataFrame:
    """``parameter``, ``mean_abs_change`` and ``size`` of every trained tensor.

    Raises:
        SubtuneError: there is no such record.
    """
    return _read_csv(store, run, "changes.csv")


def read_sizes(store: Path, run: str) -> dict[str, int]:
    """The size of every trained tensor, as `read_changes` has it.

    Raises:
        SubtuneError: there is no such record.
    """
    return {row["parameter"]: row["size"] for row in _rows(store, run, "changes.csv")}


def _read_json(store: Path, run: str, name: str) -> dict[str, Any]:
    content = _content(store, run, name)
    try:
        return json.loads(content)
    except ValueError:
        raise SubtuneError(f"{store / run / name} is not readable JSON; {_mend(store)}") from None


def _read_csv(store: Path, run: str, name: str) -> pd.DataFrame:
    content = _content(store, run, name)
    try:
        return pd.read_csv(io.BytesIO(content), float_precision="round_trip")
    except ValueError:
        raise _no_table(store / run / name) from None


def _rows(store: Path, run: str, name: str) -> list[dict[str, Any]]:
    """The rows of a table: its numbers are numbers, its other cells text."""
    content = _content(store, run, name)
    try:
        header, *rows = csv.reader(io.StringIO(content.decode()))
        return [dict(zip(header, map(_cell, row), strict=True)) for row in rows]
    except ValueError:
        raise _no_table(store / run / name) from None


def _cell(text: str) -> float | str:
    try:
        return int(text) if text.isdecimal() else float(text or "nan")
    except ValueError:
        return text


def _no_table(path: Path) -> SubtuneError:
    return SubtuneError(f"{path} is no table; {_mend(path.parent.parent)}")


def complete(folder: Path, spec: RunSpec) -> None:
    """Write the last files of a record: its spec, and what every file is known again by."""
    # The id is that of what is written here, and stays so whatever fields later versions add.
    text = json.dumps(spec.written(), indent=2, ensure_ascii=False)
    (folder / "spec.json").write_text(text + "\n", encoding="utf-8")
    paths = [path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS]
    sums = {path.name: checksum(path.read_bytes()) for path in paths}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n")


def problems_of(store: Path, run: str) -> list[str]:
    """What is wrong with a record: a line for each file that is not what was recorded."""
    try:
        with readable(store, run):
            read_spec(store, run)
            sums = _checksums(store, run)
            for read in () if sums else (read_outcome, read_epochs, read_sizes, read_provenance):
                read(store, run)
    except SubtuneError as error:
        return [str(error)]
    problems = []
    for name in sorted(sums) or FILES:
        try:
            _checked(store / run / name, sums)
        except SubtuneError as error:
            problems.append(str(error))
    return problems


def has_checksums(store: Path, run: str) -> bool:
    """Whether every change of a record is found; of the earliest versions' what cannot be read."""
    return (store / run / CHECKSUMS).is_file()


@contextlib.contextmanager
def readable(store: Path, run: str) -> Iterator[None]:
    """Have whatever is wrong in a record that has no checksums said in a line.

    Raises:
        SubtuneError: it is no record that this version reads.
    """
    with one_line(f"{store / run} is no record that this version reads; {_mend(store)}"):
        yield


def _content(store: Path, run: str, name: str) -> bytes:
    """A file of a record, which is what was recorded."""
    return _checked(store / run / name, _checksums(store, run))


def _checked(path: Path, sums: Mapping[str, str]) -> bytes:
    """A file that is what its record's checksums say."""
    store = path.parent.parent
    if path.exists() and not path.is_file():
        raise SubtuneError(f"{path} is no file; {_mend(store)}")
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise SubtuneError(_lost(path)) from None
    except OSError as error:
        raise SubtuneError(f"{path} cannot be read: {error.strerror}") from None
    recorded = sums.get(path.name)
    if recorded is not None and recorded != checksum(content):
        raise SubtuneError(f"{path} is not what was recorded; {_mend(store)}")
    return content


def _checksums(store: Path, run: str) -> dict[str, str]:
    """File to checksum; none of a record of an earlier version."""
    path = store / run / CHECKSUMS
    try:
        sums = json.loads(path.read_bytes()) if path.is_file() else {}
    except (OSError, ValueError):
        sums = None
    if not isinstance(sums, dict) or (path.exists() and not sums):
        raise SubtuneError(f"{path} is not readable JSON; {_mend(store)}")
    return sums


def _lost(path: Path) -> str:
    return f"{path} is missing; {_mend(path.parent.parent)}"


def _mend(store: Path) -> str:
    return (
        f"`subtune verify --results {store.parent} --repair` sets damaged records aside, and the "
        "next call of snakemake trains those runs again"
    )
