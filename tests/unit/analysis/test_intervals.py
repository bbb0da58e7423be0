"""Intervals over seeds and rows, compared with textbook formulas and simulations."""

import numpy as np
import pandas as pd
import pytest
import scipy
from sklearn.metrics import f1_score

from subtune.analysis import intervals


def crossed_values(generator, seeds, parts, seed_spread=0.1, part_spread=0.3, residual_spread=0.2):
    """Values with a mean of 0 and these standard deviations ``[seeds, parts]``."""
    by_seed = generator.normal(0, seed_spread, (seeds, 1))
    by_part = generator.normal(0, part_spread, (1, parts))
    return by_seed + by_part + generator.normal(0, residual_spread, (seeds, parts))


def test_variances_equal_a_slow_and_obvious_analysis_of_variance():
    values = crossed_values(np.random.default_rng(1), 4, 9)
    table = pd.DataFrame(
        [(s, p, values[s, p]) for s in range(4) for p in range(9)], columns=["seed", "part", "x"]
    )
    mean = table["x"].mean()
    seeds, parts = (table.groupby(name)["x"].mean() for name in ("seed", "part"))
    rest = table["x"] - table["seed"].map(seeds) - table["part"].map(parts) + mean
    residual_variance = (rest**2).sum() / (3 * 8)
    study = intervals.estimate_study(values.mean(1).tolist(), values, 90)
    assert study.mean == pytest.approx(mean)
    variances = seeds.var() - residual_variance / 9, parts.var() - residual_variance / 4
    assert study.variances == pytest.approx((*variances, residual_variance))


def half_width(study):
    found = intervals.mean_interval([study])
    return (found.high - found.low) / 2


def students(values):
    """Half of the width of Student's interval of a mean."""
    found = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return (found.high - found.low) / 2


def test_the_interval_of_one_seed_or_fold_is_students_over_parts_of_rows():
    values = crossed_values(np.random.default_rng(0), 1, 50)
    study = intervals.estimate_study([float(values.mean())], values, 200)
    assert half_width(study) == pytest.approx(students(values[0]))
    of_fold = intervals.estimate_nested_study([float(values.mean())], values, 80, 1)
    assert half_width(of_fold) == pytest.approx(students(values[0]))
    # Differences between seeds are not known, so more seeds do not help.
    assert intervals.additional_seeds_needed([study], 0.0) is None


def test_seeds_that_do_not_differ_leave_an_interval_over_parts_of_rows():
    generator = np.random.default_rng(0)
    values = generator.normal(0, 0.3, 50) + generator.normal(0, 0.2, (3, 50))
    values -= values.mean(1, keepdims=True)
    study = intervals.estimate_study([0.0] * 3, values, 50)
    assert study.variances.seeds == 0
    assert half_width(study) == pytest.approx(students(values.mean(0)))


def test_folds_that_differ_have_students_interval_others_that_of_rows():
    generator = np.random.default_rng(0)
    rows = generator.normal(0, 1, (5, 40))
    alike = rows - rows.mean(1, keepdims=True)
    differing = alike + np.arange(5)[:, None]
    by_folds, by_rows = (
        intervals.estimate_nested_study(values.mean(1).tolist(), values, 200, 5)
        for values in (differing, alike)
    )
    assert half_width(by_folds) == pytest.approx(students(differing.mean(1)))
    assert half_width(by_rows) == pytest.approx(students(alike.ravel()), rel=0.02)
    # The same rows in other folds add no information about rows, but more folds do.
    assert half_width(by_rows._replace(seeds=10)) == pytest.approx(half_width(by_rows), rel=0.01)
    assert by_rows._replace(seeds=3).error()[0] == pytest.approx(5 / 3 * by_rows.error()[0])


def coverage(studies):
    """How often the intervals of studies contain the true mean, 0."""
    found = [intervals.mean_interval([study]) for study in studies]
    return np.mean([interval.low <= 0 <= interval.high for interval in found])


@pytest.mark.parametrize(("folds", "least"), [(2, 0.9), (3, 0.93), (5, 0.93)])
def test_the_interval_of_folds_covers_the_truth_nearly_as_often_as_it_says(folds, least):
    generator, studies = np.random.default_rng(0), []
    for fold_spread in np.repeat([0.0, 0.05, 0.1], 300):
        fold_effects = generator.normal(0, fold_spread, (folds, 1))
        values = fold_effects + generator.normal(0, 0.4, (folds, 40))
        means = values.mean(1).tolist()
        studies.append(intervals.estimate_nested_study(means, values, 40 * folds, folds))
    assert least <= coverage(studies) <= 0.98


