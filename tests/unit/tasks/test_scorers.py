"""Scorers of scikit-learn as metrics, compared with the functions that they are made from."""

import math

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from scipy.special import softmax
from sklearn import metrics as sklearn_metrics

from subtune.analysis.judged_epochs import make_masked_metric
from subtune.config.checks import check_config
from subtune.core.errors import SubtuneError
from subtune.steps.context import plan_and_check
from subtune.tasks import TaskSpec
from subtune.tasks.metrics import metric_title
from subtune.tasks.scorers import check_scorer, compute_score
from tests.helpers import examples
from tests.helpers.plans import BASE, own_task, plan

RNG = np.random.default_rng(0)
LABELS, LOGITS = RNG.integers(2, size=50), RNG.normal(size=(50, 2))
CHANCES = softmax(LOGITS, axis=1)
CLASSES, OF_CLASSES = RNG.integers(3, size=50), RNG.normal(size=(50, 3))
NUMBERS, PREDICTED = RNG.normal(size=50), RNG.normal(size=(50, 1))
EXPECTED = {
    "roc_auc": (LOGITS, LABELS, sklearn_metrics.roc_auc_score(LABELS, CHANCES[:, 1])),
    "average_precision": (
        *(LOGITS, LABELS),
        sklearn_metrics.average_precision_score(LABELS, CHANCES[:, 1]),
    ),
    "neg_log_loss": (LOGITS, LABELS, -sklearn_metrics.log_loss(LABELS, CHANCES)),
    "neg_brier_score": (LOGITS, LABELS, -sklearn_metrics.brier_score_loss(LABELS, CHANCES[:, 1])),
    "balanced_accuracy": (
        *(OF_CLASSES, CLASSES),
        sklearn_metrics.balanced_accuracy_score(CLASSES, OF_CLASSES.argmax(1)),
    ),
    "roc_auc_ovr": (
        *(OF_CLASSES, CLASSES),
        sklearn_metrics.roc_auc_score(CLASSES, softmax(OF_CLASSES, axis=1), multi_class="ovr"),
    ),
    "neg_mean_absolute_error": (PREDICTED, NUMBERS, -np.abs(NUMBERS - PREDICTED[:, 0]).mean()),
    "r2": (PREDICTED, NUMBERS, sklearn_metrics.r2_score(NUMBERS, PREDICTED[:, 0])),
}
OWN = """
import numpy
from sklearn.metrics import cohen_kappa_score, make_scorer

def cost(labels, predictions):
    return (10 * ((labels == 1) & (predictions == 0)) + (labels < predictions)).mean()

kappa = make_scorer(cohen_kappa_score, weights="quadratic")
cheap = make_scorer(cost, greater_is_better=False)
error = make_scorer(cost)
broken = make_scorer(lambda labels, predictions: 1 / 0)
nothing = make_scorer(lambda labels, predictions: float("nan"))
alike = make_scorer(lambda labels, found: numpy.corrcoef(labels, found)[0, 1])
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file with the user's own scorers, in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_metrics.py"
    path.write_text(OWN)
    return path


def plan_task(folder, **changes):
    """Plan a task of the user's own with other metrics."""
    tasks = {"mood": own_task(folder, **changes)}
    return plan({"tasks": tasks}, tasks=["mood"], fractions=None)


@pytest.mark.parametrize(
    ("name", "logits", "labels", "expected"),
    [(name, *case) for name, case in EXPECTED.items()],
    ids=EXPECTED,
)
def test_a_score_is_that_of_the_function(name, logits, labels, expected):
    assert compute_score(name, logits, labels) == pytest.approx(expected)


def test_a_scorer_of_a_file_has_its_own_direction(own):
    predicted = LOGITS.argmax(1)
    kappa = sklearn_metrics.cohen_kappa_score(LABELS, predicted, weights="quadratic")
    assert compute_score(f"{own}:kappa", LOGITS, LABELS) == pytest.approx(kappa)
    missed, false = (predicted < LABELS).mean(), (predicted > LABELS).mean()
    assert compute_score(f"{own}:cheap", LOGITS, LABELS) == pytest.approx(-10 * missed - false)


def test_the_log_loss_of_examples_without_some_class_is_defined():
    some = CLASSES != 2
    found = compute_score("neg_log_loss", OF_CLASSES[some], CLASSES[some])
    chances = softmax(OF_CLASSES[some], axis=1)
    assert found == pytest.approx(np.log(chances[range(some.sum()), CLASSES[some]]).mean())


def test_a_score_that_is_undefined_is_named_and_without_some_examples_unknown():
    with pytest.raises(SubtuneError, match="roc_auc: "):
        compute_score("roc_auc", LOGITS, np.ones(50, int))
    task = examples.TASKS["sst2"].spec().replace(metrics=("roc_auc",))
    table = pd.DataFrame({"idx": range(50), "label": LABELS, "logit_0": LOGITS[:, 0]})
    score = make_masked_metric(task, "roc_auc", table.assign(logit_1=LOGITS[:, 1]))
    assert math.isnan(score(LABELS == 1))


