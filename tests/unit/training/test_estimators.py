"""Estimators of scikit-learn, compared with a few lines that use them directly."""

import math
import sys

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from subtune.core.errors import SubtuneError
from subtune.methods import METHODS
from subtune.methods.baselines import Estimator, compute_class_logits
from subtune.models.encoder import load_encoder
from subtune.runs.spec import FitRecipe
from subtune.tasks.sentences import TEXT_COLUMNS
from subtune.training import embeddings, estimators, tf_idf
from subtune.training.training_set import draw_training_indices
from tests.helpers import examples

SEED = 3
MODELS = '''
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
import numpy as np


class Votes(ClassifierMixin, BaseEstimator):
    """Predicts the last class, without probabilities."""

    def fit(self, features, labels):
        self.classes_ = np.unique(labels)
        return self

    def predict(self, features):
        return np.full(len(features), self.classes_[-1])


class Fails(Votes):
    def predict_proba(self, features):
        return np.full((len(features), 2), np.nan)


def words():
    return make_pipeline(HashingVectorizer(), LogisticRegression())


def pairs():
    columns = ((HashingVectorizer(n_features=512), name) for name in ("sentence1", "sentence2"))
    return make_pipeline(make_column_transformer(*columns), LinearRegression())


def broken():
    return 1 / 0


def nothing():
    return object()


def strict():
    return FixedThresholdClassifier(LogisticRegression(), threshold=0.55)


class Numbers(Votes):
    def predict(self, features):
        return np.full(len(features), 0.7)


class Short(Votes):
    def predict(self, features):
        return self.classes_[:2]
'''


@pytest.fixture
def models(tmp_path):
    """The path of a file with functions that return estimators."""
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return path


def fit(selection, task, directory, seed=SEED, **recipe):
    """Fit a baseline to 60 rows; return its result, and the examples of each split."""
    spec = examples.run_spec(selection, task.name).replace(recipe=FitRecipe(**recipe), seed=seed)
    is_pair = len(task.text) > 1 and not selection.reads_texts
    rows = examples.rows_of(task, rows=60, evaluation=20)
    model = load_encoder(directory, task.of_kind.head, task.outputs)
    reads = embeddings.pooled_tokens(spec.model, model)
    tokens = examples.tokens(task, directory, 60, 20, is_pair)
    found = {}
    for split in task.labelled_splits:
        with_texts = tokens[split]
        for name in TEXT_COLUMNS[: len(task.text)] if selection.reads_texts else ():
            with_texts = with_texts.add_column(name, rows[split][name])
        found[split] = embeddings.Examples(with_texts, reads)
    return estimators.fit_and_evaluate(model, found, spec), found, model


def logits(result, task):
    return result.best.predictions[task.evaluation[0]]


def chances(result, task):
    return torch.tensor(logits(result, task)).softmax(1).numpy()


def shuffled(rows):
    return draw_training_indices(rows["train"], None, np.random.default_rng(SEED))


def test_naive_bayes_on_tf_idf_has_the_probabilities_of_scikit_learn(tiny_bert):
    task = examples.TASKS["sst2"]
    selection = Estimator(estimator="sklearn.naive_bayes.ComplementNB", reads="tf-idf")
    result, rows, _ = fit(selection, task, tiny_bert)
    plain = make_pipeline(tf_idf.make_vectorizer(), ComplementNB())
    plain.fit(rows["train"].column("text_a"), rows["train"].labels)
    expected = plain.predict_proba(rows["validation"].column("text_a"))
    np.testing.assert_allclose(chances(result, task), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["sst2", "rte"])
