"""Labels of texts: words as numbers, and numbers."""

import pytest
from datasets import Dataset, DatasetDict

from subtune.core.errors import SubtuneError
from subtune.data.load import tokenize
from subtune.tasks import TASKS, Task
from subtune.tasks.examples import Examples
from subtune.tasks.sentences import TEXTS
from tests.helpers import examples


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


def test_the_texts_of_a_pair_that_stand_apart_are_two_examples_of_its_row(tiny_bert):
    rows = examples.rows_of(TASKS["rte"])
    apart = tokenize(TASKS["rte"], rows, tiny_bert, 24, apart=True)["train"]
    texts = [text for pair in zip(*(rows["train"][t] for t in TEXTS), strict=True) for text in pair]
    alone = DatasetDict(train=Dataset.from_dict({"text_a": texts, "label": [0] * 24}))
    single = tokenize(TASKS["rte"], alone, tiny_bert, 24)["train"]
    assert apart["input_ids"][:] == single["input_ids"][:]
    assert list(apart["row"]) == [row for row in range(12) for _ in TEXTS]
    assert list(Examples(apart).labels_of_rows) == list(rows["train"]["label"])
