"""Texts with a label word, any number of label words, or a number."""

import re

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from torch.nn import BCEWithLogitsLoss

from subtune.config.schema import OwnTask
from subtune.core.errors import SubtuneError
from subtune.data import sources
from subtune.data.load import tokenize
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import SEPARATORS, TEXT_COLUMNS, parse_labels, parse_number
from tests.helpers import examples

TOXIC = examples.TOXIC
BY_COLUMN = TOXIC.replace(label=TOXIC.labels)


@pytest.mark.parametrize(
    ("labels", "text", "number"),
    [
        (("sad", "happy"), " 1 ", 1),
        # If a label word has a digit, label numbers are not accepted.
        (("1", "2", "3"), "1", 0),
        (("1", "2", "3"), "0", None),
        (("1 star", "2 stars"), "1", None),
        (("sad", "happy"), "²", None),
    ],
)
def test_a_number_stands_for_a_label_word_if_no_word_has_a_digit(labels, text, number):
    task = Task(name="t", title="T", text=("text",), labels=labels, metrics=("accuracy",))
    if number is None:
        with pytest.raises(SubtuneError, match=f"here: label: found '{text}', expected one of"):
            task.of_kind.read_label(task, {task.label: text}, "here")
    else:
        assert task.of_kind.read_label(task, {task.label: text}, "here") == number


@pytest.mark.parametrize("separators", SEPARATORS)
@pytest.mark.parametrize("cell", [None, "", " ", "[]"])
def test_an_empty_cell_has_no_label(separators, cell):
    assert parse_labels(cell, separators) == []


def test_texts_of_a_pair_apart_are_two_examples_of_its_row(tiny_bert):
    rows = examples.rows_of(TASKS["rte"])
    apart = tokenize(TASKS["rte"], rows, tiny_bert, 24, apart=True)["train"]
    texts = [
        text
        for pair in zip(*(rows["train"][t] for t in TEXT_COLUMNS), strict=True)
        for text in pair
    ]
    columns = {"text_a": texts, "label": [0] * 24, "set": [*range(24)]}
    alone = DatasetDict(train=Dataset.from_dict(columns))
    single = tokenize(TASKS["rte"], alone, tiny_bert, 24)["train"]
    assert apart["input_ids"][:] == single["input_ids"][:]
    assert list(apart["row"]) == [row for row in range(12) for _ in TEXT_COLUMNS]
    assert list(Examples(apart).row_labels) == list(rows["train"]["label"])


def read(tmp_path, text, task=TOXIC, ending=".csv"):
    """Return the labels of a table, read as the task's training split."""
    path = tmp_path / f"train{ending}"
    path.write_text(text)
    return sources.read_columns(task, {"train": path})["train"]["label"]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('"[""insult"", ""toxic""]"', [1, 1, 0]),
        ("['threat']", [0, 0, 1]),
        ("\"{'insult', 'toxic'}\"", [1, 1, 0]),
        ("\"frozenset({'insult'})\"", [0, 1, 0]),
        ("set()", [0, 0, 0]),
        ("()", [0, 0, 0]),
        ("\"('threat',)\"", [0, 0, 1]),
        ("\"('threat', 'toxic')\"", [1, 0, 1]),
        ("\"array(['threat', 'toxic'], dtype=object)\"", [1, 0, 1]),
        ('"c(""threat"", ""toxic"")"', [1, 0, 1]),
        ('"{threat,""toxic""}"', [1, 0, 1]),
        ('"[threat, toxic]"', [1, 0, 1]),
        ("[]", [0, 0, 0]),
        ("", [0, 0, 0]),
        (" toxic | threat ", [1, 0, 1]),
        ("insult;threat;insult;", [0, 1, 1]),
        # If no label word has a digit, label numbers are accepted.
        ('"[0, 2]"', [1, 0, 1]),
    ],
)
def test_a_cell_holds_any_number_of_labels(cell, labels, tmp_path):
    text = f"text,label\na text,{cell}\nanother,toxic|insult|threat\n"
    assert read(tmp_path, text) == [labels, [1, 1, 1]]


def test_a_label_with_a_comma_or_a_number_sign_is_one_label_if_it_is_known(tmp_path):
    task = TOXIC.replace(labels=("C", "C#", "C, C++"))
    text = 'text,label\na,C#\nb,"C, C++|C"\nc,"C#, C"\n'
    assert read(tmp_path, text, task) == [[0, 1, 0], [1, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("labels", [("0", "1"), ("0.0", "1.0")])
def test_integers_stored_as_floats_are_the_same_classes(labels, tmp_path):
    task = Task(name="t", title="T", text=("text",), labels=labels, metrics=("accuracy",))
    assert read(tmp_path, "text,label\na,0\nb,1.0\nc,0.0\nd,1\n", task) == [0, 1, 0, 1]


MOOD = Task(name="t", title="T", text=("text",), labels=("sad", "[1]"), metrics=("accuracy",))


@pytest.mark.parametrize(
    ("cell", "label"),
    [("sad", 0), ("['sad']", 0), ('"[""sad""]"', 0), ('"{""choices"": [""sad""]}"', 0), ("[1]", 1)],
)
def test_a_list_of_one_label_is_a_class(cell, label, tmp_path):
    assert read(tmp_path, f"text,label\na,{cell}\nb,sad\nc,[1]\n", MOOD) == [label, 0, 1]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 12 ", 12),
        ("-2.5", -2.5),
        (".5", 0.5),
        ("5.", 5),
        ("2,5", 2.5),
        ("1e-05", 1e-5),
        ("1E5", 1e5),
        ("0101", 101),
        ("٣", 3),
        ("１２", 12),
        ("1,234", None),
        ("1_2", None),
        ("²", None),
        ("nan", None),
        ("inf", None),
        ("Infinity", None),
        ("1e999", None),
        ("1 2", None),
        ("", None),
    ],
)
def test_a_number_is_what_a_spreadsheet_takes_for_one(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    ("task", "cells", "labels"),
    [
        (TOXIC, ['["toxic", "threat"]', "[]"], [[1, 0, 1], [0, 0, 0]]),
        (MOOD, ['["sad"]', '"[1]"'], [0, 1]),
        (MOOD.replace(labels=("0", "1")), ["1.0", "0"], [1, 0]),
        (MOOD.replace(labels=("0.0", "1.0")), ["1.0", "0"], [1, 0]),
    ],
)
def test_json_lines_have_lists_and_numbers(task, cells, labels, tmp_path):
    lines = (f'{{"text": "a", "label": {cell}}}\n' for cell in cells)
    assert read(tmp_path, "".join(lines), task, ending=".jsonl") == labels


