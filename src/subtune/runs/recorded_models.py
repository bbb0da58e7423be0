"""Models of recorded runs: their scores on training rows, and their predictions of test rows."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pandas as pd

from subtune.data.batches import split_fold
from subtune.models.encoder import Encoder
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.tasks.examples import Examples
from subtune.training.deltas import applied, from_stored
from subtune.training.evaluation import checked_for_padding, logits_of
from subtune.training.groups import model_of
from subtune.training.training_set import examples_that_train

# The columns that every table of predictions has.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def score_on_training_rows(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> dict[str, float]:
    """Return a run's metrics on its training rows; NaN if the run diverged or a prediction is not
    finite.

    ``model`` is the pretrained model, and ``split`` has the training split's tokens.

    Raises:
        SubtuneError: the run's delta cannot be read.
    """
    task = spec.tokens.data.task
    kind, nan = task.of_kind, dict.fromkeys(task.metrics, math.nan)
    if records.read_outcome(store, spec.id)["diverged"]:
        return nan
    every = Examples(split, model.reads)
    if spec.recipe.fold:
        every, _ = split_fold(every, task, spec.recipe.fold)
    training = examples_that_train(every, spec.recipe, np.random.default_rng(spec.seed))
    examples = every.part(np.sort(training))
    logits = _logits(trained_model(store, spec, model), examples, spec)
    if not np.isfinite(logits).all():
        return nan
    return kind.score(task, examples, kind.predict(examples, logits))


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
        trained = trained_model(store, spec, model)
        kind = spec.tokens.data.task.of_kind
        for split, rows in tokens.items():
            examples = Examples(rows, model.reads)
            part = kind.table(examples, kind.predict(examples, _logits(trained, examples, spec)))
            part = part.drop(columns=["label", "answers"], errors="ignore")
            parts.append(part.assign(run=spec.id, split=split))
    return pd.concat(parts, ignore_index=True)


def trained_model(store: Path, spec: RunSpec, model: Encoder) -> Encoder:
    """Return the pretrained model with the values that a run changed.

    Raises:
        SubtuneError: the run's delta cannot be read, or the run diverged.
    """
    delta = from_stored(records.read_delta(store, spec.id))
    initial = model_of(spec, model)
    return replace(initial, parameters=applied(initial.parameters, delta))


def _logits(trained: Encoder, examples: Examples, spec: RunSpec) -> np.ndarray:
    proven = checked_for_padding(trained, [examples])
    return logits_of(proven, examples, spec.recipe.precision)[0]
