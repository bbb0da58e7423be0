"""A recorded run's scores on other rows than those it was evaluated on."""

from pathlib import Path

import datasets
import numpy as np

from subtune import metrics
from subtune.models.encoder import EncoderClassifier, canonical_parameters
from subtune.runs import records
from subtune.specs import RunSpec
from subtune.training.batches import Rows
from subtune.training.delta import apply, as_tensors, changed_tensors
from subtune.training.recipe import predict, rows_that_train


def score_on_training_rows(
    store: Path, spec: RunSpec, model: EncoderClassifier, split: datasets.Dataset
) -> dict[str, float]:
    """The run's metrics on the rows that it was trained on.

    Args:
        store: where the run's record is.
        spec: the run.
        model: the pretrained model that it started from; it comes back unchanged.
        split: the training split's tokens.

    Raises:
        SubtuneError: the run's delta cannot be read.
    """
    chosen = rows_that_train(len(split), spec.recipe, np.random.default_rng(spec.seed))
    rows = Rows(split.select(chosen))
    delta = as_tensors(records.read_delta(store, spec.id))
    parameters = canonical_parameters(model)
    pretrained = {name: parameters[name].detach().clone() for name in changed_tensors(delta)}
    try:
        apply(model, delta)
        return metrics.score(spec.tokens.data.task, predict(model, rows, spec.recipe), rows.labels)
    finally:
        for name, values in pretrained.items():
            parameters[name].data.copy_(values)