@pytest.mark.parametrize("flags", ["1,0,1", "True,False,True", "1.0,0.0,true"])
def test_each_label_may_have_a_column_of_0_and_1(flags, tmp_path):
    text = f"threat,insult,toxic,text\n{flags},a text\n0,0,0,another\n"
    assert read(tmp_path, text, BY_COLUMN) == [[1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("mark", ["1", "1.0", "x", "X", "yes", "ja", "✓", "TRUE"])
def test_an_empty_cell_is_0_if_no_cell_is_0(mark, tmp_path):
    text = f"threat,insult,toxic,text\n{mark},,{mark},a text\n,,,another\n"
    assert read(tmp_path, text, BY_COLUMN) == [[1, 0, 1], [0, 0, 0]]


REFUSED = [
    (TOXIC, "text,label\na,toxic|rude\n", "line 2: label: found 'rude', expected one of toxic"),
    (TOXIC, "text,label\na,C#\n", "line 2: label: found 'C#', expected one of toxic"),
    (TOXIC, 'text,label\na,"toxic, rude"\n', "line 2: label: found 'rude', expected one of toxic"),
    (MOOD, "text,label\na,\"['sad', 'x']\"\n", "line 2: label: found \"['sad', 'x']\", expected"),
    (TOXIC, "text,label\na,[toxic\n", "line 2: label: found '[toxic', expected a list such as"),
    (TOXIC, "text,label\na,[[1]]\n", "line 2: label: found '[[1]]', expected a list such as"),
    (TOXIC, "text,label\na,\nb,[]\n", "found no label in any row, expected rows"),
    (TOXIC, "text,label\na,toxic\nb,toxic\n", "found the labels toxic in every row, expected"),
    (BY_COLUMN, "text,toxic,insult,threat\na,1,2,0\n", "line 2: column 'insult': found '2'"),
    (
        BY_COLUMN,
        "text,toxic,insult,threat\na,1,,1\nb,0,0,1\n",
        "line 2: column 'insult': found null",
    ),
    (BY_COLUMN, "text,toxic,insult\na,1,0\n", "line 2: no column 'threat', expec"),
]


@pytest.mark.parametrize(("task", "text", "message"), REFUSED)
def test_a_table_that_would_be_misread_is_refused_with_its_line(task, text, message, tmp_path):
    with pytest.raises(SubtuneError, match=re.escape(f"train.csv: {message}")):
        read(tmp_path, text, task)


def test_rows_to_predict_have_no_labels():
    rows = [("row 1", {"text": "a text"})]
    columns = sources.make_columns(TOXIC, rows, labelled=False, source="test")
    assert columns["label"] == [[-1, -1, -1]]


def test_a_configuration_lists_columns_which_are_the_labels():
    given = {"kind": "multilabel", "files": {}, "text": ["text"], "label": ["mild", "strong"]}
    task = OwnTask.model_validate(given).task("curry")
    assert (task.labels, task.metrics) == (("mild", "strong"), TOXIC.metrics)
    assert task.spec().columns_read(labelled=True) == ("text", "mild", "strong")


def test_columns_of_labels_are_one_for_each_label():
    fields = TOXIC.model_dump() | {"label": ("toxic", "insult"), "metrics": ["accuracy"]}
    with pytest.raises(ValueError, match="expected one column or one for each of 3 labels"):
        Task(**fields)


def test_a_loss_is_transformers_and_nats_are_their_sum_over_labels():
    logits = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    labels = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1]])
    kind, example = TOXIC.of_kind, torch.arange(5)
    found = kind.losses(logits, labels, example)
    expected = [5 * BCEWithLogitsLoss()(of_run, labels.double()) for of_run in logits]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=0)
    chances = torch.where(labels == 1, logits.sigmoid(), 1 - logits.sigmoid())
    nats = -chances.log().sum((1, 2))
    torch.testing.assert_close(kind.loss_to_nats_factor(3) * found, nats, rtol=1e-12, atol=0)


def test_predictions_are_recorded_beside_0_and_1_of_each_label(tiny_bert):
    rows = examples.examples_of(TOXIC, examples.tokens(TOXIC, tiny_bert))["validation"]
    logits = np.random.default_rng(0).normal(size=(len(rows), 3))
    table = TOXIC.of_kind.prediction_table(rows, logits)
    assert list(table) == ["idx", "label", "logit_0", "logit_1", "logit_2"]
    predicted, expected = TOXIC.of_kind.metric_inputs(table)
    assert (predicted == (logits > 0)).all() and (expected == rows.labels).all()


def test_strata_are_rarest_labels_and_weights_rows_without_per_row_with():
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
    assert list(TOXIC.of_kind.strata(labels)) == [1, 0, -1, 2]
    assert list(TOXIC.of_kind.balanced_weights(TOXIC, labels)) == [1 / 3, 1, 3]