def test_a_class_without_examples_is_named():
    with pytest.raises(SubtuneError, match="found nan for 50 examples, none of them of class 0, "):
        compute_score("roc_auc", LOGITS, np.ones(50, int))


def test_the_score_of_some_examples_is_that_of_their_logits():
    task = examples.TASKS["sst2"].spec().replace(metrics=("roc_auc", "accuracy"))
    table = pd.DataFrame({"idx": range(50), "label": LABELS, "logit_0": LOGITS[:, 0]})
    table = table.assign(logit_1=LOGITS[:, 1])
    mask = np.arange(50) % 3 > 0
    score = make_masked_metric(task, "roc_auc", table)
    assert score() == pytest.approx(EXPECTED["roc_auc"][2])
    expected = sklearn_metrics.roc_auc_score(LABELS[mask], CHANCES[mask, 1])
    assert score(mask) == pytest.approx(expected)
    assert task.of_kind.score(task, table) == {
        "roc_auc": score(),
        "accuracy": (LOGITS.argmax(1) == LABELS).mean(),
    }


PROBLEMS = {
    "my_metrics.py:cost": "found a function without a direction, expected a scorer, such as make_",
    "my_metrics.py:cots": "found 'cots', expected one of ",
    "my_metrics.py:broken": "my_metrics.py:broken: line 11: ZeroDivisionError: division by zero",
    "my_metrics.py:nothing": "my_metrics.py:nothing: found nan for 8 examples, expected a number",
    "my_metrics.py:alike": "expected a number, if all predictions are equal; a correlation",
    "metrics.py:cost": "cannot import metrics.py: no such file",
    "my_metrics.py:error": "perfect predictions score 0, random ones 1.38",
    "sklearn.metrics:accuracy_score": "found a function without a direction, expected a scorer",
    "roc_acu": "or a scorer of scikit-learn, such as roc_auc (did you mean 'roc_auc'?)",
    "balanced_acuracy": "did you mean 'balanced_accuracy'?",
    "log_loss": "did you mean 'neg_log_loss'?",
    "rmse": "or a scorer of scikit-learn, such as roc_auc",
}


@pytest.mark.parametrize(("name", "message"), PROBLEMS.items(), ids=PROBLEMS)
def test_a_metric_that_cannot_be_used_is_named_before_anything_is_trained(name, message, own):
    with pytest.raises(SubtuneError) as caught:
        plan_task(own.parent, metrics=[name])
    assert str(caught.value).startswith("tasks.mood.metrics")
    assert message in str(caught.value)


def test_only_metrics_of_the_tasks_kind_are_proposed(own):
    rows = "".join(f"text {n},{n}\n" for n in range(8))
    with pytest.raises(SubtuneError, match="expected one of pearsonr, spearmanr, or a scorer of"):
        plan_task(own.parent, train=rows, kind="regression", labels=None, metrics=["acuracy"])


@pytest.mark.parametrize(("positive", "folds"), [(5, 5), (4, None)])
def test_searches_are_scored_on_folds_with_each_label(positive, folds, tmp_path):
    rows = "".join(f"text {n},{'ab'[n < positive]}\n" for n in range(50))
    tasks = {"mood": own_task(tmp_path, rows, metrics=["accuracy", "roc_auc"])}
    settings = {"tasks": ["mood"], "methods": {"full": "search"}, "fractions": None}
    [run] = plan({"tasks": tasks}, **settings).experiments["layernorm"]
    fold = run.search.run.recipe.fold
    assert (fold.of if fold else None) == folds


def test_a_fold_without_a_label_that_a_scorer_needs_is_named_in_the_plan(tmp_path):
    rows = "".join(f"text {n},{'ab'[n < 2]}\n" for n in range(30))
    tasks = {"mood": own_task(tmp_path, rows, splits=("train",), metrics=["roc_auc"])}
    settings = {"tasks": ["mood"], "fractions": None, "folds": 3, "seeds": [0, 1, 2]}
    message = r"task 'mood': fold . of 3: roc_auc: .*, none of them of class 1, .*fewer folds"
    with pytest.raises(SubtuneError, match=message):
        plan({"tasks": tasks}, **settings)
    tasks["mood"]["metrics"] = ["balanced_accuracy"]
    assert plan({"tasks": tasks}, **settings).runs


def test_folds_of_numbers_need_no_class_weights(tmp_path):
    rows = "".join(f"text {n},{n}.5\n" for n in range(30))
    changes = {"kind": "regression", "labels": None, "metrics": ["neg_mean_absolute_error"]}
    tasks = {"mood": own_task(tmp_path, rows, splits=("train",), **changes)}
    settings = {"tasks": ["mood"], "fractions": None, "folds": 3, "seeds": [0, 1, 2]}
    assert plan({"tasks": tasks}, class_weights="balanced", **settings).runs


