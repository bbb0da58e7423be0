"""Regression on frozen embeddings, compared with a dozen lines of transformers and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from tokenizers import Tokenizer
from transformers import AutoModel

from subtune.core.errors import SubtuneError
from subtune.data.load import tokenize
from subtune.models.encoder import Encoder, load_encoder
from subtune.models.forward import compute_hidden_states
from subtune.runs.spec import Fit, ModelSpec
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.evaluation import autocast, check_padding
from tests.helpers import examples

SPEC = ModelSpec(source="files", version="1")
SEED = 3


def read(task, directory, pooling="mean", rows=None) -> tuple[Encoder, dict[str, Examples]]:
    """A tiny model, and the examples that it embeds."""
    rows = rows or examples.rows_of(task, rows=60, evaluation=20)
    tokens = tokenize(task, rows, directory, 24, apart=len(task.text) > 1)
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    reads = embeddings.pooled_tokens(SPEC.replace(pooling=pooling), model)
    return model, {split: Examples(tokens[split], reads) for split in task.labelled_splits}


def plain_features(task, directory, split) -> np.ndarray:
    """Features of the regression by transformers, one text at a time."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    model = AutoModel.from_pretrained(directory).eval()

    @torch.inference_mode()
    def embed(text):
        ids = torch.tensor([tokenizer.encode(text).ids[:24]])
        mean = model(ids).last_hidden_state[0].mean(0)
        return (mean / mean.norm()).numpy()

    u = np.stack([embed(text) for text in split["text_a"]])
    if len(task.text) == 1:
        return u
    v = np.stack([embed(text) for text in split["text_b"]])
    return np.hstack([u, v, abs(u - v), u * v])


@pytest.mark.parametrize("name", ["sst2", "rte"])
def test_features_are_transformers_mean_of_one_text_at_a_time(name, tiny_bert):
    task = TASKS[name].spec()
    rows = examples.rows_of(task)
    model, by_split = read(task, tiny_bert, rows=rows)
    index = np.arange(len(by_split["train"]))
    found = embeddings.compute_features(model, by_split["train"], index)
    np.testing.assert_allclose(found, plain_features(task, tiny_bert, rows["train"]), atol=1e-5)


def fitted(name, directory, **recipe):
    """A task, features of its shuffled training rows and dev rows, their labels, and our result."""
    task = examples.TASKS[name].spec()
    model, rows = read(task, directory)
    train, dev = (
        embeddings.compute_features(model, rows[split], np.arange(len(rows[split])))
        for split in ("train", task.evaluation[0])
    )
    order = np.random.default_rng(SEED).permutation(60)
    result = embeddings.fit_embedding_regression(model, rows, task, Fit(**recipe), SEED)
    predicted = torch.tensor(result.best.predictions[task.evaluation[0]])
    labels = rows["train"].row_labels if task.kind != "multilabel" else rows["train"].labels
    return train[order], dev, np.array(labels)[order], predicted, result.history[0]["train_loss"]


def scikit_learns(train, labels, scoring, weights=None):
    """Scikit-learn's logistic regression, with the penalty chosen by folds."""
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
    settings = {"l1_ratios": (0,), "use_legacy_attributes": False, "max_iter": 1000}
    regression = LogisticRegressionCV(cv=folds, scoring=scoring, class_weight=weights, **settings)
    return regression.fit(train, labels)


@pytest.mark.parametrize(
    ("name", "weights"), [("sst2", None), ("rte", None), ("mnli", None), ("mnli", "balanced")]
)
def test_predictions_of_classes_are_scikit_learns(name, weights, tiny_bert):
    train, dev, labels, predicted, loss = fitted(name, tiny_bert, class_weights=weights)
    expected = scikit_learns(train, labels, "accuracy", weights)
    np.testing.assert_allclose(predicted.softmax(-1), expected.predict_proba(dev), atol=1e-5)
    if weights is None:
        assert loss == pytest.approx(log_loss(labels, expected.predict_proba(train)), abs=1e-5)


def test_predictions_of_numbers_are_scikit_learns(tiny_bert):
    train, dev, labels, predicted, loss = fitted("stsb", tiny_bert)
    expected = RidgeCV().fit(train, labels)
    np.testing.assert_allclose(predicted[:, 0], expected.predict(dev), atol=1e-5)
    assert loss == pytest.approx(np.mean((expected.predict(train) - labels) ** 2), abs=1e-5)


def test_any_number_of_labels_is_a_logistic_regression_for_each(tiny_bert):
    train, dev, labels, predicted, _ = fitted("toxic", tiny_bert)
    for number in range(3):
        expected = scikit_learns(train, labels[:, number], "f1").predict_proba(dev)[:, 1]
        np.testing.assert_allclose(predicted.sigmoid()[:, number], expected, atol=1e-5)


