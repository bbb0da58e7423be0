"""Regressions on pooled embeddings. This method trains no parameter of the encoder.

Logistic regressions predict classes, one for each label of a multi-label task, and a ridge
regression predicts numbers. Shapes: ``n`` rows of the dataset, ``t`` texts per row, ``h`` hidden
size, ``f`` features, ``o`` outputs.
"""

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from subtune.core.errors import SubtuneError
from subtune.core.process import log_line
from subtune.data.subsets import divide_rows
from subtune.methods.baselines import ABSENT, compute_class_logits
from subtune.models.encoder import Encoder
from subtune.models.forward import compute_hidden_states
from subtune.models.packing import pack_micro_batches
from subtune.runs.spec import FitRecipe, ModelSpec
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.examples import Examples, Reads, evaluation_batches
from subtune.training.evaluation import TrainingResult, autocast, check_padding, score_splits
from subtune.training.training_set import compute_label_weights, draw_training_indices

FOLDS = 5
# The penalties that are tried, strongest first: ``alpha`` of ridge regression, and ``1 / C`` of
# logistic regression.
PENALTIES = np.logspace(4, -3, 8)
# The cosine of a pair is multiplied by this factor, because a penalty that suits the hundreds of
# other features would shrink the coefficient of the cosine too much.
COSINE_FACTOR = 20
# Penalties are compared on at most `LEAST_SEARCHED` rows or, if this allows more rows, on as many
# that ``rows * features * outputs`` is at most `MOST_SEARCHED`.
LEAST_SEARCHED, MOST_SEARCHED = 1000, 8e6
# The maximum numbers of iterations of logistic regression, for comparing penalties and for the
# final fit. If the penalty is small, the solver needs more than scikit-learn's default of 100.
SEARCH_STEPS, SOLVER_STEPS = 200, 1000


def pooled_tokens(spec: ModelSpec, model: Encoder) -> Reads:
    """Return the tokens whose last hidden states are averaged into a text's embedding.

    Without ``spec.pooling``, these are the tokens read by transformers'
    ``…ForSequenceClassification`` class for this model.
    """
    if spec.pooling:
        return "all" if spec.pooling == "mean" else "first"
    if model.transformers is None:
        return "first"
    from subtune.models.transformers_pass import find_token_read

    return find_token_read(model)


