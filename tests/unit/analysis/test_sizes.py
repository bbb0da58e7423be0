"""Differences of scores by the number of training rows."""

import math

import pandas as pd
import pytest

from subtune.analysis.statistics import minus_by_rows, minus_on_rows
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
CROSSING = {"full": {10: 0.1, 100: 0.4, 1000: 0.8}, "bitfit": {10: 0.3, 100: 0.5, 1000: 0.7}}


def test_methods_are_compared_on_the_fewest_and_on_the_most_rows_and_over_all():
    """A difference that grows with every number of rows has the rank correlation 1."""
    table = sizes(CROSSING)
    fewest = minus_on_rows(table, "exact_match", "min", "bitfit", "full")
    assert fewest.tolist() == pytest.approx([0.2])
    most = minus_on_rows(table, "exact_match", "max", "full", "bitfit")
    assert most.tolist() == pytest.approx([0.1])
    cells = minus_by_rows(table, "exact_match", "full", "bitfit")
    assert cells.tolist() == pytest.approx([1])
    assert cells.index.names == fewest.index.names == ["model", "column", "seed"]


def test_scores_in_another_metric_are_not_compared():
    table = pd.concat([sizes(CROSSING), sizes({"full": {10: 0.9}, "bitfit": {10: 0.1}}, "f1")])
    fewest = minus_on_rows(table, "exact_match", "min", "bitfit", "full")
    assert fewest.tolist() == pytest.approx([0.2])
    assert minus_on_rows(table, "accuracy", "min", "bitfit", "full").empty
    deciding = table.assign(decides=table["metric"] == "exact_match")
    assert minus_on_rows(deciding, None, "min", "bitfit", "full").equals(fewest)


@pytest.mark.parametrize(
    ("curves", "ends"),
    [
        ({"full": {10: 0.1}, "bitfit": {10: 0.3}}, ["min", "max"]),
        (CROSSING | {"bitfit": {10: math.nan, 100: 0.5, 1000: 0.7}}, ["min"]),
    ],
    ids=["one number of rows", "diverged on the fewest"],
)
def test_without_scores_on_the_fewest_and_on_more_rows_nothing_is_compared(curves, ends):
    table = sizes(curves)
    assert all(minus_on_rows(table, "exact_match", end, "bitfit", "full").empty for end in ends)
    assert minus_by_rows(table, "exact_match", "bitfit", "full").empty
