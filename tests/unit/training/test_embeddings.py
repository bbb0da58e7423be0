"""Regressions on frozen embeddings, compared with a few lines of transformers and scikit-learn."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import Dataset, concatenate_datasets
from scipy.stats import pearsonr, sem, spearmanr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from tokenizers import Tokenizer, processors
from transformers import AutoModel, AutoModelForSequenceClassification

from subtune.core.errors import SubtuneError
from subtune.data.load import tokenize
from subtune.data.subsets import divide_rows
from subtune.models.encoder import Encoder, load_encoder
from subtune.models.forward import compute_hidden_states
from subtune.runs.spec import FitRecipe, ModelSpec
from subtune.tasks import TASKS
from subtune.tasks.examples import SET, Examples
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.training import embeddings, tf_idf
from subtune.training.evaluation import autocast, check_padding
from tests.helpers import examples, families

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
    cosines = (u * v).sum(1, keepdims=True)
    return np.hstack([u, v, abs(u - v), u * v, 20 * cosines])


@pytest.mark.parametrize("name", ["sst2", "rte"])
def test_features_are_transformers_mean_of_one_text_at_a_time(name, tiny_bert):
    task = TASKS[name].spec()
    rows = examples.rows_of(task)
    model, by_split = read(task, tiny_bert, rows=rows)
    index = np.arange(len(by_split["train"]))
    found = embeddings.compute_features(model, by_split["train"], index)
    np.testing.assert_allclose(found, plain_features(task, tiny_bert, rows["train"]), atol=1e-5)


def fitted(name, directory, metric=None, **recipe):
    """Features of shuffled training rows and of dev rows, labels and sets, and our result."""
    task = examples.TASKS[name].spec()
    task = task.replace(metrics=(metric,)) if metric else task
    model, rows = read(task, directory)
    order = np.random.default_rng(SEED).permutation(60)
    train = embeddings.compute_features(model, rows["train"], rows["train"].indices_of_rows(order))
    held_out = rows[task.evaluation[0]]
    dev = embeddings.compute_features(model, held_out, np.arange(len(held_out)))
    result = embeddings.fit_embedding_regression(model, rows, task, FitRecipe(**recipe), SEED)
    predicted = torch.tensor(result.best.predictions[task.evaluation[0]])
    labels = rows["train"].row_labels if task.kind != "multilabel" else rows["train"].labels
    loss = result.history[0]["train_loss"]
    sets = rows["train"].row_sets[order]
    return train, dev, np.array(labels)[order], sets, predicted, loss


def scikit_learns(regression, name, train, labels, sets, scoring):
    """Scikit-learn's regression, with the penalty chosen by folds."""
    if isinstance(regression, Ridge):
        bins = labels.argsort(kind="stable").argsort() * 10 // len(labels)
    else:
        bins = labels
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=SEED)
    parts = [*folds.split(train, bins, sets)]
    penalties = 10.0 ** np.arange(4, -4, -1)

    def choose(results):
        """The strongest penalty within one standard error of the best one."""
        scores = np.stack([results[f"split{fold}_test_score"] for fold in range(5)])
        below = scores[:, scores.mean(0).argmax(), None] - scores
        return int(np.flatnonzero(below.mean(0) <= sem(below, axis=0))[0])

    values = 1 / penalties if name == "C" else penalties
    search = GridSearchCV(regression, {name: values}, scoring=scoring, cv=parts, refit=choose)
    return search.fit(train, labels)


@pytest.mark.parametrize(
    ("name", "weights"), [("sst2", None), ("rte", None), ("mnli", None), ("mnli", "balanced")]
)
def test_predictions_of_classes_are_scikit_learns(name, weights, tiny_bert):
    train, dev, labels, sets, predicted, loss = fitted(name, tiny_bert, class_weights=weights)
    regression = LogisticRegression(class_weight=weights, max_iter=1000)
    expected = scikit_learns(regression, "C", train, labels, sets, "accuracy")
    np.testing.assert_allclose(predicted.softmax(-1), expected.predict_proba(dev), atol=1e-5)
    if weights is None:
        assert loss == pytest.approx(log_loss(labels, expected.predict_proba(train)), abs=1e-5)


def test_predictions_of_numbers_are_scikit_learns(tiny_bert):
    train, dev, labels, sets, predicted, loss = fitted("stsb", tiny_bert)
    spearman = make_scorer(lambda labels, found: spearmanr(labels, found)[0])
    expected = scikit_learns(Ridge(), "alpha", train, labels, sets, spearman)
    np.testing.assert_allclose(predicted[:, 0], expected.predict(dev), atol=1e-5)
    assert loss == pytest.approx(np.mean((expected.predict(train) - labels) ** 2), abs=1e-5)


