"""Printed scores, and ours beside them."""

import math

import pytest

from subtune import papers
from subtune.analysis.printed import exhibit_scores, reproduction
from subtune.tasks import TASKS
from subtune.tasks.task import columns_of
from tests.helpers.examples import scored


def test_printed_table_2_is_complete_and_in_the_columns_of_ours():
    table = exhibit_scores(papers.find("layernorm").printed("scores"), ["table2"])
    order = ("qnli", "sst2", "mnli", "cola", "mrpc", "stsb", "rte", "qqp")
    columns = [column.key for column in columns_of([TASKS[name] for name in order], {})]
    assert len(table) == 36 and list(table["task"].drop_duplicates()) == columns


OURS = [("rte", "bitfit", 1.0, None, 1e-3, seed, v) for seed, v in ((0, 0.7), (1, 0.8))]


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    theirs = papers.find("bitfit").printed("scores")
    table = reproduction(scored(*OURS), theirs, scored(OURS[0]).assign(value=0.6))
    assert len(table) == len(theirs)
    ours = table.dropna(subset=["ours"])
    assert set(ours["method"]) == {"bitfit"}
    splits = ours.drop_duplicates("split").set_index("split")
    assert splits["ours"].to_dict() == pytest.approx({"validation": 0.75, "test": 0.6})
    assert splits["seeds"].to_dict() == {"validation": 2, "test": 1}
    assert (ours["difference"] == ours["ours"] - ours["reported"]).all()
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()
    diverged = scored(*OURS).assign(value=math.nan)
    assert reproduction(diverged, theirs)["ours"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    rows = scored(*OURS).assign(model="roberta-base")
    table = reproduction(rows, papers.find("bitfit").printed("scores"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}
