"""Estimators of scikit-learn, and the user's own, fitted to texts, TF-IDF features or embeddings.

Shapes: ``n`` rows of the dataset, ``f`` features, ``o`` outputs.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from subtune.core.errors import SubtuneError, join_names
from subtune.core.process import log_line
from subtune.core.user_code import locate_user_errors, require_planned_code
from subtune.methods.baselines import (
    Estimator,
    compute_class_logits,
    make_estimator,
    set_missing,
)
from subtune.models.encoder import Encoder
from subtune.models.forward import compute_hidden_states
from subtune.runs.spec import FitRecipe, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training.embeddings import (
    compute_all_features,
    compute_features,
    evaluate_baseline,
)
from subtune.training.evaluation import TrainingResult, check_padding
from subtune.training.tf_idf import Texts, fit_text_features, read_text_columns
from subtune.training.training_set import draw_training_indices


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator or, for a multi-label task, one fitted estimator for each label.

    ``compute_features`` maps texts or, if the estimator is fitted to embeddings, examples to the
    features that the estimator reads. ``place`` is where the estimator was imported from.
    """

    task: TaskSpec
    place: str
    estimators: Sequence[Any]
    compute_features: Callable[[Any], Any]

    def predict_logits(self, source: Texts | Examples) -> np.ndarray:
        """Compute the logits ``[n, o]``; in a regression task, the predicted numbers.

        Raises:
            SubtuneError: the estimator fails, or a prediction is not finite.
        """
        return self.logits(self.compute_features(source))

    def logits(self, features: Any) -> np.ndarray:
        """Compute logits ``[n, o]`` from the features of ``n`` rows."""
        with locate_user_errors(self.place):
            if self.task.of_kind.has_numbers:
                logits = np.asarray(self.estimators[0].predict(features), float).reshape(-1, 1)
            elif self.task.of_kind.has_label_columns:
                pairs = [compute_class_logits(each, features, 2) for each in self.estimators]
                logits = np.stack([pair[:, 1] - pair[:, 0] for pair in pairs], axis=1)
            else:
                logits = compute_class_logits(self.estimators[0], features, self.task.outputs)
        if not np.isfinite(logits).all():
            raise SubtuneError(f"{self.place}: a prediction is not a finite number")
        return logits.astype(np.float32)


def fit_and_evaluate(
    model: Encoder, examples: Mapping[str, Examples], spec: RunSpec
) -> TrainingResult:
    """Fit the estimator of a run to the training set, and evaluate it. Its delta is empty."""
    started = time.monotonic()
    task, recipe = spec.tokens.data.task, spec.fit_recipe
    if not spec.reads_texts:
        model = check_padding(model, examples.values(), compute_hidden_states)
    fitted, features, index = fit_estimator(spec, examples["train"], model)

    def predict(split: Examples) -> np.ndarray:
        return fitted.predict_logits(read_text_columns(split, task) if spec.reads_texts else split)

    logits = fitted.logits(features)
    return evaluate_baseline({}, task, examples, index, recipe, logits, predict, started)


def fit_estimator(
    spec: RunSpec, train: Examples, model: Encoder | None
) -> tuple[FittedEstimator, Any, np.ndarray]:
    """Fit the estimator of a run.

    Returns:
        The fitted estimator, the features of the rows of the training set, and the index of one
        example of each row, ``[n]``.

    Raises:
        SubtuneError: the estimator cannot be imported or fitted, or its code has changed since the
            run was planned.
    """
    task, selection, recipe = spec.tokens.data.task, spec.selection, spec.fit_recipe
    assert isinstance(selection, Estimator)
    index = draw_training_indices(train, recipe.train_rows, np.random.default_rng(spec.seed))
    compute: Callable[[Any], Any]
    if selection.reads == "embeddings":
        assert model
        features = compute_features(model, train, index)
        # The two texts of a pair are adjacent examples.
        index = index[:: len(index) // len(features)]
        compute = partial(compute_all_features, model)
    else:
        texts = read_text_columns(train, task, index)
        if selection.reads == "tf-idf":
            text_features, features = fit_text_features(texts)
            compute = text_features.transform
        else:
            compute = partial(_arrange_texts, task)
            features = compute(texts)
    has_numbers, seed = task.of_kind.has_numbers, spec.seed if selection.seeded else None
    place = selection.place(has_numbers)
    require_planned_code([place], recipe.code)
    labels = train.labels[index]
    columns = [*labels.T] if task.of_kind.has_label_columns else [labels]
    made = [make_estimator(selection, has_numbers, seed) for _ in columns]
    read: str = selection.reads
    if read == "texts" and len(task.text) > 1:
        read = f"a table with the columns {join_names(task.text)}"
    with locate_user_errors(place, f" on {read}"), warnings.catch_warnings(action="ignore"):
        estimators = [
            _fit(each, features, column, recipe) for each, column in zip(made, columns, strict=True)
        ]
    return FittedEstimator(task, place, estimators, compute), features, index


def _fit(estimator: Any, features: Any, labels: np.ndarray, recipe: FitRecipe) -> Any:
    from sklearn.base import is_classifier
    from sklearn.dummy import DummyClassifier

    if is_classifier(estimator) and len(np.unique(labels)) == 1:
        # Many estimators need two classes.
        estimator = DummyClassifier()
    elif recipe.class_weights and not set_missing(estimator, "class_weight", recipe.class_weights):
        log_line(f"{type(estimator).__name__} has no class weights, so it is fitted without")
    return estimator.fit(features, labels)


def _arrange_texts(task: TaskSpec, texts: Texts) -> Any:
    """Return a list of texts or, for pairs, a table with the two columns of the user's table."""
    if len(texts) == 1:
        return [*texts[0]]
    return pd.DataFrame(dict(zip(task.text, texts, strict=True)))
