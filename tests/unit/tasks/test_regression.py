"""Regression: numbers as labels."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import TASKS
from subtune.tasks.regression import parse_score


def test_a_label_of_a_regression_is_a_number():
    task = TASKS["stsb"]
    assert parse_score(task, " 2.5", "here") == 2.5
    with pytest.raises(SubtuneError, match="here: label: found 'good', expected a number"):
        parse_score(task, "good", "here")
