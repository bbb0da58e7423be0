"""Predictions that are passed to `compare`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest

from subtune.comparison.predictions import check_predictions, split_predictions
from subtune.comparison.user_table import UserTable
from subtune.data.predictions import parse_predictions
from subtune.tasks import TaskSpec
from subtune.tasks.task_kind import pair_with_places
from tests.helpers.messages import refused

ROWS = [
    ("line 2", {"text": "a", "label": "bad", "old": "good", "p_bad": "0.1", "p_good": "0.9"}),
    ("line 3", {"text": "b", "label": "good", "old": "good", "p_bad": "0.2", "p_good": "0.8"}),
]
CLASSES = TaskSpec(name="mine", text=("text",), labels=("bad", "good"), metrics=("accuracy",))
NUMBERS = TaskSpec(name="mine", text=("text",), kind="regression", metrics=("pearsonr",))


TOPICS = CLASSES.replace(kind="multilabel", metrics=("f1_micro",))
TABLE = UserTable(Path("rows.csv"), (*ROWS[0][1],), ROWS)


def checked(given, task=CLASSES):
    return check_predictions(given, ROWS, task)


def systems(given, task=CLASSES):
    return split_predictions(given, TABLE, task)


def labels_read(given, task=CLASSES):
    """Return the labels of each row, after `split_predictions` has found a single system."""
    [(name, one)] = systems(given, task)
    rows = [*pair_with_places(check_predictions(one, ROWS, task, name=name)[1])]
    logits = parse_predictions(task, rows, [*rows[0][1]], "")
    return [
        [
            label
            for label, logit in zip(task.labels, row, strict=True)
            if (logit > 0 if task.kind == "multilabel" else logit == row.max())
        ]
        for row in logits
    ]


def test_a_column_of_the_table_is_a_system():
    assert checked("old") == ("old", [{"prediction": "good"}, {"prediction": "good"}])


def test_columns_of_the_table_are_probabilities_in_the_order_of_the_labels():
    system, rows = checked("p_bad,p_good")
    assert system == "p_bad-p_good"
    assert rows[0] == {"bad": "0.1", "good": "0.9"}


def test_probabilities_are_scored_as_they_are():
    _, rows = checked("p_bad,p_good")
    placed = [*pair_with_places([dict(row) for row in rows])]
    logits = parse_predictions(CLASSES, placed, ["bad", "good"], "")
    np.testing.assert_allclose(np.exp(logits[0]), [0.1, 0.9])


def test_a_label_that_is_a_usual_name_has_a_column_of_its_own(tmp_path):
    path = tmp_path / "gpt.csv"
    path.write_text("answer,question\n0.1,0.9\n0.8,0.2\n")
    task = CLASSES.replace(labels=("question", "answer"))
    _, rows = checked(path, task)
    assert rows[0] == {"question": "0.9", "answer": "0.1"}


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
    _, (first, second) = checked(str(path))
    assert first == {"bad": "0.1", "good": "0.9"}
    assert [*second.values()] == ["0.8", "0.2"]


@pytest.mark.parametrize("given", [[1.5, 2.0], pd.Series([1.5, 2.0], index=[7, 3], name="mine")])
def test_numbers_in_memory_are_taken_in_their_order(given):
    system, rows = checked(given, NUMBERS)
    assert system == getattr(given, "name", "predictions")
    assert rows == [{"prediction": "1.5"}, {"prediction": "2.0"}]


@pytest.mark.parametrize(
    ("text", "task", "place", "found"),
    [
        ("prediction\ngood\n", CLASSES, "", "found 1 rows, expected 2, one for each row"),
        ("prediction\ngood\nfine\n", CLASSES, "line 3: prediction: ", "found 'fine', expected one"),
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
    assert checked(pd.Series(["bad", "good"], name="full"))[0] == "full-predictions"
    rows = [*pair_with_places([{"text": "a", "gpt": "bad"}])]
    assert check_predictions("gpt", rows, CLASSES, taken=["gpt"])[0] == "gpt-predictions"


def test_each_word_of_the_option_is_a_system():
    assert systems(["old", "p_bad,p_good"]) == [(None, "old"), (None, "p_bad,p_good")]
    assert systems(["bad", "good"]) == [(None, ["bad", "good"])]


@pytest.mark.parametrize(
    "given",
    [
        ["good", "bad"],
        ("good", "bad"),
        np.array(["good", "bad"]),
        np.array(["good", "bad"], dtype=object),
        [np.str_("good"), "bad"],
        pd.Series(["good", "bad"], dtype="category"),
        pd.DataFrame({"prediction": ["good", "bad"]}),
        pyarrow.table({"prediction": ["good", "bad"]}),
        pyarrow.array(["good", "bad"]),
        {"gpt": ["good", "bad"]},
        {"bad": [0.1, 0.8], "good": [0.9, 0.2]},
        np.array([[0.1, 0.9], [0.8, 0.2]], dtype=np.float32),
        [[0.1, 0.9], [0.8, 0.2]],
        [np.array([0, 1]), np.array([1, 0])],
        [["good"], ["bad"]],
    ],
)
def test_predictions_in_memory_have_any_form(given):
    assert labels_read(given) == [["good"], ["bad"]]


@pytest.mark.parametrize(
    "given",
    [
        [["good", "bad"], []],
        [("good", "bad"), set()],
        [np.array(["good", "bad"]), np.array([])],
        pd.Series([["good", "bad"], None]),
        pd.Series(["good|bad", pd.NA]),
        pd.DataFrame({"prediction": ["good|bad", ""]}),
        np.array([[0.9, 0.7], [0.1, 0.2]]),
        np.array([[1, 1], [0, 0]]),
        [[0.9, 0.7], [0.1, 0.2]],
        {"gpt": [["good", "bad"], []]},
    ],
)
def test_predictions_of_several_labels_in_memory_have_any_form(given):
    assert labels_read(given, TOPICS) == [["bad", "good"], []]


@pytest.mark.parametrize("missing", [None, pd.NA, float("nan"), pd.NaT, ""])
def test_a_missing_prediction_in_memory_is_named(missing):
    with refused("--predictions: row 2: prediction: ", "found an empty cell"):
        checked(["good", missing])


@pytest.mark.parametrize("name", ["name", "features", "index"])
def test_a_column_may_have_the_name_of_an_attribute(name):
    frame = pd.DataFrame({name: ["x", "y"], "prediction": ["good", "bad"]})
    assert checked(frame) == ("predictions", [{"prediction": "good"}, {"prediction": "bad"}])


@pytest.mark.parametrize("dtype", ["int64", "float64", "bool", "Int64", "object", "category"])
def test_labels_are_numbers_or_booleans_of_any_type(dtype):
    labels = ("False", "True") if dtype == "bool" else ("0", "1")
    task = CLASSES.replace(labels=labels)
    for given in ([1, 0], [np.int64(1), np.int64(0)]):
        assert labels_read(pd.Series(given).astype(dtype), task) == [[labels[1]], [labels[0]]]
        assert labels_read(pd.Series(given).astype(dtype).to_numpy(), task)[0] == [labels[1]]


def test_a_dict_names_the_systems(capsys):
    given = {"gpt 4": ["good", "bad"], "old": [[0.1, 0.9], [0.8, 0.2]]}
    for name, one in systems(given):
        system, _ = check_predictions(one, ROWS, CLASSES, name=name)
        assert system == name.replace(" ", "-")
    assert capsys.readouterr().err.splitlines() == [
        "predictions gpt-4: column prediction of the given values",
        "predictions old: columns bad, good of the given values",
    ]
    assert len(systems([["good", "bad"], ["bad", "bad"], ["bad", "good"]])) == 3


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("text,label,gpt\na,bad,good\nb,good,bad\n", "column gpt"),
        ("text,stars,gpt\na,bad,good\nb,good,bad\n", "column gpt"),
        ("id,text,label,gpt\n1,a,bad,good\n2,b,good,bad\n", "column gpt"),
        ("score,output\nbad,good\ngood,bad\n", "column output"),
        ("label,prediction\nbad,good\ngood,bad\n", "column prediction"),
        ("label,answer\nbad,good\ngood,bad\n", "column answer"),
        ("bad,good,p_bad,p_good\n1,0,0.2,0.8\n0,1,0.9,0.1\n", "columns p_bad, p_good"),
        ("bad,good,gpt\n1,0,good\n0,1,bad\n", "column gpt"),
    ],
)
def test_labels_of_the_rows_are_not_predictions(tmp_path, capsys, text, columns):
    path = tmp_path / "gpt.csv"
    path.write_text(text)
    assert labels_read(path) == [["good"], ["bad"]]
    assert capsys.readouterr().err == f"predictions gpt: {columns} of {path}\n"


@pytest.mark.parametrize(
    "text",
    ["text,label\na,bad\nb,bad\n", "label\nbad\ngood\n", "id,label\n1,bad\n2,bad\n"],
)
def test_a_file_with_labels_alone_is_refused(tmp_path, text):
    (tmp_path / "gpt.csv").write_text(text)
    with refused(f"{tmp_path}/gpt.csv: found columns ", "are not predictions"):
        checked(tmp_path / "gpt.csv")


def test_predictions_in_the_order_of_other_rows_are_refused(tmp_path):
    (tmp_path / "gpt.csv").write_text("text,gpt\nb,bad\na,good\n")
    with refused(f"{tmp_path}/gpt.csv: column 'text' has the same cells", "in a different order"):
        checked(tmp_path / "gpt.csv")


@pytest.mark.parametrize("given", ["label", "text"])
def test_a_text_or_label_column_of_the_table_is_refused(given):
    with refused("--predictions: ", f"found {given}, a text or label column"):
        checked(given)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".parquet"])
def test_an_empty_prediction_of_several_labels_is_no_label(tmp_path, ending):
    rows = [("line", {"text": "a", "label": ""})] * 4
    frame = pd.DataFrame({"prediction": ["good", None, "bad", None]})
    path = tmp_path / f"gpt{ending}"
    if ending.startswith(".json"):
        frame.to_json(path, orient="records", lines=ending == ".jsonl")
    elif ending in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="," if ending == ".csv" else "\t")
    else:
        (frame.to_excel if ending == ".xlsx" else frame.to_parquet)(path, index=False)
    _, found = check_predictions(path, rows, TOPICS)
    assert [row["prediction"] for row in found] == ["good", None, "bad", None]


def test_an_empty_line_is_a_prediction_of_no_label_and_the_last_ones_may_be_more(tmp_path):
    (tmp_path / "gpt.csv").write_text("prediction\ngood\n\nbad\n\n\n")
    rows = [("line", {"text": "a", "label": "good"})] * 3
    _, found = check_predictions(tmp_path / "gpt.csv", rows, TOPICS)
    assert [row["prediction"] for row in found] == ["good", None, "bad"]
