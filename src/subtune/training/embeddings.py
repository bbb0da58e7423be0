"""The method that trains nothing of the encoder: a regression on frozen, pooled embeddings.

Classes have scikit-learn's logistic regression, numbers its ridge regression. Both choose their
penalty on parts of the training rows.

Shapes: ``n`` rows, ``t`` texts of each row, ``h`` hidden size, ``f`` features, ``o`` outputs.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from subtune.core.errors import SubtuneError
from subtune.data.batches import in_length_order
from subtune.models.encoder import Encoder
from subtune.models.forward import hidden_states
from subtune.models.packed import micro_batches, pack
from subtune.selections.specs import Fit, ModelSpec
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.examples import Examples, Reads
from subtune.training.delta import ChangedTensor
from subtune.training.evaluation import Evaluation, without_padding_where_it_is_seen
from subtune.training.recipe import examples_that_train
from subtune.training.run import Result

FOLDS = 5
# Steps of logistic regression: scikit-learn's 100 end too early for small penalties.
STEPS = 1000
# The logit of a class without training rows. The largest of all others is never below 0.
ABSENT = -100.0


def tokens_pooled(spec: ModelSpec, model: Encoder) -> Reads:
    """Return the tokens whose mean last hidden state is an embedding.

    Without ``pooling`` they are those that transformers' class for sequences reads.
    """
    if (spec.pooling or getattr(model.config, "classifier_pooling", None)) == "mean":
        return "all"
    module = model.transformers and model.transformers.module
    # Transformers has this name for heads that read the last token.
    return "last" if hasattr(module, "score") or model.config.is_encoder_decoder else "first"


def fit(
    model: Encoder, examples: Mapping[str, Examples], task: TaskSpec, recipe: Fit, seed: int
) -> Result:
    """Fit a regression to the embeddings of training rows, and return it as a classifier.

    Args:
        model: pretrained, on its device.
        examples: of the training split and the task's evaluation splits, as far as these judge.
            They read the tokens of `tokens_pooled`.
        task: decides the regression and the metrics.
        recipe: limits the training rows.
        seed: draws the training rows, and the parts that choose the penalty.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    started = time.monotonic()
    model = without_padding_where_it_is_seen(model, examples.values(), hidden_states)
    train = examples["train"]
    index = examples_that_train(train, recipe, np.random.default_rng(seed))
    read = features(model, train, index)
    labels = train.labels[index[:: len(index) // len(read)]]
    weight, bias = (
        _ridge(read, labels) if task.labels is None else _logistic(read, labels, task, seed)
    )
    logits = torch.from_numpy(read @ weight.T + bias)
    losses = task.of_kind.losses(logits[None], torch.from_numpy(labels), torch.arange(len(labels)))
    row = {"epoch": 1, "train_loss": losses.item() / len(labels)}
    scores, predictions = {}, {}
    for split in filter(examples.__contains__, task.evaluation):
        rows = examples[split]
        computed = features(model, rows, np.arange(len(rows))) @ weight.T + bias
        predictions[split] = task.of_kind.predict(rows, computed)
        scores[split] = task.of_kind.score(task, rows, predictions[split])
    row["seconds"] = time.monotonic() - started
    for split, by_metric in scores.items():
        row |= {f"{split}/{metric}": score for metric, score in by_metric.items()}
    fitted = {"classifier.weight": weight, "classifier.bias": bias}
    changes = {name: (float(np.abs(new).mean()), new.size) for name, new in fitted.items()}
    delta = {name: ChangedTensor(torch.from_numpy(new)) for name, new in fitted.items()}
    best = Evaluation(scores, predictions, {**delta}, changes)
    return Result([row], 1, best, weight.size + bias.size, [predictions])


def features(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Return the numbers that a regression reads of some examples, ``[n, f]``.

    They are a text's embedding, or of two texts u and v in neighbouring examples u, v, |u − v| and
    u·v, entry by entry.

    Raises:
        SubtuneError: an embedding is not finite.
    """
    embedded = embeddings(model, examples, index)
    if not np.isfinite(embedded).all():
        raise SubtuneError(
            f"embeddings: found a number that is not finite among the {model.config.model_type} "
            "model's hidden states, expected finite ones"
        )
    if len(examples) == examples.rows:
        return embedded
    return features_of(embedded[::2], embedded[1::2])


def features_of(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the numbers that a regression reads of pairs, from their embeddings ``[n, h]``."""
    return np.hstack([u, v, np.abs(u - v), u * v])


def embeddings(model: Encoder, examples: Examples, index: np.ndarray) -> np.ndarray:
    """Return the embeddings ``[n·t, h]`` of some examples.

    Each is the mean last hidden state of the tokens that are read, scaled to length 1, as
    sentence-transformers' models do: u·v then adds up to the cosine of two texts.
    """
    lengths, counts = examples.lengths[index], torch.from_numpy(examples.read_counts[index])
    parts, order = [], []
    with torch.inference_mode():
        for alike in in_length_order(lengths):
            for part in micro_batches(alike, lengths[alike], model):
                states = hidden_states(model, pack(examples, index[part], model))
                tokens = counts[part].to(states.device)
                # A GPU would add by index in any order.
                means = torch.segment_reduce(states, "mean", lengths=tokens, axis=0)
                parts.append(normalize(means).cpu().numpy())
                order.append(part)
    return np.concatenate(parts)[np.argsort(np.concatenate(order))]


def _ridge(read: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight ``[1, f]`` and bias ``[1]`` of a ridge regression."""
    from sklearn.linear_model import RidgeCV

    fitted = RidgeCV().fit(read, labels)
    return np.asarray(fitted.coef_[None], "f"), np.array([fitted.intercept_], "f")


def _logistic(
    read: np.ndarray, labels: np.ndarray, task: TaskSpec, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight ``[o, f]`` and bias ``[o]`` of a logistic regression.

    The penalty has the best mean of the task's first metric over folds. With fewer than two rows of
    a class it is scikit-learn's usual one.
    """
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    def score(regression: Any, read: np.ndarray, labels: Any) -> float:
        found, first = regression.predict(read), task.metrics[:1]
        [score] = metrics.compute_all(task.of_kind.compares, first, found, labels).values()
        return score

    weight, bias = np.zeros((task.outputs, read.shape[1]), "f"), np.full(task.outputs, ABSENT, "f")
    classes, counts = np.unique(labels, return_counts=True)
    bias[classes] = 0
    if len(classes) == 1:
        return weight, bias
    regression = LogisticRegression(max_iter=STEPS)
    if counts.min() > 1:
        folds = StratifiedKFold(min(FOLDS, counts.min()), shuffle=True, random_state=seed)
        usual = {"l1_ratios": (0,), "use_legacy_attributes": False}
        regression = LogisticRegressionCV(cv=folds, scoring=score, max_iter=STEPS, **usual)
    regression.fit(read, labels)
    # Two classes have one row of coefficients, of the difference of their logits.
    halves = np.array([[-0.5], [0.5]]) if len(classes) == 2 else np.eye(len(classes))
    weight[classes], bias[classes] = halves @ regression.coef_, halves @ regression.intercept_
    return weight, bias
