"""Classification: label words as numbers."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import Task
from subtune.tasks.classification import parse_label


def task_with(*labels: str) -> Task:
    return Task(name="t", title="T", text=("text",), labels=labels, metrics=("accuracy",))


def test_a_number_stands_for_a_label_word_where_no_word_is_a_number():
    assert parse_label(task_with("sad", "happy"), " 1 ", "here") == 1
    assert parse_label(task_with("1", "2", "3"), "1", "here") == 0


@pytest.mark.parametrize(
    ("labels", "number"),
    [
        (("1", "2", "3"), "0"),
        (("no", "1"), "0"),
        (("-1", "+1"), "1"),
        (("1.0", "2.0"), "1"),
        (("1 star", "2 stars"), "1"),
        (("sad", "happy"), "²"),
    ],
)
def test_no_number_stands_for_a_label_word_where_one_has_a_digit(labels, number):
    with pytest.raises(SubtuneError, match=f"here: label: found '{number}', expected one of"):
        parse_label(task_with(*labels), number, "here")