def test_a_forest_on_embeddings_is_that_of_scikit_learn_with_the_seed_of_the_run(name, tiny_bert):
    task = examples.TASKS[name]
    selection = Estimator(
        estimator="sklearn.ensemble.RandomForestClassifier",
        reads="embeddings",
        settings={"n_estimators": 10},
    )
    result, rows, model = fit(selection, task, tiny_bert)
    index = shuffled(rows)
    features = embeddings.compute_features(model, rows["train"], index)
    labels = rows["train"].labels[index[:: len(task.text)]]
    plain = RandomForestClassifier(10, random_state=SEED).fit(features, labels)
    dev = embeddings.compute_all_features(model, rows["validation"])
    np.testing.assert_allclose(chances(result, task), plain.predict_proba(dev), atol=1e-5)
    other, *_ = fit(selection, task, tiny_bert, seed=4)
    assert not np.array_equal(logits(result, task), logits(other, task))


def test_a_pipeline_of_a_file_reads_texts(models, tiny_bert):
    task = examples.TASKS["sst2"]
    result, rows, _ = fit(Estimator(estimator=f"{models}:words", reads="texts"), task, tiny_bert)
    plain = make_pipeline(HashingVectorizer(), LogisticRegression())
    plain.fit(rows["train"].column("text_a"), rows["train"].labels)
    expected = plain.predict_proba(rows["validation"].column("text_a"))
    np.testing.assert_allclose(chances(result, task), expected, atol=1e-3)


def test_pairs_are_a_table_with_the_columns_of_the_task(models, tiny_bert):
    task = examples.TASKS["stsb"]
    result, rows, _ = fit(Estimator(estimator=f"{models}:pairs", reads="texts"), task, tiny_bert)

    def hashed(split):
        columns = (rows[split].column(name) for name in TEXT_COLUMNS)
        vectorizer = HashingVectorizer(n_features=512)
        return np.hstack([vectorizer.transform(texts).toarray() for texts in columns])

    plain = LinearRegression().fit(hashed("train"), rows["train"].labels)
    expected = plain.predict(hashed("validation"))
    np.testing.assert_allclose(logits(result, task)[:, 0], expected, atol=0.05)


def test_without_probabilities_decisions_are_the_logits(tiny_bert):
    task = examples.TASKS["mnli"]
    selection = Estimator(estimator="sklearn.svm.LinearSVC", reads="embeddings")
    result, rows, model = fit(selection, task, tiny_bert)
    index = shuffled(rows)
    features = embeddings.compute_features(model, rows["train"], index)
    plain = LinearSVC(random_state=SEED).fit(features, rows["train"].labels[index[::2]])
    dev = embeddings.compute_all_features(model, rows["validation_matched"])
    decisions = plain.decision_function(dev)
    expected = decisions - decisions.max(axis=1, keepdims=True)
    np.testing.assert_allclose(logits(result, task), expected, atol=1e-3)


def test_the_predicted_class_is_that_of_the_estimator(models, tiny_bert):
    task = examples.TASKS["sst2"]
    selection = Estimator(estimator=f"{models}:strict", reads="tf-idf")
    result, rows, _ = fit(selection, task, tiny_bert)
    plain = make_pipeline(tf_idf.make_vectorizer(), LogisticRegression())
    plain.fit(rows["train"].column("text_a"), rows["train"].labels)
    sure = plain.predict_proba(rows["validation"].column("text_a"))[:, 1] >= 0.55
    assert 0 < sure.sum() < len(sure)
    assert (logits(result, task).argmax(1) == sure).all()


def test_large_decisions_keep_their_order():
    """Decisions of sums of word counts can be in the hundreds."""

    class Linear:
        classes_ = np.arange(3)

        def decision_function(self, features):
            return np.array([[-300.0, -150.0, -2000.0]])

        def predict(self, features):
            return np.array([1])

    found = compute_class_logits(Linear(), [0], 4)
    assert found.tolist() == [[-100, 0, -100, -100]]


def test_without_decisions_the_predicted_class_has_all_of_the_probability(models, tiny_bert):
    task = examples.TASKS["sst2"]
    result, *_ = fit(Estimator(estimator=f"{models}:Votes", reads="texts"), task, tiny_bert)
    np.testing.assert_allclose(chances(result, task), [[0, 1]] * 20, atol=1e-6)


