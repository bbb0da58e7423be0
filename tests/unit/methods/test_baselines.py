"""Estimators of scikit-learn in a configuration, in a plan and in a call."""

import importlib
import json

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from subtune.core.errors import SubtuneError
from subtune.methods import SELECTION
from subtune.methods.baselines import (
    Estimator,
    describe_baselines,
    describe_estimator,
    make_estimator,
)
from tests.helpers.plans import plan

FOREST = "sklearn.ensemble.RandomForestClassifier"
TREES = {"estimator": FOREST, "reads": "embeddings"}
OF_FILE = "from sklearn.naive_bayes import ComplementNB\n\ndef make():\n    return ComplementNB()\n"
NO_ESTIMATORS = """
def give_class():
    return ComplementNB

class Plain:
    def fit(self, features, labels): ...
    def predict(self, features): ...
    def get_params(self): ...
"""


def plan_baseline(settings, tasks=("sst2",), **experiment):
    """Plan one baseline `own` beside full fine-tuning; return its runs."""
    methods = {"full": [1e-5], "own": None}
    given = {"tasks": [*tasks], "methods": methods, "fractions": None, "seeds": [0, 1, 2]}
    made = plan({"baselines": {"own": settings}}, **given | experiment)
    return [run for run in made.experiments["layernorm"] if run.method == "own"]


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_models.py"
    path.write_text(OF_FILE)
    return path


def test_each_seed_of_a_run_is_the_random_state_unless_it_is_fitted_once():
    assert [run.spec.seed for run in plan_baseline(TREES)] == [0, 1, 2]
    assert [run.spec.seed for run in plan_baseline(TREES | {"seeded": False})] == [0, 0, 0]


def test_a_change_of_the_file_is_another_run_and_a_moved_file_is_too(models):
    settings = {"estimator": "my_models.py:make", "reads": "tf-idf"}
    first = [run.key for run in plan_baseline(settings)]
    assert [run.key for run in plan_baseline(settings)] == first
    models.write_text(f"{OF_FILE}# A comment.\n")
    assert {run.key for run in plan_baseline(settings)}.isdisjoint(first)
    models.write_text(OF_FILE)
    models.rename("moved.py")
    moved = plan_baseline(settings | {"estimator": "moved.py:make"})
    assert {run.key for run in moved}.isdisjoint(first)


def test_one_estimator_is_for_classes_and_one_for_numbers():
    pair = [FOREST, "sklearn.ensemble.RandomForestRegressor"]
    runs = plan_baseline(TREES | {"estimator": pair}, tasks=["sst2", "stsb"])
    assert {run.task_name for run in runs} == {"sst2", "stsb"}
    with pytest.raises(SubtuneError) as caught:
        plan_baseline(TREES, tasks=["sst2", "stsb"])
    assert str(caught.value) == (
        f"baselines.own.estimator: {FOREST}: found RandomForestClassifier, expected an estimator "
        "that predicts numbers; a list of two has one for classes, and one for numbers"
    )


PROBLEMS = {
    "a missing file": ({"estimator": "m.py:make"}, "estimator: cannot import m.py: no such file"),
    "an unknown class": ({"estimator": f"{FOREST}s"}, "(did you mean 'RandomForestClassifier'?)"),
    "a class": ({"estimator": "my_models.py:give_class"}, "my_models.py:give_class: "),
    "no estimator": ({"estimator": "my_models.py:Plain"}, "my_models.py:Plain: "),
    "an unknown setting": ({"settings": {"trees": 3}}, "unexpected keyword argument 'trees'"),
    "an unknown input": ({"reads": "words"}, "reads: found 'words', expected "),
    "no input": ({"reads": None}, "reads: found None, expected "),
    "three estimators": ({"estimator": [FOREST] * 3}, "expected one estimator, or two: for "),
    "a setting without JSON": ({"settings": {"a": {1, 2}}}, "settings: expected strings, finite "),
}


