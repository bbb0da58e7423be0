"""Regression on TF-IDF, compared with a dozen lines of scikit-learn."""

import csv
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union

from subtune.core.ids import content_id
from subtune.data.load import load_rows, read_examples, tokenize
from subtune.methods import METHODS
from subtune.models.encoder import load_encoder
from subtune.runs import records
from subtune.runs.spec import DataSpec, FitRecipe, Fold
from subtune.tasks import TASKS
from subtune.tasks.examples import Examples
from subtune.training import recorded_runs, tf_idf
from tests.helpers import examples
from tests.helpers.project import ROOT

SEED = 3


def read(task, directory, folder, rows=None, max_length=24) -> dict[str, Examples]:
    """A task's examples with their texts, as jobs read them."""
    rows = rows or examples.rows_of(task, rows=60, evaluation=20)
    paths = [str(folder / content_id(name)) for name in ("tokens", "texts")]
    tokenize(task, rows, directory, max_length).save_to_disk(paths[0])
    rows.save_to_disk(paths[1])
    found = read_examples(*paths)
    return {split: Examples(found[split]) for split in found}


def predictions(task, rows, **recipe):
    return tf_idf.fit_tf_idf(rows, task, FitRecipe(**recipe), SEED).best.predictions[
        task.evaluation[0]
    ]


def plain_vectorizer():
    words = TfidfVectorizer(
        token_pattern=r"\w+|[^\w\s]+", ngram_range=(1, 2), sublinear_tf=True, max_features=100_000
    )
    letters = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, max_features=100_000
    )
    return make_union(words, letters)


def table(path, **settings):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE, **settings))


def glue_rows(name, glue_dir):
    """Examples of a task of GLUE, for a model that is not read."""
    folder = glue_dir / {"sst2": "SST-2", "stsb": "STS-B"}[name]
    paths = {split: folder / f"{file}.tsv" for split, file in FILES.items()}
    return load_rows(DataSpec(task=TASKS[name], source="tsv", version="1"), paths)


FILES = {"train": "train", "validation": "dev"}


@pytest.mark.slow
def test_sst2_has_the_score_of_plain_scikit_learn(glue_dir, tiny_bert, tmp_path):
    rows = glue_rows("sst2", glue_dir)
    rows["train"] = rows["train"].select(range(3000))
    read_rows = read(TASKS["sst2"].spec(), tiny_bert, tmp_path, rows)
    result = tf_idf.fit_tf_idf(read_rows, TASKS["sst2"].spec(), FitRecipe(train_rows=1000), SEED)

    train, dev = (table(glue_dir / "SST-2" / f"{file}.tsv")[1:] for file in FILES.values())
    train = [train[row] for row in np.random.default_rng(SEED).permutation(3000)[:1000]]
    model = make_pipeline(plain_vectorizer(), LogisticRegression(C=10, max_iter=1000))
    model.fit(*zip(*train, strict=True))
    expected = model.score(*zip(*dev, strict=True))
    assert result.best.scores["validation"]["accuracy"] == expected > 0.68


@pytest.mark.nightly
def test_stsb_has_the_score_of_plain_scikit_learn(glue_dir, tiny_bert, tmp_path):
    rows = glue_rows("stsb", glue_dir)
    read_rows = read(TASKS["stsb"].spec(), tiny_bert, tmp_path, rows)
    result = tf_idf.fit_tf_idf(read_rows, TASKS["stsb"].spec(), FitRecipe(train_rows=1000), SEED)

    train, dev = (table(glue_dir / "STS-B" / f"{file}.tsv")[1:] for file in FILES.values())
    train = [train[row] for row in np.random.default_rng(SEED).permutation(len(train))[:1000]]
    vectorizer = plain_vectorizer().fit([row[7] for row in train] + [row[8] for row in train])

    def features(part):
        u, v = (vectorizer.transform([row[column] for row in part]) for column in (7, 8))
        product = u.multiply(v)
        return sparse.hstack([u, v, abs(u - v), product, product.sum(1)], format="csr")

    ridge = Ridge().fit(features(train), [float(row[9]) for row in train])
    expected = spearmanr(ridge.predict(features(dev)), [float(row[9]) for row in dev])[0]
    found = result.best.scores["validation"]["spearmanr"]
    assert found == pytest.approx(expected, abs=1e-3)
    assert found > 0.74


