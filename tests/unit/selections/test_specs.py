"""Fields that are part of a value's id, and fields that are not."""

import pytest

from subtune.selections.specs import DataSpec
from subtune.tasks import TASKS

DATA = DataSpec(task=TASKS["stsb"], source="files", version="1")


@pytest.mark.parametrize(
    ("change", "same_id"),
    [
        ({"title": "Semantic similarity"}, True),
        ({"score_range": (0.0, 1.0)}, True),
        ({"submission": ("other.tsv",)}, True),
        ({"test": ()}, True),
        ({"name": "other"}, False),
        ({"text": ("sentence2", "sentence1")}, False),
        ({"label": "score"}, False),
        ({"labels": ("low", "high"), "kind": "classification", "metrics": ("accuracy",)}, False),
        ({"metrics": ("pearsonr", "spearmanr")}, False),
        ({"evaluation": ("dev",)}, False),
    ],
)
def test_an_id_ignores_how_a_task_is_shown(change, same_id):
    task = TASKS["stsb"].model_copy(update=change)
    assert (DataSpec(task=task, source="files", version="1").id == DATA.id) == same_id


def test_rows_of_a_tasks_tests_are_another_value_than_those_that_train():
    assert DATA.splits == ("train", "validation")
    assert DataSpec(task=TASKS["stsb"], source="files", version="1", splits=("test",)).id != DATA.id
