"""Any number of labels for each text: cells, columns, and what is made of them."""

import re

import numpy as np
import pytest
import torch
from torch.nn import BCEWithLogitsLoss

from subtune.config.schema import OwnTask
from subtune.core.errors import SubtuneError
from subtune.data import files
from subtune.tasks import metrics
from subtune.tasks.task import Task
from tests.helpers import examples

TASK = examples.TOXIC
BY_COLUMN = TASK.replaced(label=TASK.labels)


def read(tmp_path, text, task=TASK, ending=".csv"):
    """The columns of a table as the task's training split."""
    path = tmp_path / f"train{ending}"
    path.write_text(text)
    return files.columns_of(task, {"train": (path,)})["train"]["label"]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ('"[""insult"", ""toxic""]"', [1, 1, 0]),
        ("['threat']", [0, 0, 1]),
        ("[]", [0, 0, 0]),
        ("", [0, 0, 0]),
        ("toxic", [1, 0, 0]),
        (" toxic | threat ", [1, 0, 1]),
        ("insult;threat;", [0, 1, 1]),
        # Numbers stand for label words that have no digit.
        ('"[0, 2]"', [1, 0, 1]),
    ],
)
def test_a_cell_holds_any_number_of_labels(cell, labels, tmp_path):
    text = f"text,label\na text,{cell}\nanother,toxic|insult|threat\n"
    assert read(tmp_path, text) == [labels, [1, 1, 1]]


def test_json_lines_have_lists(tmp_path):
    text = '{"text": "a", "label": ["toxic", "threat"]}\n{"text": "b", "label": []}\n'
    assert read(tmp_path, text, ending=".jsonl") == [[1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("flags", ["1,0,1", "True,False,True", "1.0,0.0,true"])
def test_each_label_may_have_a_column_of_0_and_1(flags, tmp_path):
    text = f"threat,insult,toxic,text\n{flags},a text\n0,0,0,another\n"
    assert read(tmp_path, text, BY_COLUMN) == [[1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        (TASK, "text,label\na,toxic|rude\n", "line 2: label: found 'rude', expected one of toxic"),
        (TASK, "text,label\na,toxic;toxic\n", "line 2: label: found 'toxic' twice, expected each"),
        (TASK, "text,label\na,[toxic\n", "line 2: label: found '[toxic', expected a list such as"),
        (TASK, "text,label\na,[[1]]\n", "line 2: label: found '[[1]]', expected a list such as"),
        (TASK, "text,label\na,\nb,[]\n", "found no label in every row, expected rows that differ"),
        (TASK, "text,label\na,toxic\nb,toxic\n", "found the labels toxic in every row, expected"),
        (BY_COLUMN, "text,toxic,insult,threat\na,1,2,0\n", "line 2: column 'insult': found the t"),
        (BY_COLUMN, "text,toxic,insult\na,1,0\n", "line 2: no such column: found 'threat', expec"),
    ],
)
def test_a_table_that_would_be_misread_is_refused_with_its_line(task, text, message, tmp_path):
    with pytest.raises(SubtuneError, match=re.escape(f"train.csv: {message}")):
        read(tmp_path, text, task)


def test_a_cell_of_json_that_is_no_list_is_refused(tmp_path):
    text = '{"text": "a", "label": {"toxic": "yes"}}\n'
    with pytest.raises(SubtuneError, match="line 1: label: found an object, expected a list such"):
        read(tmp_path, text, ending=".jsonl")


def test_rows_to_predict_have_no_labels():
    rows = [("row 1", {"text": "a text"})]
    columns = TASK.of_kind.from_rows(TASK, rows, labelled=False, source="test")
    assert columns["label"] == [[-1, -1, -1]]


def test_a_configuration_lists_columns_which_are_the_labels():
    given = {"kind": "multilabel", "files": {}, "text": ["text"], "label": ["mild", "strong"]}
    task = OwnTask.model_validate(given).task("curry")
    assert (task.labels, task.metrics) == (("mild", "strong"), TASK.metrics)
    assert task.spec().columns_read(labelled=True) == ("text", "mild", "strong")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "classification"}, "label: found toxic, insult, expected one column"),
        ({}, "label: found toxic, insult, expected one column or one for each of 3 labels"),
    ],
)
def test_columns_that_are_not_one_for_each_label_are_one_line(changed, message):
    fields = TASK.model_dump() | {"label": ("toxic", "insult"), "metrics": ["accuracy"]} | changed
    with pytest.raises(ValueError, match=f"{message}( |\n|$)"):
        Task(**fields)


def test_a_loss_is_transformers_mean_over_labels_and_a_row_and_nats_are_their_sum():
    logits = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    labels = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1]])
    kind, example = TASK.of_kind, torch.arange(5)
    found = kind.losses(logits, labels, example)
    expected = [5 * BCEWithLogitsLoss()(of_run, labels.double()) for of_run in logits]
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=0)
    chances = torch.where(labels == 1, logits.sigmoid(), 1 - logits.sigmoid())
    nats = -chances.log().sum((1, 2))
    torch.testing.assert_close(kind.nats(3) * found, nats, rtol=1e-12, atol=0)


def test_metrics_compare_whole_sets_and_all_labels_together():
    predicted = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    labels = np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]])
    scores = metrics.compute_all("label_sets", TASK.metrics, predicted, labels)
    # By label: 2 of 2 found, one found wrongly and one missed, none there.
    assert scores == pytest.approx({"f1_micro": 2 / 3, "f1_macro": 1 / 3, "accuracy": 1 / 2})


def test_predictions_are_recorded_beside_0_and_1_of_each_label(tiny_bert):
    rows = examples.examples_of(TASK, examples.tokens(TASK, tiny_bert))["validation"]
    logits = np.random.default_rng(0).normal(size=(len(rows), 3))
    table = TASK.of_kind.table(rows, logits)
    assert list(table) == ["idx", "label", "logit_0", "logit_1", "logit_2"]
    predicted, expected = TASK.of_kind.compared(table)
    assert (predicted == (logits > 0)).all()
    assert (expected == rows.labels).all()


def test_each_fold_has_its_share_of_the_rarest_label():
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
    assert list(TASK.of_kind.strata(labels)) == [1, 0, -1, 2]


def test_weights_are_rows_without_a_label_for_each_with_it():
    labels = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    assert list(TASK.of_kind.balanced(TASK, labels)) == [1 / 3, 3, 3]
