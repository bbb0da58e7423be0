"""Predictions in columns of a task's file."""

import numpy as np
import pytest

from subtune.data.predictions import read_predictions
from subtune.tasks import Task
from tests.helpers.messages import refused

SENTIMENT = Task(
    name="mine", title="mine", text=("text",), labels=("bad", "good"), metrics=("accuracy",)
)
SCORES = Task(name="mine", title="mine", text=("text",), metrics=("pearsonr",))
TOPICS = SENTIMENT.replaced(kind="multilabel", metrics=("f1_micro",))


def read(tmp_path, task, text, *columns):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    return read_predictions(task, path, {"gpt": columns})["gpt"]


def test_labels_are_read(tmp_path):
    found = read(tmp_path, SENTIMENT, "text,label,gpt\na,good,bad\nb,bad,good \n", "gpt")
    assert found.argmax(1).tolist() == [0, 1]


def test_columns_of_probabilities_are_in_the_order_of_the_labels(tmp_path):
    text = "text,label,g,b\na,good,0.9,0.1\nb,bad,0.2,0.8\n"
    assert read(tmp_path, SENTIMENT, text, "b", "g").argmax(1).tolist() == [1, 0]


def test_numbers_are_read(tmp_path):
    found = read(tmp_path, SCORES, 'text,label,old\na,1,2.5\nb,2,"-3,5"\n', "old")
    assert found.tolist() == [[2.5], [-3.5]]


@pytest.mark.parametrize("columns", [["all"], ["p_bad", "p_good"]])
def test_any_number_of_labels_is_predicted(columns, tmp_path):
    text = "text,label,all,p_bad,p_good\na,good,bad;good,0.7,0.6\nb,bad,,0.1,0.5\n"
    assert (read(tmp_path, TOPICS, text, *columns) > 0).tolist() == [[True, True], [False, False]]


def test_rows_that_have_no_label_need_no_prediction(tmp_path):
    rows = "".join(f"text {number},good,bad\n" for number in range(200))
    found = read(tmp_path, SENTIMENT, f"text,label,gpt\n{rows}no label,,\nlast,bad,good\n", "gpt")
    assert np.array_equal(found.argmax(1), [0] * 200 + [1])


@pytest.mark.parametrize(
    ("task", "columns", "cells", "found"),
    [
        (SENTIMENT, ["gpt"], "great,1", "gpt: found 'great', expected one of bad, good"),
        # Nobody sees which class a number means.
        (SENTIMENT, ["gpt"], "1,1", "gpt: found '1'"),
        (SENTIMENT, ["gpt"], "0.7,1", "gpt: found '0.7'"),
        (SENTIMENT, ["gpt"], ",1", "gpt: found nothing"),
        (SENTIMENT, ["gpt", "p"], "0.7,nan", "p: found 'nan', expected a probability"),
        (SENTIMENT, ["gpt", "p"], "0.7,70", "p: found '70', expected a probability"),
        (SENTIMENT, ["gtp"], "bad,1", "no such column: found 'gtp'"),
        (SCORES, ["gpt"], "good,1", "label: found 'good', expected a number"),
        (SCORES, ["gpt"], ",1", "gpt: found nothing"),
        (TOPICS, ["gpt"], "good;nice,1", "gpt: found 'nice'"),
    ],
)
def test_a_row_without_a_prediction_of_the_task_is_refused_with_its_line(
    task, columns, cells, found, tmp_path
):
    label = "good" if task.labels else "1.5"
    good = {"gpt": "good" if task.labels else "2", "p": "0.5"}["gpt"]
    first = "0.5,0.5" if len(columns) > 1 else f"{good},0.5"
    text = f"text,label,gpt,p\na,{label},{first}\nb,{label},{cells}\n"
    line = 2 if columns == ["gtp"] else 3
    with refused(f"{tmp_path / 'rows.csv'}: line {line}: ", found):
        read(tmp_path, task, text, *columns)


def test_as_many_columns_as_labels_are_expected(tmp_path):
    with refused(f"{tmp_path / 'rows.csv'}: found 3 columns of predictions", "one for each of 2"):
        read(tmp_path, SENTIMENT, "text,label,a\nx,bad,1\n", "a", "b", "c")