def test_recorded_changes_predict_the_recorded_predictions(tiny_bert):
    task = TASKS["rte"].spec()
    model, rows = read(task, tiny_bert)
    result = embeddings.fit_embedding_regression(model, rows, task, Fit(), SEED)
    dev = embeddings.compute_features(model, rows["validation"], np.arange(len(rows["validation"])))
    weight, bias = (result.delta[f"classifier.{name}"] for name in ("weight", "bias"))
    logits = torch.from_numpy(dev) @ weight.T + bias
    np.testing.assert_allclose(result.best.predictions["validation"], logits, atol=1e-6)
    assert result.trainable == 2 * (4 * 32) + 2


def test_a_limit_takes_the_rows_that_train_a_run_of_the_same_seed(tiny_bert):
    task = TASKS["stsb"].spec()
    rows = examples.rows_of(task, rows=60)
    chosen = np.random.default_rng(SEED).permutation(60)[:20]
    limited = embeddings.fit_embedding_regression(
        *read(task, tiny_bert, rows=rows), task, Fit(train_rows=20), SEED
    )
    rows["train"] = rows["train"].select(chosen)
    alone = embeddings.fit_embedding_regression(
        *read(task, tiny_bert, rows=rows), task, Fit(), SEED
    )
    predictions = [result.best.predictions["validation"] for result in (limited, alone)]
    np.testing.assert_allclose(*predictions, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "pooling", "reads"),
    [
        ("bert", None, "first"),
        ("bert", "mean", "all"),
        ("modernbert", None, "first"),
        ("gpt2", None, "last"),
        ("qwen2", None, "last"),
        ("qwen2", "mean", "all"),
    ],
)
def test_an_embedding_reads_the_tokens_that_its_model_was_made_for(
    family, pooling, reads, directory
):
    model = load_encoder(directory, "sequence_classification", 2)
    assert embeddings.pooled_tokens(SPEC.replace(pooling=pooling), model) == reads


@pytest.mark.parametrize("family", ["modernbert", "gpt2", "fnet"])
def test_batches_change_no_embedding(family, directory_of):
    model, rows = read(TASKS["sst2"].spec(), directory_of(family), pooling=None)
    model = check_padding(model, rows.values(), compute_hidden_states)
    together = embeddings.compute_embeddings(model, rows["train"], np.arange(60))
    alone = [embeddings.compute_embeddings(model, rows["train"], np.array([n])) for n in range(60)]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


LABELS = {
    "one class has one row": [0, 1, 1, 1, 1, 1],
    "one class has two rows": [0, 0, 1, 1, 1, 1],
    "a class has none": [0, 0, 0, 2, 2, 2],
    "there is one class": [2, 2, 2, 2, 2, 2],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_few_rows_of_a_class_are_enough(labels, tiny_bert):
    task = TASKS["mnli"].spec()
    rows = examples.rows_of(task, rows=len(labels), evaluation=6)
    rows["train"] = rows["train"].remove_columns("label").add_column("label", labels)
    result = embeddings.fit_embedding_regression(
        *read(task, tiny_bert, rows=rows), task, Fit(), SEED
    )
    predicted = result.best.predictions["validation_matched"]
    assert np.isfinite(predicted).all()
    assert set(predicted.argmax(1)) <= set(labels)


def test_one_row_of_a_regression_is_predicted_everywhere(tiny_bert):
    task = TASKS["stsb"].spec()
    model, rows = read(task, tiny_bert)
    result = embeddings.fit_embedding_regression(model, rows, task, Fit(train_rows=1), SEED)
    assert set(result.best.predictions["validation"].ravel()) <= set(rows["train"].labels)


def test_embeddings_are_computed_with_long_products_after_any_run(tiny_bert, monkeypatch):
    model, rows = read(TASKS["sst2"].spec(), tiny_bert)
    are_short = []

    def compute(*of):
        are_short.append(torch.backends.cuda.matmul.allow_tf32)
        return compute_hidden_states(*of)

    monkeypatch.setattr(embeddings, "compute_hidden_states", compute)
    with autocast(model.device, "tf32"):
        pass
    embeddings.compute_embeddings(model, rows["train"], np.arange(3))
    assert are_short and not any(are_short)


def test_embeddings_that_are_not_finite_are_refused_in_one_line(tiny_bert):
    task = TASKS["sst2"].spec()
    model, rows = read(task, tiny_bert)
    broken = {name: value * torch.nan for name, value in model.parameters.items()}
    with pytest.raises(SubtuneError, match="a hidden state of the bert"):
        embeddings.fit_embedding_regression(
            replace(model, parameters=broken), rows, task, Fit(), SEED
        )
