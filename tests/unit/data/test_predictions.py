"""Files with predictions of a task's rows."""

import numpy as np
import pytest

from subtune.data.predictions import read_external_predictions
from subtune.tasks import Task
from tests.helpers.messages import refused

SENTIMENT = Task(
    name="mine", title="mine", text=("text",), labels=("bad", "good"), metrics=("accuracy",)
)
SCORES = Task(name="mine", title="mine", text=("text",), metrics=("pearsonr",))
TOPICS = SENTIMENT.replace(kind="multilabel", metrics=("f1_micro",))


def read(tmp_path, task, text, label="bad", rows=None):
    """The predictions in the text of a file, for as many rows, which have the same label."""
    lines = text.count("\n") - 1 if rows is None else rows
    (tmp_path / "rows.csv").write_text("text,label\n" + f"a,{label}\n" * lines)
    path = tmp_path / "gpt.csv"
    path.write_text(text)
    return read_external_predictions(task, tmp_path / "rows.csv", {"gpt": str(path)})["gpt"]


def test_numbers_are_read(tmp_path):
    found = read(tmp_path, SCORES, 'row,prediction\n1,2.5\n2,"-3,5"\n', "1")
    assert found.tolist() == [[2.5], [-3.5]]


@pytest.mark.parametrize(
    "text",
    [
        "row,prediction\n1,bad;good\n2,\n",
        "row,p_bad,p_good\n1,0.7,0.6\n2,0.1,0.5\n",
    ],
)
def test_any_number_of_labels_is_predicted(text, tmp_path):
    found = read(tmp_path, TOPICS, text)
    assert (found > 0).tolist() == [[True, True], [False, False]]


def test_a_row_that_has_no_label_has_no_prediction(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "a text,good\n" * 200 + "no label,\nlast,bad\n")
    path = tmp_path / "gpt.csv"
    path.write_text("prediction\n" + "bad\n" * 200 + "good\n")
    found = read_external_predictions(SENTIMENT, rows, {"gpt": str(path)})["gpt"]
    assert np.array_equal(found.argmax(1), [0] * 200 + [1])


@pytest.mark.parametrize(
    ("task", "columns", "cells", "found"),
    [
        (SENTIMENT, "prediction", "great", "prediction: found 'great', expected one of bad, good"),
        # Nobody sees which class a number means.
        (SENTIMENT, "prediction", "1", "prediction: found '1'"),
        (SENTIMENT, "prediction", "0.7", "prediction: found '0.7'"),
        (SENTIMENT, "prediction", "", "prediction: found an empty cell"),
        (SENTIMENT, "p_bad,p_good", "0.7,nan", "p_good: found 'nan', expected a probability"),
        (SENTIMENT, "p_bad,p_good", "0.7,70", "p_good: found '70', expected a probability"),
        (SCORES, "prediction", "good", "label: found 'good', expected a number"),
        (SCORES, "prediction", "", "prediction: found an empty cell"),
        (TOPICS, "prediction", "good;nice", "prediction: found 'nice'"),
    ],
)
def test_a_row_without_a_prediction_of_the_task_is_refused_with_its_line(
    task, columns, cells, found, tmp_path
):
    label = "good" if task.labels else "1.5"
    right = "0.5,0.5" if "," in columns else label
    with refused(f"{tmp_path / 'gpt.csv'}: line 3: ", found):
        read(tmp_path, task, f"row,{columns}\n1,{right}\n2,{cells}\n", label)


def test_an_empty_row_lacks_a_prediction_unless_there_are_rows_enough(tmp_path):
    with refused(f"{tmp_path / 'gpt.csv'}: line 2: ", "prediction: found an empty cell"):
        read(tmp_path, SENTIMENT, "prediction\n\nbad\n", rows=2)
    for text in ("\nbad\n\n\ngood\n", "bad\ngood\n\n\n", "bad\n\ngood\n"):
        found = read(tmp_path, SENTIMENT, f"prediction\n{text}", rows=2)
        assert found.argmax(1).tolist() == [0, 1]


def test_as_many_predictions_as_labelled_rows_are_expected(tmp_path):
    with refused(f"{tmp_path / 'gpt.csv'}: ", "found 1 rows, expected 2, one for each labelled"):
        read(tmp_path, SENTIMENT, "prediction\nbad\n", rows=2)
