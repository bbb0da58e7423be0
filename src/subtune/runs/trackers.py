"""Recorded runs in other programs that show learning curves: TensorBoard and trackio.

A run that is there already is left as it is, since records do not change. ``runs`` are rows of
`subtune.runs.listing.recorded_runs`. A `SubtuneError` says that the package is not installed, that
a place cannot be written, or that a record is damaged.
"""

import io
import math
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from subtune.core.errors import SubtuneError, one_line
from subtune.core.layout import new_directory
from subtune.runs import records


def to_tensorboard(store: Path, runs: pd.DataFrame, target: Path) -> None:
    """Write a folder of event files for each run."""
    _require("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    for name, row, epochs in _missing(store, runs, {path.name for path in target.glob("*")}):
        with new_directory(target / name) as draft, SummaryWriter(str(draft)) as writer:
            for epoch, metrics in epochs.items():
                for metric, value in metrics.items():
                    writer.add_scalar(metric, value, epoch)
            writer.add_hparams(row, {f"score/{row['metric']}": row["score"]}, run_name=".")


def to_trackio(store: Path, runs: pd.DataFrame, project: str) -> None:
    """Log each run to a project of trackio's on this machine."""
    _require("trackio")
    import trackio  # type: ignore[import-not-found, unused-ignore]

    for variable in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        os.environ.pop(variable, None)
    there: set[str] = set()
    with suppress(ValueError):  # The project is new.
        there = {run.name for run in trackio.Api().runs(project)}
    for name, row, epochs in _missing(store, runs, there):
        with one_line(f"--trackio: {project}"), redirect_stdout(io.StringIO()):  # It prints a lot.
            trackio.init(project, name, config=row, auto_log_gpu=False, auto_log_cpu=False)
            for epoch, metrics in epochs.items():
                trackio.log(metrics, step=epoch)
            trackio.finish()


def _require(package: str) -> None:
    if find_spec(package) is None:
        hint = 'call `pip install "subtune[trackers]"`'
        raise SubtuneError(f"--{package}: found no package {package}; {hint}")


def _missing(store: Path, runs: pd.DataFrame, there: set[str]) -> Iterator[tuple]:
    """Yield name, row and metrics by epoch of each run whose id no name ends with."""
    is_there = runs["run"].isin([name.rpartition("-")[2] for name in there])
    # Neither takes the value that stands for a missing whole number.
    for row in runs[~is_there].astype(object).fillna(math.nan).to_dict("records"):
        # The name is a folder's, too.
        words = re.sub(r"[^A-Za-z0-9_.]+", "-", f"{row['task']}-{row['method']}")[:100].strip("-.")
        epochs = records.read_epochs(store, row["run"])
        yield f"{words}-{row['run']}", row, {int(epoch.pop("epoch")): epoch for epoch in epochs}
