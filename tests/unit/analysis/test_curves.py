"""Verdicts on learning curves, worked out by hand."""

import numpy as np
import pytest

from subtune.analysis.curves import CONVERGED, FELL, STILL_RISING, verdict

# The standard error of an accuracy of a half is 0.05.
ROWS = 100


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.5, 0.7, 0.8], STILL_RISING),
        ([0.5, 0.76, 0.8], CONVERGED),
        ([0.8, 0.7, 0.74], FELL),
        ([0.8, 0.7, 0.76], CONVERGED),
        # Over the last third, two epochs, the score rises by 0.06.
        ([0.1, 0.2, 0.3, 0.74, 0.77, 0.8], STILL_RISING),
        # The best epoch is in the last third.
        ([0.1, 0.2, 0.3, 0.4, 0.8, 0.7], CONVERGED),
        ([0.5, 0.8], STILL_RISING),
        ([0.8, 0.5], FELL),
        ([0.8], None),
    ],
)
def test_a_run_rises_or_falls_by_more_than_the_noise_of_its_rows(curve, expected):
    assert verdict([curve], ROWS) == expected


@pytest.mark.parametrize(
    ("rises", "expected"),
    # Their mean is 0.02, four standard errors: less than Student's 4.30 for three seeds.
    [
        ([0.019, 0.02, 0.021], STILL_RISING),
        ([0.0113, 0.02, 0.0287], CONVERGED),
        ([0.0121, 0.02, 0.0279], STILL_RISING),
    ],
)
def test_several_seeds_have_students_interval_whatever_the_rows(rises, expected):
    curves = [[0.5, 0.7, 0.7 + rise] for rise in rises]
    assert {verdict(curves, rows) for rows in (10, 10_000)} == {expected}


def test_two_seeds_are_too_few_for_an_interval():
    assert verdict([[0.7, 0.72], [0.7, 0.721]], ROWS) == CONVERGED


def test_runs_that_ended_early_are_aligned_at_their_last_epochs():
    curves = [[0.1, 0.2, 0.8, 0.5], [0.9, 0.6], [0.2, 0.8, 0.51]]
    assert verdict(curves, ROWS) == FELL
    assert verdict([curve[::-1] for curve in curves], ROWS) == CONVERGED


@pytest.mark.parametrize(("seeds", "epochs"), [(1, 3), (1, 8), (5, 3), (5, 8)])
def test_flat_curves_seldom_rise_or_fall(seeds, epochs):
    """The answers to a tenth of the rows are random in each epoch; the others do not change."""
    generator = np.random.default_rng(0)
    undecided = generator.binomial(ROWS // 10, 0.5, (1000, seeds, epochs))
    verdicts = [verdict(curves, ROWS) for curves in 0.7 + undecided / ROWS]
    assert verdicts.count(STILL_RISING) < 30
    assert verdicts.count(FELL) < 100
