"""Regression: numbers as labels."""

import pytest

from subtune.core.errors import SubtuneError
from subtune.tasks import TASKS


def test_a_label_of_a_regression_is_a_number():
    task = TASKS["stsb"]
    assert task.of_kind.parse_label(task, " 2.5", "here") == 2.5
    with pytest.raises(SubtuneError, match="here: label: found 'good', expected a number"):
        task.of_kind.parse_label(task, "good", "here")
