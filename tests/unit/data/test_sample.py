"""Rows that are drawn from a table: by class, with equal texts and groups together."""

import json

import numpy as np
import pytest

from subtune.data.sample import draw_dev_set, draw_rows, write_drawn_rows
from subtune.tasks import Task

CLASSES = Task(name="t", title="t", text=("text",), labels=("a", "b"), metrics=("accuracy",))
NUMBERS = Task(name="t", title="t", text=("text",), kind="regression", metrics=("pearsonr",))


def columns(labels, texts=None, groups=None) -> dict:
    texts = texts or [f"text {number}" for number in range(len(labels))]
    found = {"text_a": texts, "label": [*labels]}
    return found | ({"group": groups} if groups else {})


def test_each_class_keeps_its_share():
    labels = [0] * 900 + [1] * 100
    drawn = draw_rows(CLASSES, columns(labels), 100, np.arange(1000))
    assert np.bincount(np.array(labels)[drawn]).tolist() == [90, 10]
    assert sorted(drawn) == [*drawn]


def test_a_rare_class_keeps_a_row():
    drawn = draw_rows(CLASSES, columns([0] * 999 + [1]), 50, np.arange(1000))
    assert 999 in drawn


def test_large_and_small_numbers_keep_their_shares():
    drawn = draw_rows(NUMBERS, columns(np.linspace(0, 1, 1000)), 100, np.arange(1000))
    assert np.histogram(drawn, bins=10, range=(0, 1000))[0].tolist() == [10] * 10


@pytest.mark.parametrize(
    ("texts", "groups"),
    [
        ([f"Text  {number % 50}" for number in range(300)], None),
        (None, [f"author {number % 50}" for number in range(300)]),
    ],
    ids=["equal texts", "one author"],
)
def test_rows_of_one_text_or_author_are_on_one_side_of_a_drawn_dev_set(texts, groups):
    shared = [*range(50)] * 6
    found = draw_dev_set(CLASSES, columns([0, 1] * 150, texts, groups), 0.2)
    sides = [{shared[row] for row in found[split]} for split in ("train", "validation")]
    assert sides[0].isdisjoint(sides[1]) and sides[0] | sides[1] == {*range(50)}
    assert len(found["validation"]) == pytest.approx(60, abs=6)


def test_more_rows_contain_fewer():
    few, many = (
        {*draw_rows(CLASSES, columns([0, 1] * 500), number, np.arange(1000))}
        for number in (100, 200)
    )
    assert few < many


def test_drawn_rows_are_written_with_all_their_columns(tmp_path):
    rows = [{"text": "é", "label": "a", "author": 1}, {"text": "b", "label": "b", "author": 2}]
    files = write_drawn_rows({"train": rows}, {"train": [1, 0]}, tmp_path / "sample")
    with open(files["train"], encoding="utf-8") as file:
        assert [json.loads(line) for line in file] == rows[::-1]
