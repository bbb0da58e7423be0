"""Fields that are part of a value's id, and fields that are not."""

import pytest

from subtune.selections.specs import DataSpec, FisherSpec, ModelSpec, RankingSpec, TokensSpec
from subtune.selections.whole import WholeTensors
from subtune.tasks import TASKS
from tests.helpers.examples import run_spec

DATA = DataSpec(task=TASKS["stsb"], source="files", version="1")
TOKENS = TokensSpec(data=DATA, tokenizer="t", max_length=24)
FISHER = FisherSpec(model=ModelSpec(source="files", version="1"), tokens=TOKENS)
RANKING = RankingSpec(of=WholeTensors(parameters=("**.bias",)), fishers=(FISHER,))


@pytest.mark.parametrize(
    ("value", "version"),
    [
        (DATA, "data_version"),
        (TOKENS, "tokens_version"),
        (FISHER, "fisher_version"),
        (RANKING, "ranking_version"),
        (run_spec(), "recipe_version"),
    ],
)
def test_every_stage_that_computes_has_the_version_of_its_code_in_its_id(value, version):
    later = value.model_copy(update={version: getattr(value, version) + 1})
    assert type(value).model_validate(later.model_dump()).id != value.id


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Semantic similarity"},
        {"score_range": (0.0, 1.0)},
        {"submission": ("other.tsv",)},
        {"test": ()},
    ],
)
def test_how_a_task_is_presented_and_handed_in_is_part_of_no_id(change):
    task = TASKS["stsb"].model_copy(update=change)
    assert DataSpec(task=task, source="files", version="1") == DATA


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"text": ("sentence2", "sentence1")},
        {"label": "score"},
        {"labels": ("low", "high"), "kind": "classification", "metrics": ("accuracy",)},
        {"metrics": ("pearsonr", "spearmanr")},
        {"evaluation": ("dev",)},
    ],
)
def test_what_is_read_of_a_task_and_how_it_is_judged_is_part_of_every_id(change):
    task = TASKS["stsb"].model_copy(update=change)
    assert DataSpec(task=task, source="files", version="1").id != DATA.id


def test_rows_of_a_tasks_tests_are_another_value_than_those_that_train():
    assert DATA.splits == ("train", "validation")
    assert DataSpec(task=TASKS["stsb"], source="files", version="1", splits=("test",)).id != DATA.id
