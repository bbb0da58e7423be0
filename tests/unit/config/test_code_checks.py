"""What `subtune check` finds out about code of the user's own."""

import pytest

from subtune import cli
from subtune.config import code_checks
from subtune.config.code_checks import check_code, find_kind
from subtune.core.errors import SubtuneError
from tests.helpers.project import ROOT

CODE = """
import random
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.metrics import accuracy_score, make_scorer

def ratio(weight, gradient):
    return gradient / weight

def equal(weight):
    return np.ones(weight.shape)

def chance(weight):
    return np.random.random(weight.shape)

def hashes(weights):
    return {name: array + hash(name) for name, array in weights.items()}

def ordered(weights):
    return {name: array * 0 + n for n, (name, array) in enumerate(weights.items())}

def of_rows(weight):
    print("a line")
    return abs(weight) / abs(weight).mean(axis=1, keepdims=True)

def first(estimator, X, y):
    return float(y[0])

upside_down = make_scorer(accuracy_score, greater_is_better=False)

def two(labels, predictions):
    return 0.0

class Random(ClassifierMixin, BaseEstimator):
    def fit(self, features, labels):
        self.classes_ = np.unique(labels)
        return self

    def predict(self, features):
        return np.array([random.choice([0, 1]) for _ in range(np.shape(features)[0])])

def lucky():
    return Random()

class Reversed(GaussianNB):
    def predict_proba(self, features):
        return super().predict_proba(features)[:, ::-1]

class WithOneMore(GaussianNB):
    def predict_proba(self, features):
        return np.pad(super().predict_proba(features), [(0, 0), (0, 1)])

class Doubled(GaussianNB):
    def predict_proba(self, features):
        return 2 * super().predict_proba(features)

class Unbounded(DummyRegressor):
    def predict(self, features):
        return super().predict(features) + np.inf

def reduced():
    return make_pipeline(PCA(30), GaussianNB())

names = make_scorer(lambda labels, predicted: float((predicted == "good").mean()))
relative = make_scorer(lambda labels, found: -(abs(labels - found) / labels).mean())

def of_model(model, features, labels=None):
    return (model.predict(features) == labels).mean()

def misspelled(wieght, gradiant, fischer):
    return wieght
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(CODE)
    return path


GOOD = [
    *("examples/my_models.py:make", "examples/my_metrics.py:cost", "random", "roc_auc"),
    *(
        pytest.param(place, marks=pytest.mark.nightly)
        for place in ("examples/my_rules.py:gem", "fisher", "sklearn.naive_bayes.ComplementNB")
    ),
]


@pytest.mark.parametrize("place", GOOD)
def test_code_of_the_pages_passes(place, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert cli.main(["check", place]) == 0
    assert "failed" not in capsys.readouterr().out


FAULTS = {
    "ratio": ("zeros, as in untrained biases", "that is not a finite number"),
    "equal": ("few equal scores", "% of the scores are equal, so the first entries win"),
    "chance": ("the same numbers twice", "they differ"),
    "hashes": ("the same numbers in a new process", "they differ"),
    "ordered": ("any order of the tensors", "the scores depend on the order of the tensors"),
    "first": ("any order of examples, numbers", " becomes "),
    "upside_down": ("two classes", "perfect predictions score -1, random ones -0."),
    "names": ("two classes", "perfect predictions score 0, random ones 0"),
    "lucky": ("the same numbers twice", "they differ"),
}


def find_result(place, name):
    """Return the result of a check, without those that follow it."""
    return next(check.result for check in check_code(place) if check.name == name)


@pytest.mark.parametrize(("name", "fault"), FAULTS.items(), ids=FAULTS)
def test_a_fault_is_found(name, fault, own):
    check, reason = fault
    result = find_result(f"{own}:{name}", check)
    assert result.startswith("failed: ")
    assert reason in result


def test_a_fault_is_an_exit_status(own, capsys):
    assert cli.main(["check", f"{own}:upside_down"]) == 1
    assert capsys.readouterr().err == f"{own}:upside_down: not all checks passed\n"


def test_a_rule_may_be_for_matrices_only_and_print(own):
    found = dict(check_code(f"{own}:of_rows"))
    assert found["any order of the tensors"].startswith("skipped: ")
    # A matrix 3072 × 768 in float64 has 19 MB, of which the rule makes several.
    assert 19 < float(found["time and memory"].split()[4]) < 200
    assert found.pop("vectors").startswith("not possible: ")
    assert found["zeros, as in untrained biases"] == "skipped"
    assert not [result for result in found.values() if result.startswith("failed")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("WithOneMore", "`predict_proba` returned an array of shape (200, 3), expected (200, 2)"),
        ("Doubled", "`predict_proba` returned a row whose sum is not 1"),
        ("Reversed", "`predict` and `predict_proba` name different classes in 100% of the rows"),
        ("Unbounded", "a prediction is not a finite number"),
    ],
)
def test_predictions_that_a_run_refuses_are_refused(name, reason, own):
    found = dict(check_code(f"{own}:{name}"))
    assert reason in found["reads: embeddings"]
    assert found["fit and predict"] == "failed: with none of the inputs"


def test_estimators_may_need_a_table_of_usual_size(own):
    assert find_result(f"{own}:reduced", "reads: embeddings") == "passed"


def test_an_estimator_says_what_it_can_read():
    found = dict(check_code("sklearn.naive_bayes.ComplementNB"))
    assert found["reads: tf-idf"] == "passed"
    assert found["reads: embeddings"].startswith("not possible: ValueError: Negative values")
    assert found["probabilities"] == "passed: from predict_proba"
    assert not [result for result in found.values() if result.startswith("failed")]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("{own}:two", "found arguments labels, predictions; expected those of a ranking"),
        ("{own}:tow", "did you mean 'two'?"),
        ("config.yaml", "to check a configuration, use `subtune plan config.yaml`"),
        ("nowhere.py:two", "cannot import nowhere.py: no such file"),
        ("sklearn.foo.Bar", "cannot import sklearn.foo: ModuleNotFoundError"),
        ("gem ", "gem : no paper, ranking or metric has this name, and there is no such folder"),
    ],
)
def test_what_cannot_be_imported_gets_one_line(place, message, own, capsys):
    assert cli.main(["check", place.format(own=own)]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_ranking_of_a_package_is_checked_by_its_name(monkeypatch):
    monkeypatch.setattr(code_checks, "find_entry_points", lambda *_: {"relative": "my:relative"})
    assert find_kind("relative") == "ranking"


def test_a_metric_may_divide_by_the_labels(own):
    assert find_result(f"{own}:relative", "numbers") == "passed"


def test_the_arguments_say_what_code_is_for(own):
    kinds = {name: find_kind(f"{own}:{name}") for name in ("ratio", "first", "of_model", "lucky")}
    assert [*kinds.values()] == ["ranking", "metric", "metric", "baseline"]
    for name in ("two", "misspelled"):
        with pytest.raises(SubtuneError, match="expected those of a ranking"):
            find_kind(f"{own}:{name}")