@pytest.mark.parametrize("kind", ["tokens", "span", "multilabel"])
def test_only_classification_and_regression_have_scorers(kind):
    task = {"tokens": "ud_ewt", "span": "squad", "multilabel": "toxic"}[kind]
    with pytest.raises(ValidationError, match=f"expected metrics for '{kind}' tasks"):
        examples.TASKS[task].spec().replace(metrics=("roc_auc",))


def test_a_change_of_the_file_is_another_task_and_built_in_metrics_have_no_code(own):
    keys = {}
    for metric in ("my_metrics.py:kappa", "accuracy"):
        made = plan_task(own.parent, metrics=[metric])
        own.write_text(f"{OWN}# A comment.\n")
        keys[metric] = made.runs.keys() & plan_task(own.parent, metrics=[metric]).runs.keys()
        own.write_text(OWN)
    assert not keys["my_metrics.py:kappa"]
    assert keys["accuracy"]


def test_code_that_has_changed_since_the_plan_scores_nothing(own):
    task = examples.TASKS["sst2"].replace(metrics=("my_metrics.py:kappa",)).spec()
    table = pd.DataFrame({"idx": range(50), "label": LABELS, "logit_0": LOGITS[:, 0]})
    table = table.assign(logit_1=LOGITS[:, 1])
    assert [*task.of_kind.score(task, table)] == ["my_metrics.py:kappa"]
    own.write_text(OWN.replace("quadratic", "linear"))
    with pytest.raises(SubtuneError, match="has changed since the run was planned"):
        task.of_kind.score(task, table)


def test_a_plan_of_a_changed_file_uses_it_in_a_process_that_has_imported_the_former_one(own):
    for unit in ("10", "20"):
        own.write_text(OWN.replace("10", unit))
        task = examples.TASKS["sst2"].replace(metrics=("my_metrics.py:cheap",)).spec()
        table = pd.DataFrame({"idx": range(50), "label": LABELS, "logit_0": LOGITS[:, 0]})
        [score] = task.of_kind.score(task, table.assign(logit_1=LOGITS[:, 1])).values()
        missed, false = (LOGITS.argmax(1) < LABELS).mean(), (LOGITS.argmax(1) > LABELS).mean()
        assert score == pytest.approx(-float(unit) * missed - false)


def test_records_of_runs_can_be_read_without_the_file(own):
    task = examples.TASKS["sst2"].replace(metrics=("my_metrics.py:kappa",)).spec()
    own.unlink()
    assert TaskSpec.model_validate(task.json_types) == task


def test_the_unit_of_the_usual_margin_is_said(own):
    tasks = {"mood": own_task(own.parent, metrics=["my_metrics.py:kappa"])}
    experiment = BASE["experiments"]["layernorm"] | {"tasks": ["mood"], "fractions": None}
    line = "experiments.layernorm: the margin is 0.02 in my_metrics.py:kappa"
    for margin, notes in (({}, [line]), ({"margin": 0.1}, [])):
        config = BASE | {"tasks": tasks, "experiments": {"layernorm": experiment | margin}}
        found = plan_and_check(check_config(config)).notes
        assert [note for note in found if "margin" in note] == notes


def test_only_the_margin_of_a_scorer_may_be_larger_than_one():
    folder = {"files": {"train": "a.csv"}, "text": ["a"], "label": "b"}
    for metric, is_allowed in (("neg_mean_absolute_error", True), ("pearsonr", False)):
        tasks = {"mood": folder | {"metrics": [metric]}}
        experiment = BASE["experiments"]["layernorm"] | {"tasks": ["mood"], "margin": 5}
        experiment["fractions"] = None
        config = BASE | {"tasks": tasks, "experiments": {"layernorm": experiment}}
        if is_allowed:
            assert check_config(config).experiments["layernorm"].margin == 5
            continue
        with pytest.raises(SubtuneError, match=r"margin: found 5, expected less than 1"):
            check_config(config)


def test_titles_are_words():
    assert metric_title("roc_auc_ovr") == "ROC AUC ovr"
    assert metric_title("neg_mean_absolute_error") == "negative mean absolute error"
    assert metric_title("my_metrics.py:cost") == "cost"
    assert metric_title("f1_macro") == "macro F1"


def test_a_scorer_may_divide_by_the_labels(own):
    own.write_text(
        f"{OWN}\nrelative = make_scorer(lambda labels, predictions: "
        "(abs(labels - predictions) / labels).mean(), greater_is_better=False)\n"
    )
    check_scorer(f"{own}:relative", 1)
    with pytest.raises(SubtuneError, match="found -inf"):
        compute_score(f"{own}:relative", PREDICTED, np.zeros(50))


def test_a_scorer_of_numbers_needs_no_classes():
    check_scorer("neg_median_absolute_error", outputs=1)
    with pytest.raises(SubtuneError, match="roc_auc: "):
        check_scorer("roc_auc", outputs=1)
