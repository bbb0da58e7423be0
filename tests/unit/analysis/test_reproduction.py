"""Printed scores beside ours."""

import pytest

from subtune.analysis import reproduction
from subtune.papers import printed
from tests.helpers.examples import scored


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    rows = [("rte", "bitfit", 1.0, None, 1e-3, seed, v) for seed, v in ((0, 0.7), (1, 0.8))]
    table = reproduction.reproduction(scored(*rows), printed.scores("bitfit"))
    assert len(table) == len(printed.scores("bitfit"))
    ours = table.dropna(subset=["ours"])
    assert set(ours["split"]) == {"validation"} and set(ours["method"]) == {"bitfit"}
    first = ours.iloc[0]
    assert first["ours"] == pytest.approx(0.75) and first["seeds"] == 2
    assert first["difference"] == pytest.approx(0.75 - first["reported"])
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()
    diverged = scored(*rows).assign(value=float("nan"))
    assert reproduction.reproduction(diverged, printed.scores("bitfit"))["ours"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    rows = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7)).assign(model="roberta-base")
    table = reproduction.reproduction(rows, printed.scores("bitfit"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}


def test_returned_test_scores_are_beside_the_printed_ones_and_dev_scores_beside_dev_scores():
    rows = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))
    table = reproduction.reproduction(rows, printed.scores("bitfit"), rows.assign(value=0.6))
    ours = table.dropna(subset=["ours"])
    assert dict(ours.groupby("split")["ours"].mean()) == {"validation": 0.7, "test": 0.6}
    [test] = ours[ours["split"] == "test"].to_dict("records")
    assert test["difference"] == pytest.approx(0.6 - test["reported"])