def fit_embedding_regression(
    model: Encoder, examples: Mapping[str, Examples], task: TaskSpec, recipe: FitRecipe, seed: int
) -> TrainingResult:
    """Fit a regression to embeddings of the training set, and evaluate it.

    The ``reads`` of all ``examples`` must be the result of `pooled_tokens`. The delta contains the
    regression as a classifier's weight and bias.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    started = time.monotonic()
    model = check_padding(model, examples.values(), compute_hidden_states)
    train = examples["train"]
    index = draw_training_indices(train, recipe.train_rows, np.random.default_rng(seed))
    features = compute_features(model, train, index)
    first_texts = index[:: len(index) // len(features)]
    sets = train.row_sets[np.searchsorted(train.row_indices, train.row[first_texts])]
    choose = partial(_tune_regression, features, sets, task, recipe, seed)
    # Warnings of solvers that have not converged, and of folds on which a scorer is undefined.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        found = fit_regression(choose, features, train.labels[first_texts], task.outputs)
    weight, bias = (values.astype("f") for values in found)
    predict = partial(predict_embedded, model, weight, bias)
    logits = features @ weight.T + bias
    fitted = {"classifier.weight": weight, "classifier.bias": bias}
    result = evaluate_baseline(
        fitted, task, examples, first_texts, recipe, logits, predict, started
    )
    result.delta = dict(zip(result.changes, map(torch.from_numpy, (weight, bias)), strict=True))
    return result


def predict_embedded(
    model: Encoder, weight: np.ndarray, bias: np.ndarray, examples: Examples
) -> np.ndarray:
    """Compute the logits ``[n, o]`` of a regression on embeddings."""
    return compute_all_features(model, examples) @ weight.T + bias


def evaluate_baseline(
    fitted: Mapping[str, np.ndarray],
    task: TaskSpec,
    examples: Mapping[str, Examples],
    index: np.ndarray,
    recipe: FitRecipe,
    logits: np.ndarray,
    predict: Callable[[Examples], np.ndarray],
    started: float,
) -> TrainingResult:
    """Build the result of a baseline: the training loss and the scores, with an empty delta.

    Args:
        fitted: the fitted parameters by name, if they are counted.
        index: for each row of the training data, the index of one of its examples, ``[n]``.
        logits: the logits of the examples at ``index``, ``[n, o]``.
        predict: computes the logits of a split.
        started: the value of ``time.monotonic()`` when the run began.
    """
    train, weights = examples["train"], None
    # If there are few rows, a class may be absent. A baseline can still be fitted, but the loss is
    # not weighted.
    with contextlib.suppress(SubtuneError):
        weights = compute_label_weights(task, train, index, recipe)
    outputs, labels = torch.from_numpy(logits), torch.from_numpy(train.labels[index])
    losses = task.of_kind.losses(outputs[None], labels, torch.arange(len(index)), weights)
    train_loss = losses.item() / float(task.of_kind.loss_divisor(labels, weights))
    splits = filter(examples.__contains__, task.evaluation)
    scores = score_splits(task, examples, {split: predict(examples[split]) for split in splits})
    result = TrainingResult()
    result.trainable = sum(values.size for values in fitted.values())
    result.changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    result.end_epoch(1, train_loss, time.monotonic() - started, scores)
    return result


def compute_all_features(model: Encoder, examples: Examples) -> np.ndarray:
    """Compute the features of all examples of a split, ``[n, f]``."""
    return compute_features(model, examples, np.arange(len(examples)))


def compute_features(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Compute the features of examples, ``[n, f]``, from their embeddings.

    The two texts of a pair are adjacent examples. Their cosine is multiplied by `COSINE_FACTOR`.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    embedded = compute_embeddings(model, examples, index)
    if not np.isfinite(embedded).all():
        raise SubtuneError(
            f"embeddings: a hidden state of the {model.config.model_type} model is not finite; "
            "choose another model"
        )
    if len(examples) == len(examples.row_indices):
        return embedded
    return np.hstack(list_pair_features(embedded[::2], embedded[1::2], COSINE_FACTOR))


def list_pair_features(u: Any, v: Any, factor: int) -> list[Any]:
    """List the features of pairs: u, v, ``|u − v|``, ``u * v``, and ``factor`` times u·v.

    ``u`` and ``v`` are arrays or sparse arrays ``[n, h]`` with one vector for each text.
    """
    product = u * v
    return [u, v, abs(u - v), product, factor * product.sum(1)[:, None]]


def compute_embeddings(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Compute the embeddings of examples, ``[n·t, h]``.

    An embedding is the mean of the last hidden states of the pooled tokens, scaled to a Euclidean
    norm of 1, as in sentence-transformers. The embedding of a text without tokens is 0.
    """
    rows = np.flatnonzero(examples.lengths[index])
    index, texts = index[rows], len(index)
    lengths, counts = examples.lengths[index], torch.from_numpy(examples.read_counts[index])
    parts, order = [], []
    with torch.inference_mode(), autocast(model.device, "fp32"):
        for batch in evaluation_batches(lengths):
            for places, packed in pack_micro_batches(examples, index[batch], model):
                states = compute_hidden_states(model, packed)
                tokens = counts[batch[places]].to(states.device)
                # On a GPU, `index_add_` would sum in a different order each time.
                means = torch.segment_reduce(states, "mean", lengths=tokens, axis=0)
                parts.append(normalize(means).cpu().numpy())
                order.append(batch[places])
    vectors = np.concatenate(parts)
    embedded = np.zeros((texts, vectors.shape[1]), vectors.dtype)
    embedded[rows[np.concatenate(order)]] = vectors
    return embedded


