"""Runs that train once more, on the rows of all folds, what cross-validation has chosen."""

import math
from pathlib import Path

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.selections.specs import RunSpec


def refit_of(chosen: pd.DataFrame, store: Path, method: str) -> RunSpec:
    """Return the run of a method on all rows, with the first seed.

    It has the chosen learning rate, and ends after the median of the epochs that the folds chose.

    Args:
        chosen: the chosen runs of one model and task.

    Raises:
        SubtuneError: the method diverged, or a record is missing.
    """
    runs = chosen[(chosen["method"] == method) & chosen["decides"]].dropna(subset="value")
    if runs.empty:
        raise SubtuneError(f"method {method!r} diverged: it has no learning rate to train with")
    run, epoch = runs["run"].iloc[0], math.ceil(runs["best_epoch"].median())
    spec = records.read_spec(store, run)
    if spec.recipe.searched:
        spec = spec.at(records.read_outcome(store, run)["learning_rate"])
    return spec.refit(epoch)
