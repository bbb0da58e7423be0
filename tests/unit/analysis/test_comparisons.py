"""Tests of whether methods differ, and printed scores beside ours."""

import math

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import comparisons
from subtune.exhibits.points import joined
from subtune.papers import printed
from tests.helpers.examples import scored


def test_methods_are_paired_by_task_and_equal_groups_do_not_differ():
    rows = [
        (task, method, 1.0, None, 1e-3, 0, value + (0.1 if method == "full" else 0.0))
        for value, task in enumerate(("rte", "cola", "mrpc", "sst2", "qnli", "qqp"))
        for method in ("full", "bitfit")
    ]
    [row] = comparisons.paired_tests(scored(*rows)).to_dict("records")
    assert row["pairs"] == 6
    assert row["mean_difference"] == pytest.approx(0.1)
    # All six differences have one sign: two of the 2^6 ways.
    assert row["p_value"] == round(2 / 64, 4)
    assert comparisons.kruskal_wallis([0.5, 0.5], [0.5, 0.5]) == 1.0


def test_holm_multiplies_p_values_and_keeps_their_order():
    p_values = pd.Series([0.04, 0.01, math.nan, 0.03, 0.5])
    # 4 × 0.01, 3 × 0.03, 2 × 0.04 (not below the one before), 1 × 0.5.
    expected = [0.09, 0.04, math.nan, 0.09, 0.5]
    assert comparisons.holm(p_values).tolist() == pytest.approx(expected, nan_ok=True)
    assert comparisons.holm(pd.Series([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_the_critical_difference_is_the_printed_one():
    generator = np.random.default_rng(0)
    chosen = scored(
        *(
            (f"task{task}", method, 1.0, None, 1e-3, 0, 0.1 * number + generator.normal(0, 0.1))
            for task in range(14)
            for number, method in enumerate(("full", "bitfit", "layernorm", "frozen"))
        )
    )
    ranks, difference = comparisons.mean_ranks(chosen)
    # Demšar (2006), section 3.2.2: four classifiers, fourteen data sets.
    assert difference == pytest.approx(1.25, abs=0.005)
    assert list(ranks.index) == ["frozen", "layernorm", "bitfit", "full"]
    assert ranks.sum() == pytest.approx(1 + 2 + 3 + 4)
    two = chosen[chosen["method"].isin(["full", "bitfit"])]
    assert math.isnan(comparisons.mean_ranks(two)[1])


def test_a_bar_joins_the_largest_groups_within_the_difference():
    assert [*joined([1.0, 1.5, 2.4, 3.9, 4.0], 1.5)] == [(1.0, 2.4), (2.4, 3.9), (3.9, 4.0)]
    assert [*joined([1.0, 3.0], 1.5)] == []
    assert [*joined([1.0, 1.2, 1.4], 1.5)] == [(1.0, 1.4)]


def test_every_printed_score_is_beside_ours_or_beside_nothing():
    rows = [("rte", "bitfit", 1.0, None, 1e-3, seed, v) for seed, v in ((0, 0.7), (1, 0.8))]
    table = comparisons.reproduction(scored(*rows), printed.scores("bitfit"))
    assert len(table) == len(printed.scores("bitfit"))
    ours = table.dropna(subset=["ours"])
    assert set(ours["split"]) == {"validation"} and set(ours["method"]) == {"bitfit"}
    first = ours.iloc[0]
    assert first["ours"] == pytest.approx(0.75) and first["seeds"] == 2
    assert first["difference"] == pytest.approx(0.75 - first["reported"])
    assert table.loc[table["method"] == "b_q", "our_model"].isna().all()
    diverged = scored(*rows).assign(value=float("nan"))
    assert comparisons.reproduction(diverged, printed.scores("bitfit"))["ours"].isna().all()


def test_a_score_of_the_papers_own_model_is_not_beside_another_models():
    rows = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7)).assign(model="roberta-base")
    table = comparisons.reproduction(rows, printed.scores("bitfit"))
    assert set(table.dropna(subset=["ours"])["model"]) == {"roberta-base"}


def test_test_scores_are_compared_with_test_scores_and_dev_with_dev():
    rows = scored(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))
    table = comparisons.reproduction(rows, printed.scores("bitfit"), rows.assign(value=0.6))
    ours = table.dropna(subset=["ours"])
    assert dict(ours.groupby("split")["ours"].mean()) == {"validation": 0.7, "test": 0.6}
    [test] = ours[ours["split"] == "test"].to_dict("records")
    assert test["difference"] == pytest.approx(0.6 - test["reported"])


def test_an_average_over_a_column_that_diverged_is_none():
    rows = [
        ("rte", "full", 1.0, None, 1e-5, 0, 0.9),
        ("cola", "full", 1.0, None, 1e-5, 0, math.nan),
        ("rte", "bitfit", 1.0, None, 1e-3, 0, 0.9),
    ]
    [row] = comparisons.averages(scored(*rows), ["rte", "cola"]).to_dict("records")
    assert row["method"] == "full" and math.isnan(row["value"])
