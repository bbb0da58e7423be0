"""A recorded run's scores on other rows than those it was evaluated on."""

from pathlib import Path

import datasets
import numpy as np

from subtune import metrics
from subtune.data.batches import Rows
from subtune.models.encoder import Encoder
from subtune.runs import records
from subtune.specs import RunSpec
from subtune.training.delta import applied, as_tensors
from subtune.training.evaluation import predict
from subtune.training.recipe import rows_that_train


def score_on_training_rows(
    store: Path, spec: RunSpec, model: Encoder, split: datasets.Dataset
) -> dict[str, float]:
    """The run's metrics on the rows that it was trained on.

    Args:
        store: where the run's record is.
        spec: the run.
        model: the pretrained model that it started from.
        split: the training split's tokens.

    Raises:
        SubtuneError: the run's delta cannot be read.
    """
    chosen = rows_that_train(len(split), spec.recipe, np.random.default_rng(spec.seed))
    rows = Rows(split.select(chosen))
    parameters = applied(model.parameters, as_tensors(records.read_delta(store, spec.id)))
    logits = predict(Encoder(model.config, parameters), rows, spec.recipe.precision)
    return metrics.score(spec.tokens.data.task, logits, rows.labels)
