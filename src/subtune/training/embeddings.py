"""Regressions on frozen, pooled embeddings: the method that trains nothing in the encoder.

Classes are predicted by scikit-learn's logistic regression, numbers by its ridge regression, and
each label of a multi-label task by a logistic regression of its own. Cross-validation on the
training rows chooses the penalty.

Shapes: ``n`` rows, ``t`` texts of each row, ``h`` hidden size, ``f`` features, ``o`` outputs.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from subtune.core.errors import SubtuneError
from subtune.models.encoder import Encoder
from subtune.models.forward import hidden_states
from subtune.models.packing import micro_batches, pack
from subtune.runs.spec import Fit, ModelSpec
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.examples import Examples, Reads, evaluation_batches
from subtune.training.evaluation import Result, check_padding, score_splits
from subtune.training.training_set import label_weights, training_examples

FOLDS = 5
# The maximum number of steps of logistic regression. Scikit-learn's default, 100, is too few for
# small penalties.
STEPS = 1000
# The logit of a class without training rows. The largest other logit is never below 0.
ABSENT = -100.0


def tokens_pooled(spec: ModelSpec, model: Encoder) -> Reads:
    """Return the tokens whose mean last hidden state is an embedding.

    Without ``pooling``, these are the tokens that transformers' class for sequences reads.
    """
    if (spec.pooling or getattr(model.config, "classifier_pooling", None)) == "mean":
        return "all"
    module = model.transformers and model.transformers.module
    # Transformers' heads with this name read the last token.
    return "last" if hasattr(module, "score") or model.config.is_encoder_decoder else "first"


def fit(
    model: Encoder, examples: Mapping[str, Examples], task: TaskSpec, recipe: Fit, seed: int
) -> Result:
    """Fit a regression to the embeddings of training rows, and return it as a classifier.

    Args:
        examples: the training split and the evaluation splits, if any; their heads read the tokens
            that `tokens_pooled` returns.
        seed: the seed of the training rows and of the folds that choose the penalty.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    started = time.monotonic()
    model = check_padding(model, examples.values(), hidden_states)
    train = examples["train"]
    index = training_examples(train, recipe, np.random.default_rng(seed))
    read = features(model, train, index)
    first_texts = index[:: len(index) // len(read)]
    labels = train.labels[first_texts]
    first = task.metrics[0]
    if task.labels is None:
        from sklearn.linear_model import RidgeCV

        ridge = RidgeCV().fit(read, labels)
        weight, bias = np.asarray(ridge.coef_[None], "f"), np.array([ridge.intercept_], "f")
    elif labels.ndim == 1:
        weight, bias = _logistic(read, labels, task.outputs, first, recipe, seed)
    else:
        # One label has the F1 of one class.
        first = "accuracy" if first == "accuracy" else "f1"
        each = [_logistic(read, label, 2, first, recipe, seed) for label in labels.T]
        weight, bias = (
            np.stack([yes - no for no, yes in part]) for part in zip(*each, strict=True)
        )
    computed = {}
    for split in filter(examples.__contains__, task.evaluation):
        every = np.arange(len(examples[split]))
        computed[split] = features(model, examples[split], every) @ weight.T + bias
    fitted = {"classifier.weight": weight, "classifier.bias": bias}
    result = Result(weight.size + bias.size)
    result.changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    result.delta = {name: torch.from_numpy(new) for name, new in fitted.items()}
    logits = read @ weight.T + bias
    return end_fit(result, task, examples, first_texts, recipe, logits, computed, started)


def end_fit(
    result: Result,
    task: TaskSpec,
    examples: Mapping[str, Examples],
    index: np.ndarray,
    recipe: Fit,
    logits: np.ndarray,
    computed: Mapping[str, np.ndarray],
    started: float,
) -> Result:
    """Return the result of a regression with its loss and its scores.

    Args:
        index: one training example of each row to which the regression was fitted.
        logits: the logits of these rows, ``[n, o]``.
        computed: the logits of each evaluation split.
        started: the time at which the run began, by ``time.monotonic``.
    """
    train = examples["train"]
    weights = label_weights(task, train, index, recipe)
    found, expected = torch.from_numpy(logits), torch.from_numpy(train.labels[index])
    losses = task.of_kind.losses(found[None], expected, torch.arange(len(index)), weights)
    train_loss = losses.item() / float(task.of_kind.loss_divisor(expected, weights))
    scores = score_splits(task, examples, computed)
    result.end_epoch(1, train_loss, time.monotonic() - started, scores)
    return result


def features(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Return the features of examples, ``[n, f]``.

    A single text's features are its embedding. Two texts are neighbouring examples; the features
    of their embeddings u and v are u, v, |u − v| and the elementwise product u·v.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    embedded = embeddings(model, examples, index)
    if not np.isfinite(embedded).all():
        raise SubtuneError(
            f"embeddings: found a number that is not finite among the {model.config.model_type} "
            "model's hidden states, expected finite ones"
        )
    if len(examples) == len(examples.row_numbers):
        return embedded
    u, v = embedded[::2], embedded[1::2]
    return np.hstack([u, v, np.abs(u - v), u * v])


def embeddings(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Return the embeddings ``[n·t, h]`` of examples.

    An embedding is the mean last hidden state of the tokens that are read, scaled to length 1 as in
    sentence-transformers' models, so that u·v sums to the cosine of two texts.
    """
    lengths, counts = examples.lengths[index], torch.from_numpy(examples.read_counts[index])
    parts, order = [], []
    with torch.inference_mode():
        for alike in evaluation_batches(lengths):
            for part in micro_batches(alike, lengths[alike], model):
                states = hidden_states(model, pack(examples, index[part], model))
                tokens = counts[part].to(states.device)
                # A GPU's index_add_ adds in no fixed order.
                means = torch.segment_reduce(states, "mean", lengths=tokens, axis=0)
                parts.append(normalize(means).cpu().numpy())
                order.append(part)
    return np.concatenate(parts)[np.argsort(np.concatenate(order))]


def _logistic(
    read: np.ndarray, labels: np.ndarray, outputs: int, metric: str, recipe: Fit, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight ``[o, f]`` and bias ``[o]`` of a logistic regression.

    The penalty with the best mean ``metric`` over folds is chosen. If a class has only one row, the
    penalty is scikit-learn's default.
    """
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    def score(regression: Any, read: np.ndarray, labels: Any) -> float:
        return metrics.compute_all("classes", [metric], regression.predict(read), labels)[metric]

    weight, bias = np.zeros((outputs, read.shape[1]), "f"), np.full(outputs, ABSENT, "f")
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
    regression.fit(read, labels)
    # Two classes have a single row of coefficients: the difference of their logits.
    halves = np.array([[-0.5], [0.5]]) if len(classes) == 2 else np.eye(len(classes))
    weight[classes], bias[classes] = halves @ regression.coef_, halves @ regression.intercept_
    return weight, bias
