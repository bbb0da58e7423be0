"""Labels of texts: words as numbers, and numbers."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import TASKS, Task


@pytest.mark.parametrize(
    ("labels", "text", "number"),
    [
        (("sad", "happy"), " 1 ", 1),
        # A number stands for no word where a word has a digit.
        (("1", "2", "3"), "1", 0),
        (("1", "2", "3"), "0", None),
        (("-1", "+1"), "1", None),
        (("1 star", "2 stars"), "1", None),
        (("sad", "happy"), "²", None),
    ],
)
def test_a_number_stands_for_a_label_word_where_no_word_has_a_digit(labels, text, number):
    task = Task(name="t", title="T", text=("text",), labels=labels, metrics=("accuracy",))
    if number is None:
        with pytest.raises(SubtuneError, match=f"here: label: found '{text}', expected one of"):
            task.of_kind.parse_label(task, text, "here")
    else:
        assert task.of_kind.parse_label(task, text, "here") == number


def test_a_label_of_a_regression_is_a_number():
    task = TASKS["stsb"]
    assert task.of_kind.parse_label(task, " 2.5", "here") == 2.5
    with pytest.raises(SubtuneError, match="here: label: found 'good', expected a number"):
        task.of_kind.parse_label(task, "good", "here")
