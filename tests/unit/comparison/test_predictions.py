"""Predictions that are passed to `compare`."""

import pandas as pd
import pytest

from subtune.comparison.predictions import check_predictions, list_predictions
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import pair_with_places
from tests.helpers.messages import refused

ROWS = [
    ("line 2", {"text": "a", "label": "bad", "old": "good", "p_bad": "0.1", "p_good": "0.9"}),
    ("line 3", {"text": "b", "label": "good", "old": "good", "p_bad": "0.2", "p_good": "0.8"}),
]
CLASSES = TaskSpec(name="mine", text=("text",), labels=("bad", "good"), metrics=("accuracy",))
NUMBERS = TaskSpec(name="mine", text=("text",), kind="regression", metrics=("pearsonr",))


def checked(given, task=CLASSES):
    return check_predictions(given, ROWS, task)


def test_a_column_of_the_table_is_a_system():
    assert checked("old") == ("old", [{"prediction": "good"}, {"prediction": "good"}])


def test_columns_of_the_table_are_probabilities_in_the_order_of_the_labels():
    found = checked("p_bad,p_good")
    assert found.system == "p_bad-p_good"
    assert found.rows[0] == {"bad": "0.1", "good": "0.9"}


def test_a_label_that_is_a_usual_name_has_a_column_of_its_own(tmp_path):
    path = tmp_path / "gpt.csv"
    path.write_text("answer,question\n0.1,0.9\n0.8,0.2\n")
    task = CLASSES.replace(labels=("question", "answer"))
    assert checked(path, task).rows[0] == {"question": "0.9", "answer": "0.1"}


@pytest.mark.parametrize(
    "text",
    [
        "prediction\ngood\nbad\n",
        "label\ngood\nbad\n",
        "verdict\ngood\nbad\n",
        "id,Prediction,label\n1,good,bad\n2,bad,bad\n",
    ],
)
def test_a_file_has_a_usual_column_or_a_single_one(text, tmp_path):
    path = tmp_path / "gpt 4.csv"
    path.write_text(text)
    assert checked(path) == ("gpt-4", [{"prediction": "good"}, {"prediction": "bad"}])


@pytest.mark.parametrize("before", ["", "p_", "probability_"])
def test_a_file_may_have_a_column_for_each_label(before, tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(f"{before}good,{before}bad\n0.9,0.1\n0.2,0.8\n")
    first, second = checked(str(path)).rows
    assert first == {"bad": "0.1", "good": "0.9"}
    assert [*second.values()] == ["0.8", "0.2"]


@pytest.mark.parametrize("given", [[1.5, 2.0], pd.Series([1.5, 2.0], index=[7, 3], name="mine")])
def test_numbers_in_memory_are_taken_in_their_order(given):
    system, rows = checked(given, NUMBERS)
    assert system == getattr(given, "name", "predictions")
    assert rows == [{"prediction": "1.5"}, {"prediction": "2"}]


@pytest.mark.parametrize(
    ("text", "task", "place", "found"),
    [
        ("prediction\ngood\n", CLASSES, "", "found 1 rows, expected 2, one for each row"),
        ("prediction\ngood\nfine\n", CLASSES, "line 3: prediction: ", "found 'fine', expected one"),
        ("prediction\ngood\n0.3\n", CLASSES, "line 3: prediction: ", "found '0.3', expected one"),
        ("a,prediction\n1,good\n1,\n", CLASSES, "line 3: prediction: ", "found an empty cell"),
        ("score\n1\ngood\n", NUMBERS, "line 3: label: ", "expected a number"),
        ("a,b\ngood,bad\ngood,bad\n", CLASSES, "", "found columns a, b, expected one named"),
    ],
)
def test_predictions_that_do_not_fit_the_rows_are_refused_with_their_line(
    text, task, place, found, tmp_path
):
    path = tmp_path / "gpt.csv"
    path.write_text(text)
    with refused(f"{path}: {place}", found):
        checked(path, task)


def test_a_missing_file_is_refused():
    with refused("--predictions: ", "found 'gtp.csv', expected a file or a column"):
        checked("gtp.csv")


def test_a_system_has_not_the_name_of_a_method_or_of_another_system(tmp_path):
    assert checked(pd.Series(["bad", "good"], name="full")).system == "full-predictions"
    rows = [*pair_with_places([{"text": "a", "gpt": "bad"}])]
    assert check_predictions("gpt", rows, CLASSES, taken=["gpt"]).system == "gpt-predictions"


def test_each_word_of_the_option_is_a_system():
    assert list_predictions(["gpt", "p_bad,p_good"], ["gpt", "p_bad", "p_good"]) == [
        "gpt",
        "p_bad,p_good",
    ]
    assert list_predictions(["bad", "good"], ["gpt"]) == [["bad", "good"]]