def fit_regression(
    choose: Callable[[np.ndarray], Any], features: Any, labels: np.ndarray, outputs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a regression, and return its weight ``[o, f]`` and bias ``[o]``.

    If all labels belong to one class, the weight is 0.

    Args:
        choose: returns an unfitted ridge or logistic regression for labels ``[n]``.
        features: an array or a sparse array ``[n, f]``.
        labels: numbers or classes ``[n]``. If they are ``[n, o]``, with 0 or 1 for each label, one
            regression is fitted for each label.
        outputs: the number of outputs ``o``.
    """
    if labels.ndim > 1:
        # Each label is a binary task, whose logit is the difference of the two logits.
        fitted = [fit_regression(choose, features, column, outputs=2) for column in labels.T]
        weight, bias = (
            np.stack([yes - no for no, yes in part]) for part in zip(*fitted, strict=True)
        )
        return weight, bias
    if outputs == 1:
        ridge = choose(labels).fit(features, labels)
        return ridge.coef_[None], np.array([ridge.intercept_])
    classes = np.unique(labels)
    weight, bias = np.zeros((outputs, features.shape[1])), np.full(outputs, ABSENT)
    bias[classes] = 0
    if len(classes) > 1:
        logistic = choose(labels).fit(features, labels)
        # For two classes, scikit-learn returns one row of coefficients, which gives the difference
        # of the two logits.
        halves = np.array([[-0.5], [0.5]]) if len(classes) == 2 else np.eye(len(classes))
        weight[classes], bias[classes] = halves @ logistic.coef_, halves @ logistic.intercept_
    return weight, bias


def _tune_regression(
    features: np.ndarray,
    sets: np.ndarray,
    task: TaskSpec,
    recipe: FitRecipe,
    seed: int,
    labels: np.ndarray,
) -> Any:
    """Choose the penalty of a regression by cross-validation, and return the unfitted regression.

    If there are too few rows, the penalty is scikit-learn's default. For one label of a multi-label
    task, labels are 0 and 1. The rows of a set (``sets``) are in the same fold.

    The score is the task's first metric; for one label of a multi-label task, F1 or accuracy. Folds
    on which it is undefined, for example because a class is missing, are left out. The strongest
    penalty is chosen among those whose mean score is at most one standard error of the difference
    below the best, because scores on small folds vary (Breiman et al., "Classification and
    Regression Trees", 1984, section 3.4.3).
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.model_selection import GridSearchCV

    kind, metric = task.of_kind, task.metrics[0]
    if several := kind.has_label_columns:
        metric = "accuracy" if metric == "accuracy" else "f1"

    def make(steps: int, **penalty: float) -> Any:
        if kind.has_numbers:
            return Ridge(**penalty)
        return LogisticRegression(class_weight=recipe.class_weights, max_iter=steps, **penalty)

    work = features.shape[1] * (1 if kind.has_numbers or several else task.outputs)
    rows = max(LEAST_SEARCHED, int(MOST_SEARCHED / work))
    features, labels, sets = features[:rows], labels[:rows], sets[:rows]
    folds = len(labels)
    if not kind.has_numbers:
        # The training part of each fold needs two classes.
        folds = np.sort(np.unique(labels, return_counts=True)[1])[-2:].min()
    pairs = []
    if folds > 1:
        strata = labels[:, None] if several else labels
        for part in divide_rows(task, sets, strata, min(FOLDS, folds), seed):
            others = np.setdiff1d(np.arange(len(labels)), part)
            if len(part) and len(np.unique(labels[others])) > 1:
                pairs.append((others, part))
    if len(pairs) < 2:
        return make(SOLVER_STEPS)
    name, values = ("alpha", PENALTIES) if kind.has_numbers else ("C", 1 / PENALTIES)
    score = partial(_score_regression, task, metric)
    search = GridSearchCV(make(SEARCH_STEPS), {name: values}, scoring=score, cv=pairs, refit=False)
    results = search.fit(features, labels).cv_results_
    scores = np.stack([results[f"split{number}_test_score"] for number in range(len(pairs))])
    scores = scores[np.isfinite(scores).all(axis=1)]
    if len(scores) < 2:
        return make(SOLVER_STEPS)
    below = scores[:, [scores.mean(0).argmax()]] - scores
    errors = below.std(0, ddof=1) / np.sqrt(len(scores))
    chosen = (below.mean(0) <= errors).argmax()
    end = ", the smallest value that was tried" if chosen == len(PENALTIES) - 1 else ""
    log_line(f"embeddings: the regression's penalty is {PENALTIES[chosen]:g}{end}")
    return make(SOLVER_STEPS, **{name: values[chosen]})


def _score_regression(
    task: TaskSpec, metric: str, fitted: Any, features: np.ndarray, labels: Any
) -> float:
    """Score a fitted regression; the score is NaN if a scorer is undefined on these rows."""
    predicted, has_numbers = fitted.predict(features), task.of_kind.has_numbers
    if not metrics.is_scorer(metric):
        value_type = "numbers" if has_numbers else "classes"
        return metrics.compute_metrics(value_type, [metric], predicted, labels)[metric]
    from subtune.tasks.scorers import compute_score

    logits = predicted[:, None]
    if not has_numbers:
        logits = compute_class_logits(fitted, features, task.outputs)
    with contextlib.suppress(SubtuneError):
        return compute_score(metric, logits, labels, task.metric_code)
    return math.nan
