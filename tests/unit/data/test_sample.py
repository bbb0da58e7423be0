"""Rows that are drawn from a table: by class, with equal texts and groups together."""

from itertools import repeat
from pathlib import Path

import numpy as np
import pytest

from subtune.core.errors import SubtuneError
from subtune.data.sample import draw_dev_set, draw_rows, write_drawn_rows
from subtune.data.table_files import read_rows
from subtune.tasks import Task
from subtune.tasks.row_sets import find_sets

CLASSES = Task(name="t", title="t", text=("text",), labels=("a", "b"), metrics=("accuracy",))
NUMBERS = Task(name="t", title="t", text=("text",), kind="regression", metrics=("pearsonr",))


def columns(labels, texts=None, groups=None) -> dict:
    texts = texts or [f"text {number}" for number in range(len(labels))]
    sets = find_sets(([text] for text in texts), groups or repeat(None, len(texts)))
    return {"text_a": texts, "label": [*labels], "set": sets}


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


def test_rows_connected_by_text_and_author_are_on_one_side():
    texts = [f"text {number // 2}" for number in range(300)]
    authors = [f"author {(number + 1) // 2 if number % 6 else number}" for number in range(300)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 150, texts, authors), 0.2)
    for keys in (texts, authors):
        sides = [{keys[row] for row in found[split]} for split in ("train", "validation")]
        assert sides[0].isdisjoint(sides[1])
    assert len(found["validation"]) == 60


def test_a_large_author_does_not_make_the_dev_set_larger():
    authors = ["prolific"] * 730 + [f"author {number}" for number in range(270)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 500, None, authors), 0.2)
    assert np.bincount(np.array([0, 1] * 500)[found["validation"]]).tolist() == [100, 100]


@pytest.mark.parametrize(
    ("sizes", "drawn"), [([730, 270], 270), ([400, 390, 210], 210), ([500, 300, 150, 50], 200)]
)
def test_few_authors_give_the_nearest_size(sizes, drawn):
    authors = [f"author {n}" for n, size in enumerate(sizes) for _ in range(size)]
    found = draw_dev_set(CLASSES, columns([0, 1] * 500, None, authors), 0.2)
    assert len(found["validation"]) == drawn


def test_a_label_of_one_row_trains():
    found = draw_dev_set(CLASSES, columns([0] * 99 + [1]), 0.2)
    assert 99 in found["train"] and len(found["validation"]) == 20


def test_many_rare_labels_give_a_dev_set_of_the_wanted_size():
    labels = [*range(200)] * 2
    task = CLASSES.replace(labels=tuple(map(str, range(200))))
    found = draw_dev_set(task, columns(labels), 0.2)
    assert len(found["validation"]) == 80
    assert {labels[row] for row in found["train"]} == {*range(200)}


def test_one_author_cannot_be_divided():
    with pytest.raises(SubtuneError, match="all rows have the same text or group"):
        draw_dev_set(CLASSES, columns([0, 1] * 5, None, ["author"] * 10), 0.2)


def test_more_rows_contain_fewer():
    few, many = (
        {*draw_rows(CLASSES, columns([0, 1] * 500), number, np.arange(1000))}
        for number in (100, 200)
    )
    assert few < many


def test_drawn_rows_are_written_with_all_their_columns_and_their_places(tmp_path):
    rows = [("line 3", {"text": "é", "label": "a"}), ("line 7", {"text": "b", "place": "x"})]
    files = write_drawn_rows({"train": rows}, {"train": [1, 0]}, tmp_path / "sample")
    assert [*read_rows(Path(files["train"]))] == rows[::-1]
