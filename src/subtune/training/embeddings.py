"""Regressions on pooled embeddings. This method trains no parameter of the encoder.

The regressions are scikit-learn's: a logistic regression for classes, a ridge regression for
numbers, and a separate logistic regression for each label of a multi-label task. The penalty is
chosen by cross-validation on the training set.

Shapes: ``n`` rows of the dataset, ``t`` texts per row, ``h`` hidden size, ``f`` features, ``o``
outputs.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from subtune.core.errors import SubtuneError
from subtune.models.encoder import Encoder
from subtune.models.forward import compute_hidden_states
from subtune.models.packing import pack_batch, split_into_micro_batches
from subtune.runs.spec import Fit, ModelSpec
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.examples import Examples, Reads, evaluation_batches
from subtune.training.evaluation import TrainingResult, autocast, check_padding, score_splits
from subtune.training.training_set import compute_label_weights, draw_training_indices

FOLDS = 5
# The maximum number of iterations of logistic regression. scikit-learn's default is 100 iterations,
# in which the solver does not converge if the penalty is small.
STEPS = 1000
# The logit of a class without training examples. It is never the largest, because the largest logit
# of the other classes is at least 0.
ABSENT = -100.0


def pooled_tokens(spec: ModelSpec, model: Encoder) -> Reads:
    """Return which tokens' last hidden states are averaged to compute the embedding of a text.

    If ``spec.pooling`` is None, these are the tokens that the model's class for sequence
    classification in transformers reads.
    """
    if (spec.pooling or getattr(model.config, "classifier_pooling", None)) == "mean":
        return "all"
    module = model.transformers and model.transformers.module
    # In transformers, a head that is named ``score`` reads the last token.
    return "last" if hasattr(module, "score") or model.config.is_encoder_decoder else "first"


def fit_embedding_regression(
    model: Encoder, examples: Mapping[str, Examples], task: TaskSpec, recipe: Fit, seed: int
) -> TrainingResult:
    """Fit a regression to embeddings of the training set, and evaluate it.

    Args:
        examples: the training split and the evaluation splits, if any, by name. The ``reads`` of
            each split must be the result of `pooled_tokens`.
        seed: the seed for drawing training examples, and for the cross-validation of the penalty.

    Returns:
        The scores, and a delta that contains the regression as a classifier's weight and bias.

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
    first = task.metrics[0]
    if task.labels is None:
        from sklearn.linear_model import RidgeCV

        ridge = RidgeCV().fit(features, labels)
        weight, bias = np.asarray(ridge.coef_[None], "f"), np.array([ridge.intercept_], "f")
    elif labels.ndim == 1:
        weight, bias = _fit_logistic(features, labels, task.outputs, first, recipe, seed)
    else:
        # Each label is a binary task, whose F1 is that of the positive class.
        first = "accuracy" if first == "accuracy" else "f1"
        each = [_fit_logistic(features, label, 2, first, recipe, seed) for label in labels.T]
        weight, bias = (
            np.stack([yes - no for no, yes in part]) for part in zip(*each, strict=True)
        )
    computed = {}
    for split in filter(examples.__contains__, task.evaluation):
        every = np.arange(len(examples[split]))
        computed[split] = compute_features(model, examples[split], every) @ weight.T + bias
    fitted = {"classifier.weight": weight, "classifier.bias": bias}
    result = TrainingResult(weight.size + bias.size)
    result.changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    result.delta = {name: torch.from_numpy(new) for name, new in fitted.items()}
    logits = features @ weight.T + bias
    return add_scores(result, task, examples, first_texts, recipe, logits, computed, started)


def add_scores(
    result: TrainingResult,
    task: TaskSpec,
    examples: Mapping[str, Examples],
    index: np.ndarray,
    recipe: Fit,
    logits: np.ndarray,
    computed: Mapping[str, np.ndarray],
    started: float,
) -> TrainingResult:
    """Add the training loss and the scores of a regression to ``result``, and return ``result``.

    Args:
        index: for each row of the training data, the index of one of its examples, ``[n]``.
        logits: the logits of the examples at ``index``, ``[n, o]``.
        computed: the logits of each evaluation split, by the split's name.
        started: the value of ``time.monotonic()`` when the run began.
    """
    train = examples["train"]
    weights = compute_label_weights(task, train, index, recipe)
    outputs, labels = torch.from_numpy(logits), torch.from_numpy(train.labels[index])
    losses = task.of_kind.losses(outputs[None], labels, torch.arange(len(index)), weights)
    train_loss = losses.item() / float(task.of_kind.loss_divisor(labels, weights))
    scores = score_splits(task, examples, computed)
    result.end_epoch(1, train_loss, time.monotonic() - started, scores)
    return result


def compute_features(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Compute the features of examples, ``[n, f]``.

    The features of a single text are its embedding. The two texts of a pair are adjacent examples.
    If their embeddings are u and v, the features of the pair are u, v, ``|u − v|`` and the
    elementwise product ``u·v``.

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
    return np.hstack([u, v, np.abs(u - v), u * v])


def compute_embeddings(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Compute the embeddings of examples, ``[n·t, h]``.

    An embedding is the mean of the last hidden states of the pooled tokens, scaled to a Euclidean
    norm of 1. As in sentence-transformers, the dot product of two embeddings is then the cosine
    similarity of the texts.
    """
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
    return np.concatenate(parts)[np.argsort(np.concatenate(order))]


def _fit_logistic(
    features: np.ndarray, labels: np.ndarray, outputs: int, metric: str, recipe: Fit, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a logistic regression, and return its weight ``[o, f]`` and bias ``[o]``.

    The penalty with the best mean ``metric`` over the folds is chosen. If a class has only one row,
    scikit-learn's default penalty is used.

    Args:
        features: ``[n, f]``.
        labels: the classes of the rows, ``[n]``.
        outputs: the number of classes.
        seed: the seed of the folds.
    """
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    def score(regression: Any, features: np.ndarray, labels: Any) -> float:
        predicted = regression.predict(features)
        return metrics.compute_metrics("classes", [metric], predicted, labels)[metric]

    weight, bias = np.zeros((outputs, features.shape[1]), "f"), np.full(outputs, ABSENT, "f")
    classes, counts = np.unique(labels, return_counts=True)
    bias[classes] = 0
    if len(classes) == 1:
        return weight, bias
    settings: dict[str, Any] = {"max_iter": STEPS, "class_weight": recipe.class_weights}
    regression = LogisticRegression(**settings)
    if counts.min() > 1:
        folds = StratifiedKFold(min(FOLDS, counts.min()), shuffle=True, random_state=seed)
        settings |= {"l1_ratios": (0,), "use_legacy_attributes": False}
        regression = LogisticRegressionCV(cv=folds, scoring=score, **settings)
    regression.fit(features, labels)
    # For two classes, scikit-learn returns one row of coefficients, which gives the difference of
    # the two logits.
    halves = np.array([[-0.5], [0.5]]) if len(classes) == 2 else np.eye(len(classes))
    weight[classes], bias[classes] = halves @ regression.coef_, halves @ regression.intercept_
    return weight, bias
