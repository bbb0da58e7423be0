"""Tests of whether methods differ, against values that are known."""

import pytest

from subtune.analysis import significance
from tests.helpers.examples import scored


def test_groups_without_any_difference_are_not_different():
    assert significance.kruskal_wallis([0.5, 0.5], [0.5, 0.5]) == 1.0


def test_methods_are_paired_by_task():
    rows = [
        (task, method, 1.0, None, 1e-3, 0, value + (0.1 if method == "full" else 0.0))
        for value, task in enumerate(("rte", "cola", "mrpc", "sst2", "qnli", "qqp"))
        for method in ("full", "bitfit")
    ]
    [row] = significance.paired_tests(scored(*rows)).to_dict("records")
    assert row["pairs"] == 6
    assert row["mean_difference"] == pytest.approx(0.1)
    # All six differences have one sign: two of the 2^6 ways.
    assert row["p_value"] == pytest.approx(2 / 64)


def test_repeats_have_a_variance_and_single_runs_none():
    rows = [("rte", "b_m2,b_q", 1.0, None, 1e-3, seed, v) for seed, v in enumerate((0.6, 0.7, 0.8))]
    rows.append(("rte", "bitfit", 1.0, None, 1e-3, 0, 0.7))
    [row] = significance.repeat_variance(scored(*rows)).to_dict("records")
    assert (row["method"], row["seeds"]) == ("b_m2,b_q", 3)
    assert row["variance"] == pytest.approx(0.01)
