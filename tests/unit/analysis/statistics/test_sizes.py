"""Differences of scores by the number of training rows."""

import math

import pandas as pd
import pytest

from subtune.papers.bitfit.claims import minus_by_rows, minus_on_rows
from tests.helpers.examples import scored


def sizes(values, metric="exact_match", **columns):
    """Scores of methods on SQuAD: method to number of training rows to score."""
    parts = [
        scored(("squad", method, 1.0, None, 1e-3, 0, value)).assign(train_rows=rows)
        for method, by_rows in values.items()
        for rows, value in by_rows.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(metric=metric, **columns)


# The curves cross between 100 and 1,000 rows.
CROSSING = {
    "full": {10: 0.1, 100: 0.4, 1000: 0.8},
    "bitfit": {10: 0.3, 100: 0.5, 1000: 0.7},
}


def test_methods_are_compared_on_the_fewest_and_on_the_most_rows():
    table = sizes(CROSSING)
    fewest = minus_on_rows(table, "exact_match", "min", "bitfit", "full")
    assert fewest.tolist() == pytest.approx([0.2])
    assert fewest.index.names == ["model", "column", "seed"]
    most = minus_on_rows(table, "exact_match", "max", "full", "bitfit")
    assert most.tolist() == pytest.approx([0.1])


def test_a_difference_that_grows_with_every_number_of_rows_has_rank_correlation_1():
    cells = minus_by_rows(sizes(CROSSING), "exact_match", "full", "bitfit")
    assert cells.tolist() == pytest.approx([1])
    assert cells.index.names == ["model", "column", "seed"]


def test_scores_in_another_metric_are_not_compared():
    table = pd.concat([sizes(CROSSING), sizes({"full": {10: 0.9}, "bitfit": {10: 0.1}}, "f1")])
    fewest = minus_on_rows(table, "exact_match", "min", "bitfit", "full")
    assert fewest.tolist() == pytest.approx([0.2])
    assert minus_on_rows(table, "accuracy", "min", "bitfit", "full").empty


def test_a_single_number_of_rows_is_nothing_to_ask_of():
    table = sizes({"full": {10: 0.1}, "bitfit": {10: 0.3}})
    assert minus_on_rows(table, "exact_match", "min", "bitfit", "full").empty
    assert minus_on_rows(table, "exact_match", "max", "bitfit", "full").empty
    assert minus_by_rows(table, "exact_match", "bitfit", "full").empty


def test_a_run_on_the_fewest_rows_that_diverged_is_not_replaced_by_one_on_more():
    table = sizes(CROSSING | {"bitfit": {10: math.nan, 100: 0.5, 1000: 0.7}})
    assert minus_on_rows(table, "exact_match", "min", "bitfit", "full").empty
    assert minus_by_rows(table, "exact_match", "bitfit", "full").empty
