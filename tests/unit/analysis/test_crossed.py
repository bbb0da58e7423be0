"""Intervals over seeds and rows, beside textbook formulas and simulated truth."""

import numpy as np
import pandas as pd
import pytest
import scipy
from sklearn.metrics import f1_score

from subtune.analysis import crossed


def crossed_values(generator, seeds, parts, of_seeds=0.1, of_parts=0.3, of_rest=0.2):
    """Values with a mean of 0 and these standard deviations ``[seeds, parts]``."""
    by_seed = generator.normal(0, of_seeds, (seeds, 1))
    by_part = generator.normal(0, of_parts, (1, parts))
    return by_seed + by_part + generator.normal(0, of_rest, (seeds, parts))


def test_the_variances_are_those_of_a_slow_and_obvious_analysis_of_variance():
    values = crossed_values(np.random.default_rng(1), 4, 9)
    table = pd.DataFrame(
        [(s, p, values[s, p]) for s in range(4) for p in range(9)], columns=["seed", "part", "x"]
    )
    mean = table["x"].mean()
    seeds, parts = (table.groupby(name)["x"].mean() for name in ("seed", "part"))
    rest = table["x"] - table["seed"].map(seeds) - table["part"].map(parts) + mean
    of_rest = (rest**2).sum() / (3 * 8)
    study = crossed.study(values.mean(1).tolist(), values, 90)
    assert study.mean == pytest.approx(mean)
    assert study.of_rest == pytest.approx(of_rest)
    assert study.of_seeds == pytest.approx(seeds.var() - of_rest / 9)
    assert study.of_parts == pytest.approx(parts.var() - of_rest / 4)


def test_without_rows_the_interval_is_students_over_seeds():
    differences = [0.01, 0.03, -0.02, 0.0]
    found = crossed.interval([crossed.study(differences, None, 0)])
    expected = scipy.stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("seeds", "of_seeds", "of_parts"), [(5, 0.1, 0.3), (10, 0.0, 0.5)])
def test_the_interval_covers_the_truth_nearly_as_often_as_it_says(seeds, of_seeds, of_parts):
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(500):
        values = crossed_values(generator, seeds, 50, of_seeds, of_parts)
        found = crossed.interval([crossed.study(values.mean(1).tolist(), values, 50)])
        covered.append(found.low <= 0 <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.98


def test_more_seeds_or_more_rows_make_the_margin_that_was_asked_for_sure():
    values = crossed_values(np.random.default_rng(0), 4, 50)
    study = crossed.study(values.mean(1).tolist(), values, 200)
    most, lost = crossed.most_lost([study]), -study.mean
    margin = lost + 0.95 * (most - lost)
    seeds = crossed.more_seeds([study], margin)
    wider, enough = (crossed.most_lost([study], more) for more in (seeds - 1, seeds))
    assert enough <= margin < wider
    margin = lost + 0.9 * (most - lost)
    rows = crossed.more_rows(study, margin)
    assert crossed.most_lost([study], 0, 1 + rows / 200) <= margin
    assert crossed.more_seeds([study], lost) is None and crossed.more_rows(study, lost) is None


def test_pseudo_values_of_a_mean_are_the_rows_and_of_f1_near_it():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 40)
    predicted = np.where(generator.random(40) < 0.8, labels, 1 - labels)
    right = (predicted == labels).astype(float)
    values, rows = crossed.pseudo_values(lambda mask: right[mask].mean(), np.arange(40))
    assert rows == 40 and sorted(values.round(9)) == sorted(right)

    def f1(mask):
        return f1_score(labels[mask], predicted[mask])

    values, _ = crossed.pseudo_values(f1, np.arange(40))
    assert values.mean() == pytest.approx(f1(np.ones(40, bool)), abs=0.01)
