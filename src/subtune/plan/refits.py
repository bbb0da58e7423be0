"""Refits: the runs that train a cross-validated method once more, on the rows of all folds."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.runs.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd


def refit_of(chosen: "pd.DataFrame", store: Path, method: str) -> RunSpec:
    """Return the run of a method on all rows, with the first seed and the chosen learning rate.

    The run ends after the median of the epochs that were best on the folds.

    Args:
        chosen: the scores of a model's runs on a task, at the chosen learning rates.
        store: the directory of run records.

    Raises:
        SubtuneError: the method diverged.
    """
    runs = chosen[(chosen["method"] == method) & chosen["decides"]].dropna(subset="value")
    if runs.empty:
        raise SubtuneError(f"method {method!r} diverged: it has no learning rate to train with")
    run, epoch = runs["run"].iloc[0], math.ceil(runs["best_epoch"].median())
    return records.read_spec(store, run).refitted(epoch)
