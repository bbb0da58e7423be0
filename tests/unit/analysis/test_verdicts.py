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


SEEDS_OF_TWO_TASKS = [("m", task, seed, n + seed / 10) for n, task in enumerate("ab")
                      for seed in range(4)]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "unit", "means"),
    [
        # Each seed's mean over tasks; a seed that lacks one of the tasks is left out.
        (SEEDS_OF_TWO_TASKS, "seed", [0.5, 0.6, 0.7, 0.8]),
        (SEEDS_OF_TWO_TASKS[:-1], "seed", [0.5, 0.6, 0.7]),
        ([("m", "a", 0, 0.2), ("m", "a", 1, 0.4), ("m", "b", 0, 0.1)], "task", [0.3, 0.1]),
        (
            [("m", "a", 0, 0.2), ("n", "a", 0, 0.4), ("n", "b", 0, 0.1)],
            "model × task",
            [0.2, 0.4, 0.1],
        ),
    ],
)
def test_units_are_seeds_where_there_are_three_and_otherwise_tasks(cells, unit, means):
    table = pd.DataFrame(cells, columns=["model", "column", "seed", "value"])
    found = verdicts.units(table.set_index(["model", "column", "seed"])["value"])
    assert found[0] == unit and found[1].tolist() == pytest.approx(means)
