"""Ids leave out how a task is shown."""

import pytest

from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS

DATA = DataSpec(task=TASKS["stsb"], source="files", version="1")


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Semantic similarity"},
        {"score_range": (0.0, 1.0)},
        {"submission": ("other.tsv",)},
        {"test": ()},
    ],
)
def test_an_id_ignores_how_a_task_is_shown(change):
    task = TASKS["stsb"].model_copy(update=change)
    assert DataSpec(task=task, source="files", version="1").id == DATA.id
