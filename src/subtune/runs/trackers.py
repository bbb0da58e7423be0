"""Recorded runs in other programs that show learning curves: TensorBoard and trackio.

A run is named after its task, method and id. One that is there already is left as it is, since
records do not change. ``runs`` are rows of `subtune.runs.listing.recorded_runs`.
"""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.core.directories import new_directory
from subtune.core.errors import SubtuneError, one_line
from subtune.runs import records

# Columns of the list of runs that are results; the others are settings.
RESULTS = ("score", "best_epoch", "diverged", "trained", "delta_bytes")
# Variables that send what trackio logs elsewhere, where it cannot be seen which runs are there.
ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


def to_tensorboard(store: Path, runs: pd.DataFrame, target: Path) -> str:
    """Write a folder of event files for each run. Return in words how many were written.

    Raises:
        SubtuneError: tensorboard is not installed, ``target`` cannot be written, or a record is
            damaged.
    """
    with _installed("--tensorboard", "tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    there = [path.name for path in target.glob("*")]
    missing = _missing(runs, there)
    for name, row in missing.items():
        epochs = records.read_epochs(store, row["run"])
        with new_directory(target / name) as draft, SummaryWriter(str(draft)) as writer:
            for epoch in epochs:
                for metric, value in _metrics(epoch).items():
                    writer.add_scalar(metric, value, int(epoch["epoch"]))
            score = {f"score/{row['metric']}": row["score"]}
            writer.add_hparams(_settings(row), score, run_name=".")
    return _in_words(missing, runs, str(target))


def to_trackio(store: Path, runs: pd.DataFrame, project: str) -> str:
    """Log each run to a project of trackio's on this machine. Return in words how many were logged.

    Raises:
        SubtuneError: trackio is not installed or refuses the project, or a record is damaged.
    """
    if set_ones := [name for name in ELSEWHERE if os.environ.get(name)]:
        raise SubtuneError(
            f"--trackio: found {set_ones[0]} in the environment, expected none: runs are logged "
            "on this machine; `trackio sync` then copies them"
        )
    with _installed("--trackio", "trackio"):
        import trackio
    there = []
    with suppress(ValueError):  # No such project yet.
        there = [run.name for run in trackio.Api().runs(project)]
    missing = _missing(runs, there)
    for name, row in missing.items():
        epochs = records.read_epochs(store, row["run"])
        results = {key: row[key] for key in RESULTS if pd.notna(row[key])}
        # It prints several lines a run.
        with one_line(f"--trackio: {project}"), redirect_stdout(io.StringIO()):
            off = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
            config = _settings(row) | results
            trackio.init(project, name, group=row["task"], config=config, **off)
            for epoch in epochs:
                trackio.log(_metrics(epoch), step=int(epoch["epoch"]))
            trackio.finish()
    return _in_words(missing, runs, f"the project {project} of trackio")


@contextmanager
def _installed(option: str, package: str) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise SubtuneError(
            f'{option}: found no package {package}; call `pip install "subtune[trackers]"`'
        ) from None


def _missing(runs: pd.DataFrame, there: list[str]) -> dict[str, dict[str, Any]]:
    """Return by their names the rows of the runs that are not there, under any name."""
    ids = {name.rpartition("-")[2] for name in there}
    named = {}
    for row in runs.to_dict("records"):
        # The name is a folder's, too.
        words = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{row['task']}-{row['method']}")[:100].strip("-.")
        if row["run"] not in ids:
            named[f"{words}-{row['run']}"] = row
    return named


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in RESULTS}


def _metrics(epoch: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in epoch.items() if name != "epoch"}


def _in_words(missing: dict[str, dict[str, Any]], runs: pd.DataFrame, place: str) -> str:
    there = len(runs) - len(missing)
    return f"{len(missing):,} run(s) written to {place}; {there:,} were there already"
