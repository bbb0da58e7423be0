"""The stories and questions of the mini span task."""

import pytest

from subtune.data import builtin
from subtune.tasks import TASKS


@pytest.fixture(scope="module")
def labelled():
    splits = builtin.splits(TASKS["squad"])
    return splits["train"] + splits["validation"]


def test_every_answer_is_in_its_context_of_one_to_three_facts_where_it_says(labelled):
    for row in labelled:
        answers = row["answers"]
        assert answers["text"]
        for text, start in zip(answers["text"], answers["answer_start"], strict=True):
            assert row["context"][start : start + len(text)] == text
    assert {row["context"].count(".") for row in labelled} == {1, 2, 3}


def test_where_and_when_have_two_answers_where_a_preposition_is_before_the_first(labelled):
    [row] = [row for row in labelled if row["question"] == "When did Luis buy an old piano?"]
    assert row["answers"]["text"] == ["June 14", "on June 14"]
    assert {len(row["answers"]["text"]) for row in labelled} == {1, 2}