@pytest.mark.parametrize(("seeds", "seed_spread", "part_spread"), [(5, 0.1, 0.3), (10, 0.0, 0.5)])
def test_the_interval_covers_the_truth_nearly_as_often_as_it_says(seeds, seed_spread, part_spread):
    generator, studies = np.random.default_rng(0), []
    for _ in range(500):
        values = crossed_values(generator, seeds, 50, seed_spread, part_spread)
        studies.append(intervals.estimate_study(values.mean(1).tolist(), values, 50))
    assert 0.93 <= coverage(studies) <= 0.98


def test_a_fold_without_a_score_leaves_no_interval_and_no_chance():
    values = np.random.default_rng(0).normal(0, 1, (5, 40))
    values[2] = np.nan
    study = intervals.estimate_nested_study(values.mean(1).tolist(), values, 200, 5)
    numbers = [
        *intervals.mean_interval([study]),
        intervals.probability_within([study], 1),
        intervals.loss_bound([study]),
    ]
    assert np.isnan(numbers).all()


@pytest.mark.parametrize("sign", [1, -1], ids=["above", "below"])
def test_more_seeds_or_more_rows_would_decide_on_which_side_of_the_margin(sign):
    values = crossed_values(np.random.default_rng(0), 4, 50)
    study = intervals.estimate_study(values.mean(1).tolist(), values, 200)
    most, lost = intervals.loss_bound([study]), -study.mean

    def sureness(margin, *more):
        chance = intervals.probability_within([study], margin, *more)
        assert (chance > 0.5) == (sign > 0)
        return max(chance, 1 - chance)

    margin = lost + sign * 0.95 * (most - lost)
    seeds = intervals.additional_seeds_needed([study], margin)
    assert sureness(margin, seeds - 1) < 0.95 <= sureness(margin, seeds)
    margin = lost + sign * 0.9 * (most - lost)
    rows = intervals.additional_rows_needed([study], margin) / 200
    assert sureness(margin, 0, 1 + rows / 2) < 0.95 <= sureness(margin, 0, 1 + rows)
    assert (
        intervals.additional_seeds_needed([study], lost) is None
        and intervals.additional_rows_needed([study], lost) is None
    )


def test_folds_of_different_sizes_have_their_own_parts():
    generator = np.random.default_rng(0)
    folds = [generator.normal(0, 0.1, parts) for parts in (11, 9, 9)]
    values = np.full((3, 50), np.nan)
    for row, fold in zip(values, folds, strict=True):
        row[: len(fold)] = fold
    differences = [fold.mean() for fold in folds]
    mean_variance = np.mean([fold.var(ddof=1) / len(fold) for fold in folds])
    study = intervals.estimate_nested_study(differences, values, 29, 3)
    error, degrees = study.error()
    assert error == pytest.approx(max(np.var(differences, ddof=1), mean_variance) / 3)
    if np.var(differences, ddof=1) < mean_variance:
        assert degrees == pytest.approx(26)


def test_a_fold_of_one_row_leaves_an_interval_over_seeds():
    values = np.full((3, 50), np.nan)
    values[:2, :5], values[2, 0] = np.random.default_rng(0).normal(size=(2, 5)), 1
    differences = [0.1, 0.2, 0.4]
    study = intervals.estimate_nested_study(differences, values, 11, 3)
    assert study == intervals.estimate_study(differences, None, 0)


def test_more_seeds_of_folds_are_whole_partitions():
    values = np.random.default_rng(0).normal(-0.01, 0.05, (5, 40))
    values += np.array([[0.01], [-0.01], [0.02], [-0.02], [0]])
    study = intervals.estimate_nested_study(values.mean(1).tolist(), values, 200, 5)
    margin = 0.999 * intervals.loss_bound([study])
    assert intervals.additional_seeds_needed([study], margin) == 5


def test_pseudo_values_of_a_mean_are_the_rows_and_of_f1_near_it():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 40)
    predicted = np.where(generator.random(40) < 0.8, labels, 1 - labels)
    right = (predicted == labels).astype(float)
    values = intervals.compute_pseudo_values(lambda mask: right[mask].mean(), np.arange(40), 40)
    assert values == pytest.approx(right)

    def f1(mask):
        return f1_score(labels[mask], predicted[mask])

    values = intervals.compute_pseudo_values(f1, np.arange(40), 40)
    assert values.mean() == pytest.approx(f1(np.ones(40, bool)), abs=0.01)
