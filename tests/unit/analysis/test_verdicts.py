"""Verdicts: intervals, their units, and claims that hold."""

import math

import pandas as pd
import pytest

from subtune.analysis import verdicts
from subtune.analysis.verdicts import NOT_SUPPORTED, SUPPORTED, UNDECIDED, Interval


@pytest.mark.parametrize(
    ("kind", "low", "high", "margin", "verdict"),
    [
        ("more", 0.01, 0.30, 0.02, SUPPORTED),
        ("more", -0.10, 0.01, 0.02, NOT_SUPPORTED),
        ("more", -0.10, 0.10, 0.02, UNDECIDED),
        ("same", -0.01, 0.01, 0.02, SUPPORTED),
        ("same", -0.30, -0.03, 0.02, NOT_SUPPORTED),
        ("same", 0.03, 0.30, 0.02, NOT_SUPPORTED),
        ("same", -0.30, 0.01, 0.02, UNDECIDED),
        ("no less", -0.01, 0.30, 0.02, SUPPORTED),
        ("no less", -0.30, -0.03, 0.02, NOT_SUPPORTED),
        ("no less", -0.30, 0.30, 0.02, UNDECIDED),
        ("no less", 0.0, 0.0, 0.0, SUPPORTED),
    ],
)
def test_a_verdict_follows_from_where_the_interval_lies(kind, low, high, margin, verdict):
    assert verdicts.verdict(kind, Interval((low + high) / 2, low, high), margin) == verdict


def test_fewer_than_three_units_are_not_enough():
    found = verdicts.interval([0.5, 0.6])
    assert found.mean == 0.55 and math.isnan(found.low)
    assert verdicts.verdict("more", found, 0.02) == UNDECIDED
    assert math.isnan(verdicts.interval([]).mean)


@pytest.mark.parametrize(
    ("kind", "value", "holds"),
    [
        ("more", 0.001, True),
        ("more", 0.0, False),
        ("same", 0.019, True),
        ("same", -0.02, False),
        ("no less", -0.02, True),
        ("no less", -0.021, False),
    ],
)
def test_a_number_holds_by_the_claims_kind(kind, value, holds):
    assert verdicts.holds(kind, value, 0.02) is holds


def cells(*rows):
    index = pd.MultiIndex.from_tuples([row[:3] for row in rows], names=["model", "column", "seed"])
    return pd.Series([row[3] for row in rows], index=index)


def test_units_are_seeds_where_there_are_three_each_the_mean_over_tasks():
    unit, units = verdicts.units(
        cells(*(("m", t, s, base + s / 10) for t, base in (("a", 0), ("b", 1)) for s in (0, 1, 2)))
    )
    assert unit == "seed" and units.tolist() == pytest.approx([0.5, 0.6, 0.7])


def test_units_are_tasks_where_there_are_fewer_seeds():
    unit, units = verdicts.units(cells(("m", "a", 0, 0.2), ("m", "a", 1, 0.4), ("m", "b", 0, 0.1)))
    assert unit == "task" and units.tolist() == pytest.approx([0.3, 0.1])
    unit, _ = verdicts.units(cells(("m", "a", 0, 0.2), ("n", "a", 0, 0.4), ("n", "b", 0, 0.1)))
    assert unit == "model × task"


def test_a_seed_without_one_of_the_tasks_is_no_unit():
    rows = [("m", t, s, 0.1 * s) for t in ("a", "b") for s in range(4)]
    unit, units = verdicts.units(cells(*rows[:-1]))
    assert unit == "seed" and list(units.index) == [0, 1, 2]
