"""Predictions of recorded runs on rows that did not evaluate them."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pandas as pd

from subtune.data.batches import divided
from subtune.models.encoder import Encoder
from subtune.runs import records
from subtune.runs.job import model_of
from subtune.selections.specs import RunSpec
from subtune.tasks.examples import Examples
from subtune.training.delta import applied, from_stored
from subtune.training.evaluation import logits_of, without_padding_where_it_is_seen
from subtune.training.recipe import examples_that_train

# The columns that every table of predictions has.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def score_on_training_rows(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> dict[str, float]:
    """Return a run's metrics on the rows that trained it; NaN if it or a prediction is not finite.

    Args:
        store: the folder of records.
        spec: the run.
        model: the pretrained model that the run started from.
        split: the training split's tokens.

    Raises:
        SubtuneError: the run's delta cannot be read.
    """
    task = spec.tokens.data.task
    if records.read_outcome(store, spec.id)["diverged"]:
        return dict.fromkeys(task.metrics, math.nan)
    kind = task.of_kind
    every = Examples(split, model.reads)
    if spec.recipe.fold:
        every, _ = divided(every, task, spec.recipe.fold)
    training = examples_that_train(every, spec.recipe, np.random.default_rng(spec.seed))
    examples = every.part(np.sort(training))
    logits = _logits(trained_model(store, spec, model), examples, spec)
    if not np.isfinite(logits).all():
        return dict.fromkeys(task.metrics, math.nan)
    return kind.score(task, examples, kind.predict(examples, logits))


def on_test_rows(
    store: Path, specs: Iterable[RunSpec], model: Encoder, tokens: datasets.DatasetDict
) -> pd.DataFrame:
    """Return predictions of one task's runs on its test splits, at their best epochs.

    Args:
        store: the folder of records.
        specs: the runs.
        model: the pretrained model that the runs started from.
        tokens: the task's test splits; there may be none.

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
    started_from = model_of(spec, model)
    return replace(started_from, parameters=applied(started_from.parameters, delta))


def _logits(trained: Encoder, examples: Examples, spec: RunSpec) -> np.ndarray:
    alike = without_padding_where_it_is_seen(trained, [examples])
    return logits_of(alike, examples, spec.recipe.precision)
