"""Regressions on pooled embeddings. This method trains no parameter of the encoder.

Logistic regressions predict classes, one for each label of a multi-label task, and a ridge
regression predicts numbers. Shapes: ``n`` rows of the dataset, ``t`` texts per row, ``h`` hidden
size, ``f`` features, ``o`` outputs.
"""

import contextlib
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from subtune.core.errors import SubtuneError
from subtune.core.process import log_line
from subtune.data.subsets import divide_rows
from subtune.models.encoder import Encoder
from subtune.models.forward import compute_hidden_states
from subtune.models.packing import pack_batch, split_into_micro_batches
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
# The logit of a class without training examples. It is never the largest, because the largest logit
# of the other classes is at least 0.
ABSENT = -100.0


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
    index = draw_training_indices(train, recipe, np.random.default_rng(seed))
    features = compute_features(model, train, index)
    first_texts = index[:: len(index) // len(features)]
    labels = train.labels[first_texts]
    sets = train.row_sets[np.searchsorted(train.row_indices, train.row[first_texts])]
    columns = labels.T if labels.ndim > 1 else [labels]
    each = [_fit_regression(features, column, sets, task, recipe, seed) for column in columns]
    if labels.ndim > 1:
        # Each label is a binary task, whose logit is the difference of the two logits.
        each = [tuple(yes - no for no, yes in part) for part in each]
        weight, bias = (np.stack(part) for part in zip(*each, strict=True))
    else:
        [(weight, bias)] = each
    computed = {}
    for split in filter(examples.__contains__, task.evaluation):
        every = np.arange(len(examples[split]))
        computed[split] = compute_features(model, examples[split], every) @ weight.T + bias
    logits = features @ weight.T + bias
    result = make_fit_result(
        weight, bias, task, examples, first_texts, recipe, logits, computed, started
    )
    result.delta = dict(zip(result.changes, map(torch.from_numpy, (weight, bias)), strict=True))
    return result


def make_fit_result(
    weight: np.ndarray,
    bias: np.ndarray,
    task: TaskSpec,
    examples: Mapping[str, Examples],
    index: np.ndarray,
    recipe: FitRecipe,
    logits: np.ndarray,
    computed: Mapping[str, np.ndarray],
    started: float,
) -> TrainingResult:
    """Build the result of a regression: the training loss and the scores, with an empty delta.

    Args:
        index: for each row of the training data, the index of one of its examples, ``[n]``.
        logits: the logits of the examples at ``index``, ``[n, o]``.
        computed: the logits of each evaluation split, by the split's name.
        started: the value of ``time.monotonic()`` when the run began.
    """
    train, weights = examples["train"], None
    # If there are few rows, a class may be absent. The regression can still be fitted, but the loss
    # is not weighted.
    with contextlib.suppress(SubtuneError):
        weights = compute_label_weights(task, train, index, recipe)
    outputs, labels = torch.from_numpy(logits), torch.from_numpy(train.labels[index])
    losses = task.of_kind.losses(outputs[None], labels, torch.arange(len(index)), weights)
    train_loss = losses.item() / float(task.of_kind.loss_divisor(labels, weights))
    scores, result = score_splits(task, examples, computed), TrainingResult(weight.size + bias.size)
    fitted = {"classifier.weight": weight, "classifier.bias": bias}
    result.changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    result.end_epoch(1, train_loss, time.monotonic() - started, scores)
    return result


def compute_features(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Compute the features of examples, ``[n, f]``.

    The features of a single text are its embedding. The two texts of a pair are adjacent examples.
    If their embeddings are u and v, the features of the pair are u, v, ``|u − v|``, the elementwise
    product ``u·v``, and the cosine of u and v, multiplied by `COSINE_FACTOR`.

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
    u, v = embedded[::2], embedded[1::2]
    product = u * v
    cosine = product.sum(1, keepdims=True)
    return np.hstack([u, v, np.abs(u - v), product, COSINE_FACTOR * cosine])


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
            for part in split_into_micro_batches(batch, lengths[batch], model):
                states = compute_hidden_states(model, pack_batch(examples, index[part], model))
                tokens = counts[part].to(states.device)
                # On a GPU, `index_add_` would sum in a different order each time.
                means = torch.segment_reduce(states, "mean", lengths=tokens, axis=0)
                parts.append(normalize(means).cpu().numpy())
                order.append(part)
    vectors = np.concatenate(parts)
    embedded = np.zeros((texts, vectors.shape[1]), vectors.dtype)
    embedded[rows[np.concatenate(order)]] = vectors
    return embedded


def _fit_regression(
    features: np.ndarray,
    labels: np.ndarray,
    sets: np.ndarray,
    task: TaskSpec,
    recipe: FitRecipe,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a logistic or ridge regression, and return its weight ``[o, f]`` and bias ``[o]``.

    For one label of a multi-label task, ``o`` is 2 and labels are 0 and 1. The rows of a set
    (``sets``) are in the same fold.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge

    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        if task.labels is None:
            alpha = _choose_penalty(Ridge(), features, labels, sets, task, seed) or 1
            ridge = Ridge(alpha=alpha).fit(features, labels)
            return np.asarray(ridge.coef_[None], "f"), np.array([ridge.intercept_], "f")
        outputs = 2 if task.of_kind.has_label_columns else task.outputs
        weight, bias = np.zeros((outputs, features.shape[1]), "f"), np.full(outputs, ABSENT, "f")
        classes = np.unique(labels)
        bias[classes] = 0
        if len(classes) == 1:
            return weight, bias
        logistic = LogisticRegression(class_weight=recipe.class_weights, max_iter=SEARCH_STEPS)
        penalty = _choose_penalty(logistic, features, labels, sets, task, seed)
        settings = {"max_iter": SOLVER_STEPS} | ({"C": 1 / penalty} if penalty else {})
        logistic.set_params(**settings).fit(features, labels)
    # For two classes, scikit-learn returns one row of coefficients, which gives the difference of
    # the two logits.
    halves = np.array([[-0.5], [0.5]]) if len(classes) == 2 else np.eye(len(classes))
    weight[classes], bias[classes] = halves @ logistic.coef_, halves @ logistic.intercept_
    return weight, bias


def _choose_penalty(
    regression: Any,
    features: np.ndarray,
    labels: np.ndarray,
    sets: np.ndarray,
    task: TaskSpec,
    seed: int,
) -> float | None:
    """Choose the penalty of a regression by cross-validation; None if there are too few rows.

    The score is the task's first metric; for one label of a multi-label task, F1 or accuracy. The
    strongest penalty is chosen among those whose mean score is at most one standard error of the
    difference below the best, because scores on small folds vary (Breiman et al., "Classification
    and Regression Trees", 1984, section 3.4.3).
    """
    from sklearn.model_selection import GridSearchCV

    kind, first = task.of_kind, task.metrics[0]
    value_type, several = kind.value_type, kind.has_label_columns
    if several:
        value_type, first = "classes", "accuracy" if first == "accuracy" else "f1"

    def score(fitted: Any, features: np.ndarray, labels: Any) -> float:
        predicted = fitted.predict(features)
        return metrics.compute_metrics(value_type, [first], predicted, labels)[first]

    work = features.shape[1] * (1 if kind.has_numbers or several else task.outputs)
    rows = max(LEAST_SEARCHED, int(MOST_SEARCHED / work))
    features, labels, sets = features[:rows], labels[:rows], sets[:rows]
    folds = len(labels)
    if not kind.has_numbers:
        # The training part of each fold needs two classes.
        folds = np.sort(np.unique(labels, return_counts=True)[1])[-2:].min()
    if folds < 2:
        return None
    strata = labels[:, None] if several else labels
    parts = divide_rows(task, sets, strata, min(FOLDS, folds), seed)
    pairs = [(np.setdiff1d(np.arange(len(labels)), part), part) for part in parts if len(part)]
    pairs = [(others, part) for others, part in pairs if len(np.unique(labels[others])) > 1]
    if len(pairs) < 2:
        return None
    grid = {"alpha": PENALTIES} if kind.has_numbers else {"C": 1 / PENALTIES}
    search = GridSearchCV(regression, grid, scoring=score, cv=pairs, refit=False)
    results = search.fit(features, labels).cv_results_
    scores = np.stack([results[f"split{number}_test_score"] for number in range(len(pairs))])
    below = scores[:, [scores.mean(0).argmax()]] - scores
    errors = below.std(0, ddof=1) / np.sqrt(len(pairs))
    penalty = PENALTIES[(below.mean(0) <= errors).argmax()]
    end = ", the smallest value that was tried" if penalty == PENALTIES[-1] else ""
    log_line(f"embeddings: the regression's penalty is {penalty:g}{end}")
    return penalty
