"""Labels of texts: words as numbers, and numbers."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import TASKS, Task


def number_of(text: str, *labels: str) -> int:
    task = Task(name="t", title="T", text=("text",), labels=labels, metrics=("accuracy",))
    return task.of_kind.parse_label(task, text, "here")


def test_a_number_stands_for_a_label_word_where_no_word_is_a_number():
    assert number_of(" 1 ", "sad", "happy") == 1
    assert number_of("1", "1", "2", "3") == 0


@pytest.mark.parametrize(
    ("labels", "number"),
    [
        (("1", "2", "3"), "0"),
        (("-1", "+1"), "1"),
        (("1 star", "2 stars"), "1"),
        (("sad", "happy"), "²"),
    ],
)
def test_no_number_stands_for_a_label_word_where_one_has_a_digit(labels, number):
    with pytest.raises(SubtuneError, match=f"here: label: found '{number}', expected one of"):
        number_of(number, *labels)


def test_a_label_of_a_regression_is_a_number():
    task = TASKS["stsb"]
    assert task.of_kind.parse_label(task, " 2.5", "here") == 2.5
    with pytest.raises(SubtuneError, match="here: label: found 'good', expected a number"):
        task.of_kind.parse_label(task, "good", "here")
