"""Regression on TF-IDF, compared with a dozen lines of scikit-learn."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from subtune.core.ids import content_id
from subtune.data.load import read_examples, tokenize
from subtune.methods import METHODS
from subtune.models.encoder import load_encoder
from subtune.runs import records
from subtune.runs.spec import FitRecipe, Fold
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


def read_told(directory, folder, text):
    """Examples of films whose texts say whether they are good, and whether they are."""
    task, good = TASKS["sst2"].spec(), np.random.default_rng(0).integers(2, size=60)
    words = [("bad", "good")[label] for label in good]
    cells = [
        {task.text[0]: text.format(word), task.label: task.labels[label]}
        for word, label in zip(words, good, strict=True)
    ]
    rows = examples.rows_of(task)
    rows["train"] = rows["validation"] = examples.split_of(task, cells)
    return task, read(task, directory, folder, rows), good


def test_words_behind_the_longest_text_of_the_model_are_read(tiny_bert, tmp_path):
    task, rows, good = read_told(tiny_bert, tmp_path, 60 * "the film " + "{}")
    assert (predictions(task, rows).argmax(1) == good).all()
    assert rows["train"].lengths.max() == 24


def test_of_long_texts_the_first_characters_of_every_row_are_read(tiny_bert, tmp_path, monkeypatch):
    task, rows, good = read_told(tiny_bert, tmp_path, "{} " + 20 * "the film ")
    monkeypatch.setattr(tf_idf, "MOST_CHARACTERS", 60 * 8)
    regression, features, index = tf_idf.fit_texts(rows["train"], task, FitRecipe(), SEED)
    assert regression.characters == 8
    assert features.shape[0] == len(index) == 60
    assert (predictions(task, rows).argmax(1) == good).all()


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


@pytest.mark.parametrize("texts", [["!!", "?"], ["🙂", "🙁"], ["好", "不好"], ["a", "I"]])
def test_a_text_needs_no_word_of_two_letters(texts):
    one, other = tf_idf.make_vectorizer().fit_transform(texts)
    assert one.nnz
    assert other.nnz
    assert (one != other).nnz