def test_penalties_are_compared_by_a_scorer_of_the_task(tiny_bert):
    metric = "neg_mean_absolute_error"
    train, dev, labels, sets, predicted, _ = fitted("stsb", tiny_bert, metric)
    expected = scikit_learns(Ridge(), "alpha", train, labels, sets, metric)
    np.testing.assert_allclose(predicted[:, 0], expected.predict(dev), atol=1e-5)
    pearson = make_scorer(lambda labels, found: pearsonr(labels, found)[0])
    other = scikit_learns(Ridge(), "alpha", train, labels, sets, pearson)
    assert other.best_params_ != expected.best_params_
    train, dev, labels, sets, predicted, _ = fitted("sst2", tiny_bert, "neg_log_loss")
    regression = LogisticRegression(max_iter=1000)
    expected = scikit_learns(regression, "C", train, labels, sets, "neg_log_loss")
    np.testing.assert_allclose(predicted.softmax(-1), expected.predict_proba(dev), atol=1e-5)


def test_folds_on_which_a_scorer_is_undefined_compare_no_penalties(tiny_bert):
    task = TASKS["sst2"].spec().replace(metrics=("roc_auc",))
    rows = examples.rows_of(task, rows=40)
    # All rows of a class are in one set, so the other two of three folds have one class.
    labels = [1, 1, 1] + [0] * 37
    rows["train"] = rows["train"].remove_columns("label").add_column("label", labels)
    rows["train"] = rows["train"].remove_columns(SET).add_column(SET, [0, 0, 0, *range(1, 38)])
    result = fit("embeddings", task, tiny_bert, rows)
    assert np.isfinite(result.best.predictions["validation"]).all()


def test_any_number_of_labels_is_a_logistic_regression_for_each(tiny_bert):
    train, dev, labels, sets, predicted, _ = fitted("toxic", tiny_bert)
    for number in range(3):
        expected = scikit_learns(
            LogisticRegression(max_iter=1000), "C", train, labels[:, number], sets, "f1"
        ).predict_proba(dev)[:, 1]
        np.testing.assert_allclose(predicted.sigmoid()[:, number], expected, atol=1e-5)


def test_recorded_changes_predict_the_recorded_predictions(tiny_bert):
    task = TASKS["rte"].spec()
    model, rows = read(task, tiny_bert)
    result = embeddings.fit_embedding_regression(model, rows, task, FitRecipe(), SEED)
    dev = embeddings.compute_features(model, rows["validation"], np.arange(len(rows["validation"])))
    weight, bias = (result.delta[f"classifier.{name}"] for name in ("weight", "bias"))
    logits = torch.from_numpy(dev) @ weight.T + bias
    np.testing.assert_allclose(result.best.predictions["validation"], logits, atol=1e-6)
    assert result.trainable == 2 * (4 * 32 + 1) + 2


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


# Families whose classifiers read the last token.
LAST = {"bart", "ctrl", "gemma", "gemma2", "gemma3_text", "gpt2", "llama", "modernbert-decoder"}
LAST |= {"qwen2", "qwen3", "t5", "xlnet"}


@pytest.mark.parametrize("family", families.FIELDS | families.UNDESCRIBED)
def test_an_embedding_is_the_hidden_state_that_transformers_classifier_reads(family, directory):
    whole = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    read_states = []
    model, rows = read(TASKS["sst2"].spec(), directory, pooling=None)
    model = check_padding(model, rows.values(), compute_hidden_states)
    found = embeddings.compute_embeddings(model, rows["train"], np.arange(2))
    whole.base_model.register_forward_hook(lambda *_: read_states.append(_[2][0]))
    for number in range(2):
        ids = torch.tensor(rows["train"].inputs["input_ids"][number])[None]
        with torch.inference_mode():
            whole(input_ids=ids)
        [states] = read_states.pop()
        states = states / states.norm(dim=-1, keepdim=True)
        np.testing.assert_allclose(found[number], states[-1 if family in LAST else 0], atol=1e-5)
    assert abs(found[0] - found[1]).max() > 1e-4


@pytest.mark.parametrize("family", ["modernbert", "gpt2", "fnet"])
def test_batches_change_no_embedding(family, directory_of):
    model, rows = read(TASKS["sst2"].spec(), directory_of(family), pooling=None)
    model = check_padding(model, rows.values(), compute_hidden_states)
    together = embeddings.compute_embeddings(model, rows["train"], np.arange(60))
    alone = [embeddings.compute_embeddings(model, rows["train"], np.array([n])) for n in range(60)]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