@pytest.mark.parametrize("weights", [None, "balanced"])
def test_several_classes_are_one_against_all_others(weights, tiny_bert, tmp_path):
    task = TASKS["mnli"].spec().replace(text=("premise",))
    rows = read(task, tiny_bert, tmp_path)
    found = torch.tensor(predictions(task, rows, class_weights=weights)).softmax(1)
    regression = LogisticRegression(C=10, max_iter=1000, class_weight=weights)
    model = make_pipeline(plain_vectorizer(), OneVsRestClassifier(regression))
    model.fit(rows["train"].column("text_a"), rows["train"].labels)
    expected = model.predict_proba(rows["validation_matched"].column("text_a"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_each_of_several_labels_has_a_regression_of_its_own(tiny_bert, tmp_path):
    task = examples.TOXIC.spec()
    rows = read(task, tiny_bert, tmp_path)
    found = torch.tensor(predictions(task, rows)).sigmoid()
    model = make_pipeline(
        plain_vectorizer(), OneVsRestClassifier(LogisticRegression(C=10, max_iter=1000))
    )
    model.fit(rows["train"].column("text_a"), rows["train"].labels)
    expected = model.predict_proba(rows["validation"].column("text_a"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_words_behind_the_longest_text_of_the_model_are_read(tiny_bert, tmp_path):
    task, rng = TASKS["sst2"].spec(), np.random.default_rng(0)
    labels = rng.integers(2, size=60)
    texts = [60 * "the film " + ("good" if label else "bad") for label in labels]
    cells = [
        {task.text[0]: text, task.label: task.labels[label]}
        for text, label in zip(texts, labels, strict=True)
    ]
    split = examples.split_of(task, cells)
    rows = examples.rows_of(task)
    rows["train"] = rows["validation"] = split
    by_split = read(task, tiny_bert, tmp_path, rows)
    assert (predictions(task, by_split).argmax(1) == labels).all()
    assert by_split["train"].lengths.max() == 24


def test_of_long_texts_the_first_characters_of_every_row_are_read(tiny_bert, tmp_path, monkeypatch):
    task, rng = TASKS["sst2"].spec(), np.random.default_rng(0)
    labels = rng.integers(2, size=60)
    texts = [f"{'good' if label else 'bad'} " + 20 * "the film " for label in labels]
    cells = [
        {task.text[0]: text, task.label: task.labels[label]}
        for text, label in zip(texts, labels, strict=True)
    ]
    rows = examples.rows_of(task)
    rows["train"] = rows["validation"] = examples.split_of(task, cells)
    by_split = read(task, tiny_bert, tmp_path, rows)
    monkeypatch.setattr(tf_idf, "MOST_CHARACTERS", 60 * 8)
    regression, features, index = tf_idf.fit_texts(by_split["train"], task, FitRecipe(), SEED)
    assert regression.features.characters == 8
    assert features.shape[0] == len(index) == 60
    assert (predictions(task, by_split).argmax(1) == labels).all()


def test_short_texts_are_not_cut():
    assert tf_idf._find_cut([5] * 10) is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf_idf, "MOST_CHARACTERS", 100)
        assert tf_idf._find_cut([10] * 9 + [1000]) == 10
        assert tf_idf._find_cut([100] * 200) == 1


def test_of_many_rows_all_are_fitted_by_stochastic_gradient_descent(
    tiny_bert, tmp_path, monkeypatch
):
    task = TASKS["mnli"].spec()
    rows = read(task, tiny_bert, tmp_path)
    exact = predictions(task, rows)
    monkeypatch.setattr(tf_idf, "MOST_SOLVED", 0)
    found = predictions(task, rows)
    assert not np.array_equal(exact, found)
    assert np.corrcoef(exact.ravel(), found.ravel())[0, 1] > 0.7
    np.testing.assert_array_equal(found, predictions(task, rows))


CODE = [
    ("sst2", None),
    ("sst2", "balanced"),
    ("mnli", None),
    ("mnli", "balanced"),
    ("rte", None),
    ("stsb", None),
    ("toxic", "balanced"),
]


@pytest.mark.parametrize(("name", "weights"), CODE)
def test_the_code_of_the_page_fits_the_same_regression(name, weights, tiny_bert, tmp_path):
    task = examples.TASKS[name].spec()
    rows = read(task, tiny_bert, tmp_path)
    found = predictions(task, rows, class_weights=weights)
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/methods.md").read_text(), re.S)
    page = dict[str, Any]()
    exec(code, page)
    numbers = task.labels is None
    columns = tf_idf.read_text_columns(rows["train"], task)
    model = page["fit"](columns, rows["train"].labels, numbers, weights)
    features = page["features"](tf_idf.read_text_columns(rows[task.evaluation[0]], task))
    if numbers:
        np.testing.assert_allclose(found[:, 0], model.predict(features), atol=1e-2)
        return
    logits = torch.tensor(found)
    chances = logits.sigmoid() if task.kind == "multilabel" else logits.softmax(1)
    np.testing.assert_allclose(chances, model.predict_proba(features), atol=1e-3)


def test_class_weights_need_no_row_of_every_class(tiny_bert, tmp_path):
    task = TASKS["mnli"].spec()
    rows = examples.rows_of(task, rows=6, evaluation=6)
    rows["train"] = rows["train"].remove_columns("label").add_column("label", [0, 0, 0, 2, 2, 2])
    by_split = read(task, tiny_bert, tmp_path, rows)
    result = tf_idf.fit_tf_idf(by_split, task, FitRecipe(class_weights="balanced"), SEED)
    assert math.isfinite(result.history[0]["train_loss"])


FOLDS = [Fold(of=3, number=number, partition=1) for number in range(3)]


@pytest.mark.parametrize("name", ["sst2", "rte"])
def test_folds_are_those_of_runs_that_train(name, tiny_bert, tmp_path):
    task = TASKS[name]
    rows, paths = examples.rows_of(task, rows=30), [str(tmp_path / part) for part in "tr"]
    tokenize(task.spec(), rows, tiny_bert, 24).save_to_disk(paths[0])
    rows.save_to_disk(paths[1])
    model = load_encoder(tiny_bert, task.of_kind.head, task.outputs)
    trained = [examples.run_spec(task=name, fold=fold) for fold in FOLDS]
    fitted = [
        spec.replace(selection=METHODS["tf-idf"], recipe=FitRecipe(fold=spec.recipe.fold))
        for spec in trained
    ]
    recorded_runs.train_and_record(
        [*trained, *fitted], tmp_path / "runs", model, read_examples(*paths), {}, lambda line: None
    )
    for both in zip(trained, fitted, strict=True):
        idx, again = (
            records.read_recorded_predictions(tmp_path / "runs", spec.id)["idx"] for spec in both
        )
        assert idx.tolist() == again.tolist()
        outcome = records.read_outcome(tmp_path / "runs", both[1].id)
        assert outcome.get("share_read") is None
        changes = records.read_parameter_changes(tmp_path / "runs", both[1].id)
        assert outcome["trainable"] == changes["size"].sum() > 0


LABELS = {
    "one class has one row": [0, 1, 1, 1, 1, 1],
    "a class has none": [0, 0, 0, 2, 2, 2],
    "there is one class": [2, 2, 2, 2, 2, 2],
}


@pytest.mark.parametrize("texts", [["!!", "?"], ["🙂", "🙁"], ["好", "不好"], ["a", "I"]])
def test_a_text_needs_no_word_of_two_letters(texts):
    one, other = tf_idf.make_vectorizer().fit_transform(texts)
    assert one.nnz
    assert other.nnz
    assert (one != other).nnz
