"""Tests of whether methods differ, against values that are known."""

import math

import numpy as np
import pandas as pd
import pytest

from subtune.analysis import significance
from subtune.exhibits.figures.points import joined
from tests.helpers.examples import scored


def test_methods_are_paired_by_task_and_equal_groups_do_not_differ():
    rows = [
        (task, method, 1.0, None, 1e-3, 0, value + (0.1 if method == "full" else 0.0))
        for value, task in enumerate(("rte", "cola", "mrpc", "sst2", "qnli", "qqp"))
        for method in ("full", "bitfit")
    ]
    [row] = significance.paired_tests(scored(*rows)).to_dict("records")
    assert row["pairs"] == 6
    assert row["mean_difference"] == pytest.approx(0.1)
    # All six differences have one sign: two of the 2^6 ways.
    assert row["p_value"] == round(2 / 64, 4)
    assert significance.kruskal_wallis([0.5, 0.5], [0.5, 0.5]) == 1.0


def test_holm_multiplies_the_smallest_p_value_by_their_number_and_keeps_the_order():
    p_values = pd.Series([0.04, 0.01, math.nan, 0.03, 0.5])
    # 4 × 0.01, 3 × 0.03, 2 × 0.04 (not below the one before), 1 × 0.5.
    expected = [0.09, 0.04, math.nan, 0.09, 0.5]
    assert significance.holm(p_values).tolist() == pytest.approx(expected, nan_ok=True)
    assert significance.holm(pd.Series([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_the_critical_difference_is_the_printed_one():
    generator = np.random.default_rng(0)
    chosen = scored(
        *(
            (f"task{task}", method, 1.0, None, 1e-3, 0, 0.1 * number + generator.normal(0, 0.1))
            for task in range(14)
            for number, method in enumerate(("full", "bitfit", "layernorm", "frozen"))
        )
    )
    ranks, difference = significance.mean_ranks(chosen)
    # Demšar (2006), section 3.2.2: four classifiers, fourteen data sets.
    assert difference == pytest.approx(1.25, abs=0.005)
    assert list(ranks.index) == ["frozen", "layernorm", "bitfit", "full"]
    assert ranks.sum() == pytest.approx(1 + 2 + 3 + 4)
    two = chosen[chosen["method"].isin(["full", "bitfit"])]
    assert math.isnan(significance.mean_ranks(two)[1])


def test_a_bar_joins_the_largest_groups_within_the_difference():
    assert [*joined([1.0, 1.5, 2.4, 3.9, 4.0], 1.5)] == [(1.0, 2.4), (2.4, 3.9), (3.9, 4.0)]
    assert [*joined([1.0, 3.0], 1.5)] == []
    assert [*joined([1.0, 1.2, 1.4], 1.5)] == [(1.0, 1.4)]