def fit(method, task, directory, rows=None, **recipe):
    """Fit a regression on embeddings or on TF-IDF of generated rows."""
    if method == "embeddings":
        read_rows = read(task, directory, rows=rows)
        return embeddings.fit_embedding_regression(*read_rows, task, FitRecipe(**recipe), SEED)
    rows = rows or examples.rows_of(task, rows=60, evaluation=20)
    tokens = tokenize(task, rows, directory, 24)
    texts = {
        split: Examples(concatenate_datasets([tokens[split], texts_of(rows[split])], axis=1))
        for split in task.labelled_splits
    }
    return tf_idf.fit_tf_idf(texts, task, FitRecipe(**recipe), SEED)


def texts_of(split):
    return split.select_columns([name for name in TEXT_COLUMNS if name in split.column_names])


BOTH = pytest.mark.parametrize("method", ["embeddings", "tf-idf"])


@BOTH
def test_a_limit_takes_the_rows_that_train_a_run_of_the_same_seed(method, tiny_bert):
    task = TASKS["stsb"].spec()
    rows = examples.rows_of(task, rows=60)
    limited = fit(method, task, tiny_bert, rows, train_rows=20)
    rows["train"] = rows["train"].select(np.random.default_rng(SEED).permutation(60)[:20])
    alone = fit(method, task, tiny_bert, rows)
    predictions = [result.best.predictions["validation"] for result in (limited, alone)]
    np.testing.assert_allclose(*predictions, atol=1e-3)


LABELS = {
    "one class has one row": [0, 1, 1, 1, 1, 1],
    "one class has two rows": [0, 0, 1, 1, 1, 1],
    "a class has none": [0, 0, 0, 2, 2, 2],
    "there is one class": [2, 2, 2, 2, 2, 2],
}


@BOTH
@pytest.mark.parametrize("weights", [None, "balanced"])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_few_rows_of_a_class_are_enough(method, weights, labels, tiny_bert):
    task = TASKS["mnli"].spec()
    rows = examples.rows_of(task, rows=len(labels), evaluation=6)
    rows["train"] = rows["train"].remove_columns("label").add_column("label", labels)
    result = fit(method, task, tiny_bert, rows, class_weights=weights)
    predicted = result.best.predictions["validation_matched"]
    assert np.isfinite(predicted).all()
    assert math.isfinite(result.history[0]["train_loss"])
    assert set(predicted.argmax(1)) <= set(labels)


def test_rows_of_a_set_are_in_one_fold(tiny_bert, monkeypatch):
    task = TASKS["sst2"].spec()
    rows = examples.rows_of(task, rows=60)
    rows["train"] = concatenate_datasets([rows["train"].select(range(20))] * 3)
    rows["train"] = rows["train"].remove_columns(SET).add_column(SET, [*range(20)] * 3)
    divided = []
    monkeypatch.setattr(
        embeddings,
        "divide_rows",
        lambda *arguments: (
            divided.append((arguments[1], divide_rows(*arguments))) or divided[-1][1]
        ),
    )
    embeddings.fit_embedding_regression(*read(task, tiny_bert, rows=rows), task, FitRecipe(), SEED)
    [(sets, parts)] = divided
    assert all(set(sets[part]).isdisjoint(np.delete(sets, part)) for part in parts)
    assert len(set(sets)) == 20


def test_a_text_without_tokens_has_the_embedding_zero(directory_of, tmp_path):
    directory = tmp_path / "gpt2"
    shutil.copytree(directory_of("gpt2"), directory)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.post_processor = processors.Sequence([])
    tokenizer.save(str(directory / "tokenizer.json"))
    task = TASKS["rte"].spec()
    rows = examples.rows_of(task, rows=60)
    first = rows["train"][:]
    first["text_b"][3] = ""
    rows["train"] = Dataset.from_dict(first, features=rows["train"].features)
    model, by_split = read(task, directory, pooling=None, rows=rows)
    found = embeddings.compute_embeddings(model, by_split["train"], np.arange(120))
    assert not found[7].any()
    assert (np.linalg.norm(np.delete(found, 7, 0), axis=1) > 0.99).all()
    result = embeddings.fit_embedding_regression(model, by_split, task, FitRecipe(), SEED)
    assert np.isfinite(result.best.predictions["validation"]).all()


def test_one_row_of_a_regression_is_predicted_everywhere(tiny_bert):
    task = TASKS["stsb"].spec()
    model, rows = read(task, tiny_bert)
    result = embeddings.fit_embedding_regression(model, rows, task, FitRecipe(train_rows=1), SEED)
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
            replace(model, parameters=broken), rows, task, FitRecipe(), SEED
        )
