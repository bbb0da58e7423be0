"""Models of trained runs: their scores on training rows, and their predictions of other rows."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import datasets
import numpy as np
import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout
from subtune.models.encoder import Encoder
from subtune.models.forward import hidden_states
from subtune.runs import records
from subtune.runs.spec import Fit, RunSpec
from subtune.tasks.examples import Examples
from subtune.training.deltas import Delta, apply_delta, delta_from_tensors
from subtune.training.embeddings import features, tokens_pooled
from subtune.training.evaluation import check_padding, split_logits
from subtune.training.groups import add_modules
from subtune.training.training_set import training_examples

# The columns that every table of predictions has.
NO_PREDICTIONS = pd.DataFrame({"run": [], "split": [], "idx": []})


def score_training_rows(
    spec: RunSpec, model: Encoder, delta: Delta, train: Examples
) -> dict[str, float]:
    """Return a run's metrics on the rows on which it trained.

    The metrics are NaN if the run diverged, so that ``delta`` is empty, or if a prediction is not
    finite.

    Args:
        model: the pretrained model.
        delta: the values that the run changed.
        train: the training split, without the rows of the run's fold.
    """
    task = spec.tokens.data.task
    training = training_examples(train, spec.recipe, np.random.default_rng(spec.seed))
    examples = train.select(np.sort(training))
    if delta:
        logits = _logits(with_delta(spec, model, delta), examples, spec)
        if np.isfinite(logits).all():
            return task.of_kind.score(task, examples, task.of_kind.predict(examples, logits))
    return dict.fromkeys(task.metrics, math.nan)


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
        kind = spec.tokens.data.task.of_kind
        for split, rows in tokens.items():
            examples, logits = predict_logits(store, spec, model, rows)
            part = kind.prediction_table(examples, kind.predict(examples, logits))
            part = part.drop(columns=["label", "answers"], errors="ignore")
            parts.append(part.assign(run=spec.id, split=split))
    return pd.concat(parts, ignore_index=True)


def predict_logits(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> tuple[Examples, np.ndarray]:
    """Return a split's examples, as a run reads them, and its logits ``[q, o]`` for them.

    ``model`` is the pretrained model, and ``split`` has token ids.

    Raises:
        SubtuneError: the run's delta cannot be read, or the run diverged.
    """
    if not isinstance(spec.recipe, Fit):
        examples = Examples(split, model.reads)
        return examples, _logits(trained_model(store, spec, model), examples, spec)
    # A regression on embeddings reads the model as it was pretrained.
    bias, weight = (values for _, values in sorted(records.read_delta(store, spec.id).items()))
    examples = Examples(split, tokens_pooled(spec.model, model))
    model = check_padding(model, [examples], hidden_states)
    read = features(model, examples, np.arange(len(examples)))
    return examples, read @ weight.T + bias


def pretrained_directory(layout: Layout, spec: RunSpec) -> str:
    """Return the directory of the model that a run started from.

    Raises:
        SubtuneError: the model is missing.
    """
    directory = layout.model(spec.model.id)
    if not Path(directory).is_dir():
        raise SubtuneError(f"found no pretrained model {directory}, which the run started from")
    return directory


def trained_model(store: Path, spec: RunSpec, model: Encoder) -> Encoder:
    """Return the pretrained model with the values that a recorded run changed.

    Raises:
        SubtuneError: the run's delta cannot be read, or the run diverged.
    """
    return with_delta(spec, model, delta_from_tensors(records.read_delta(store, spec.id)))


def with_delta(spec: RunSpec, model: Encoder, delta: Delta) -> Encoder:
    """Return the pretrained model of a run with the values that the run changed."""
    initial = add_modules(spec, model)
    return replace(initial, parameters=apply_delta(initial.parameters, delta))


def _logits(trained: Encoder, examples: Examples, spec: RunSpec) -> np.ndarray:
    proven = check_padding(trained, [examples])
    return split_logits(proven, examples, spec.recipe.precision)[0]