def test_each_of_several_labels_has_an_estimator_of_its_own(tiny_bert):
    task = examples.TOXIC
    result, rows, _ = fit(
        Estimator(estimator="sklearn.naive_bayes.ComplementNB", reads="tf-idf"), task, tiny_bert
    )
    found = torch.tensor(logits(result, task)).sigmoid().numpy()
    for number, column in enumerate(rows["train"].labels.T):
        plain = make_pipeline(tf_idf.make_vectorizer(), ComplementNB())
        plain.fit(rows["train"].column("text_a"), column)
        expected = plain.predict_proba(rows["validation"].column("text_a"))[:, 1]
        np.testing.assert_allclose(found[:, number], expected, atol=1e-5)


@pytest.mark.parametrize(("name", "expected"), [("sst2", "most frequent"), ("stsb", "mean")])
def test_a_constant_prediction_is_the_most_frequent_class_or_the_mean(name, expected, tiny_bert):
    task = examples.TASKS[name]
    result, rows, _ = fit(METHODS["constant"], task, tiny_bert)
    labels = rows["train"].labels
    if expected == "mean":
        assert logits(result, task)[:, 0].tolist() == pytest.approx([labels.mean()] * 20)
    else:
        shares = np.bincount(labels) / len(labels)
        np.testing.assert_allclose(chances(result, task), [shares] * 20, atol=1e-6)
    assert result.trainable == 0
    assert math.isfinite(result.history[0]["train_loss"])


def test_class_weights_reach_the_parts_of_a_pipeline(models, tiny_bert):
    task = examples.TASKS["sst2"]
    selection = Estimator(estimator=f"{models}:words", reads="texts")
    weighted, rows, _ = fit(selection, task, tiny_bert, class_weights="balanced")
    plain = make_pipeline(HashingVectorizer(), LogisticRegression(class_weight="balanced"))
    plain.fit(rows["train"].column("text_a"), rows["train"].labels)
    expected = plain.predict_proba(rows["validation"].column("text_a"))
    np.testing.assert_allclose(chances(weighted, task), expected, atol=1e-3)


PROBLEMS = {
    "sklearn.naive_bias.ComplementNB": "cannot import sklearn.naive_bias: ModuleNotFoundError",
    "sklearn.naive_bayes.ComplementBN": "did you mean 'ComplementNB'?",
    "ComplementNB": "found 'ComplementNB', expected a class such as",
    "{models}:word": "did you mean 'words'?",
    "{models}:broken": "models.py:broken: line 38: ZeroDivisionError: division by zero",
    "{models}:nothing": "found object, which has no method 'fit'",
    "sklearn.linear_model.Ridge": "found Ridge, expected an estimator that predicts classes",
    "{models}:Fails": "a prediction is not a finite number",
    "{models}:Numbers": "`predict` returned 60 values for 60 rows, such as 0.7, 0.7, 0.7; expected",
    "{models}:Short": "`predict` returned 2 values for 60 rows",
    "sklearn.neighbors.KNeighborsClassifier": "KNeighborsClassifier on texts: ValueError: ",
}


@pytest.mark.parametrize(("place", "message"), PROBLEMS.items(), ids=PROBLEMS)
def test_an_estimator_that_cannot_be_used_says_why(place, message, models, tiny_bert):
    selection = Estimator(estimator=place.format(models=models), reads="texts")
    with pytest.raises(SubtuneError) as caught:
        fit(selection, examples.TASKS["sst2"], tiny_bert)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_texts_of_pairs_are_named_if_an_estimator_expects_single_texts(models, tiny_bert):
    selection = Estimator(estimator=f"{models}:words", reads="texts")
    with pytest.raises(SubtuneError, match="on a table with the columns sentence1, sentence2"):
        fit(selection, examples.TASKS["rte"], tiny_bert)


def test_no_file_is_written_next_to_the_code(models, tiny_bert):
    fit(Estimator(estimator=f"{models}:words", reads="texts"), examples.TASKS["sst2"], tiny_bert)
    assert [path.name for path in models.parent.iterdir()] == ["models.py"]
    assert not any("models" in name and str(models.parent) in name for name in sys.path)