@pytest.mark.parametrize(("changes", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_mistake_is_named_before_anything_is_trained(changes, message, models):
    models.write_text(OF_FILE + NO_ESTIMATORS)
    with pytest.raises(SubtuneError) as caught:
        plan_baseline(TREES | changes)
    assert str(caught.value).startswith("baselines.own.")
    assert message in str(caught.value)


def test_a_name_of_a_baseline_is_free():
    for name, selections in (("full", {}), ("own", {"own": {"parameters": ["**"]}})):
        with pytest.raises(SubtuneError, match=f"baselines.{name}: th"):
            plan({"baselines": {name: TREES}, "selections": selections})


def test_an_estimator_has_the_same_id_in_all_notations():
    written = Estimator(estimator=FOREST, reads="texts", settings={"b": 1, "a": None})
    again = SELECTION.validate_python(written.json_types)
    assert again == written
    assert again.id == Estimator.model_validate(written.json_types | {"estimator": [FOREST]}).id
    assert written.arguments == {"a": None, "b": 1}


def test_an_estimator_of_a_call_is_described_by_its_class_and_changed_settings():
    found = describe_estimator(RandomForestClassifier(n_estimators=7, max_depth=3))
    changed = {"n_estimators": 7, "max_depth": 3}
    assert found == TREES | {"estimator": [FOREST], "settings": changed}
    assert describe_estimator(KNeighborsRegressor()) == {
        "estimator": ["sklearn.neighbors.KNeighborsRegressor"],
        "reads": "embeddings",
    }


@pytest.mark.parametrize(
    "estimator",
    [make_pipeline(StandardScaler(), LogisticRegression()), "forest", None],
)
def test_an_estimator_that_no_configuration_can_describe_is_refused(estimator):
    with pytest.raises(SubtuneError, match="cannot be written to a configuration; write a functi"):
        describe_estimator(estimator)


def test_a_class_of_a_file_is_described_by_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "shelf_models.py"
    path.write_text(
        "from sklearn.linear_model import LogisticRegression\n"
        "class Own(LogisticRegression):\n    pass\n"
    )
    module = importlib.import_module("shelf_models")
    found = describe_estimator(module.Own(C=2))
    assert found == {
        "estimator": [f"{path}:Own"],
        "reads": "embeddings",
        "settings": {"C": 2},
    }
    # Without the file, a change of its code would go unnoticed.
    with pytest.raises(SubtuneError, match="is not installed; write shelf_models:Own, so that"):
        make_estimator(Estimator(estimator="shelf_models.Own", reads="texts"), False, None)


GIVEN = {
    "a list": ([LogisticRegression()], "expected a mapping from names to estimators"),
    "a class": ({"a": LogisticRegression}, "expected an estimator such as LogisticRegression()"),
    "no input": ({"a": {"estimator": FOREST}}, "a: reads: missing, expected a value"),
}


@pytest.mark.parametrize(("given", "message"), GIVEN.values(), ids=GIVEN)
def test_baselines_of_a_call_that_cannot_be_used_get_one_line(given, message):
    with pytest.raises(SubtuneError) as caught:
        describe_baselines(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_call_has_the_same_baselines_after_they_were_written():
    given = {
        "a": RandomForestClassifier(max_samples=0.5),
        "b": TREES | {"settings": {"x": (1, 2)}},
        "c": {"estimator": RandomForestClassifier(max_depth=2), "reads": "tf-idf"},
    }
    found = describe_baselines(given)
    assert json.loads(json.dumps(found)) == found
    assert found["c"] == {"estimator": [FOREST], "reads": "tf-idf", "settings": {"max_depth": 2}}


def test_a_class_is_no_estimator():
    with pytest.raises(SubtuneError, match=r"expected an estimator such as RandomForestClassifi"):
        describe_estimator(RandomForestClassifier)


def test_given_random_states_stay():
    given = Estimator(estimator=FOREST, reads="texts", settings={"random_state": 5})
    assert make_estimator(given, False, 1).random_state == 5
    assert make_estimator(given.replace(settings=()), False, 1).random_state == 1
