"""Intervals and chances of a mean over crossed seeds and rows: each seed is scored on all rows.

A value is the grand mean plus an effect of its seed, an effect of its row, and a residual. Their
variances are estimated by the analysis of variance with random effects (Searle, Casella and
McCulloch, 1992, section 4.3); negative estimates count as 0. Degrees of freedom are Satterthwaite's
(1946). In cross-validation, rows are nested in seeds. If a metric is not a mean over rows, the
jackknife's pseudo-values (Tukey, 1958) replace the values of rows.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
# The number of parts of the rows: a metric is computed once per part, not once per row.
JACKKNIFE_PARTS = 50
# The largest suggested study: its seeds, and its rows as a multiple of the present rows.
MOST_SEEDS, MOST_TIMES_THE_ROWS = 50, 50


class Interval(NamedTuple):
    """A mean and the ends of its interval, which are NaN if there are too few values."""

    mean: float
    low: float
    high: float


class Study(NamedTuple):
    """A mean, and its variance components: seeds, parts of the rows, and residuals.

    If ``parts`` is 0, rows are unknown, and the interval is over seeds alone. If ``folds`` is not
    0, the rows are divided into this many folds, each seed is scored on its own fold, and ``parts``
    is the mean number of parts per fold. Seeds beyond the first ``folds`` use another partition of
    the same rows.
    """

    mean: float
    seed_variance: float
    part_variance: float
    residual_variance: float
    seeds: int
    parts: float
    rows: int
    folds: int = 0

    def error(self, more_seeds: int = 0, times_the_rows: float = 1) -> tuple[float, float]:
        """Return the variance of the mean, with more seeds or rows, and its degrees of freedom."""
        seeds, parts = self.seeds + more_seeds, self.parts
        seed_share = self.seed_variance / seeds
        # Each mean square's contribution to the variance, and its degrees of freedom. The mean
        # square of seeds contributes nothing if their variance is 0.
        shares: list[tuple[float, float]] = [(seed_share, seeds - 1)]
        if parts:
            part_share = self.part_variance / times_the_rows / parts
            residual = self.residual_variance / times_the_rows / (seeds * parts)
            shares = [(part_share + residual, parts - 1)]
            if self.seed_variance:
                shares += [(seed_share + residual, seeds - 1)]
                shares += [(-residual, (seeds - 1) * (parts - 1))]
            if self.folds:
                once = part_share / min(seeds, self.folds)
                again = part_share / seeds if self.seed_variance else 0
                shares = [(once - again, seeds * (parts - 1)), (seed_share + again, seeds - 1)]
        variance = sum(share for share, _ in shares)
        spread = sum(share**2 / degrees for share, degrees in shares if share)
        return variance, variance**2 / spread if spread else math.inf


def estimate_study(differences: Sequence[float], values: np.ndarray | None, rows: int) -> Study:
    """Estimate the variances of a mean difference.

    With one seed, the variance is that of its parts; it does not include differences between seeds.

    Args:
        differences: the mean difference of each seed. Without ``values``, at least two seeds.
        values: ``[seeds, parts]``; their means over parts are nearly the differences. Without
            ``values``, rows are unknown.
        rows: the number of rows in all parts.
    """
    mean, seeds = float(np.mean(differences)), len(differences)
    if values is None:
        return Study(mean, float(np.var(differences, ddof=1)), 0, 0, seeds, 0, 0)
    parts = values.shape[1]
    by_seed, by_part = values.mean(1, keepdims=True), values.mean(0, keepdims=True)
    if seeds == 1:
        return Study(mean, 0, float(by_part.var(ddof=1)), 0, seeds, parts, rows)
    residuals = values - by_seed - by_part + values.mean()
    residual_variance = float((residuals**2).sum() / ((seeds - 1) * (parts - 1)))
    seed_variance = max(0.0, float(by_seed.var(ddof=1)) - residual_variance / parts)
    part_variance = max(0.0, float(by_part.var(ddof=1)) - residual_variance / seeds)
    return Study(mean, seed_variance, part_variance, residual_variance, seeds, parts, rows)


def estimate_nested_study(
    differences: Sequence[float], values: np.ndarray, rows: int, folds: int
) -> Study:
    """Estimate a mean difference's variances in cross-validation: rows are nested in seeds.

    If a fold has no score, there is no interval. If a fold has too few rows to have parts, the
    interval is over seeds alone. With one fold, the variance is that of its parts; it does not
    include differences between folds.

    Args:
        differences: one per seed, each on its own fold.
        values: ``[seeds, parts]``; their means over parts are nearly the differences. If a fold
            has fewer parts, the others are NaN.
        rows: the number of rows in these folds; rows that no seed is scored on are missing.
        folds: how many folds the seeds are scored on.
    """
    seeds, mean, counts = len(differences), float(np.mean(differences)), np.isfinite(values).sum(1)
    if counts.min() < 2:
        return estimate_study(differences, None, 0)
    mean_variance = float((np.nanvar(values, 1, ddof=1) / counts).mean())
    variance = np.var(differences, ddof=1) if seeds > 1 else mean_variance
    # Unlike max, np.maximum keeps NaN.
    seed_variance = float(np.maximum(0, variance - mean_variance))
    parts = float(counts.mean())
    return Study(mean, seed_variance, mean_variance * parts, 0, seeds, parts, rows, folds)


def mean_interval(studies: Sequence[Study]) -> Interval:
    """Return the mean over studies, such as tasks, and its interval."""
    from scipy import stats

    mean, error, degrees = _mean(studies)
    half = float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * error
    if error == 0:
        half = max((3 / study.rows for study in studies if study.rows), default=0)
    return Interval(mean, mean - half, mean + half)


def chance_within(studies: Sequence[Study], margin: float) -> float:
    """Return the chance that the mean over studies is at least minus ``margin``.

    Without studies, the chance is NaN.
    """
    from scipy import stats

    if not studies:
        return math.nan
    mean, error, degrees = _mean(studies)
    distance = mean + margin
    if error == 0:
        rows = min(study.rows for study in studies) or math.inf
        return 1 - math.exp(-rows * distance) if distance > 0 else 0.0
    return float(stats.t.cdf(distance / error, degrees))


def most_lost(studies: Sequence[Study], more_seeds: int = 0, times_the_rows: float = 1) -> float:
    """Return the loss that is not exceeded with a chance of `LEVEL`.

    With more seeds or rows, the mean and the variances are assumed to stay the same. Without
    studies, the loss is NaN.
    """
    from scipy import stats

    if not studies:
        return math.nan
    mean, error, degrees = _mean(studies, more_seeds, times_the_rows)
    if error == 0:
        rows = min(study.rows for study in studies) * times_the_rows or math.inf
        return -math.log(1 - LEVEL) / rows - mean
    return float(stats.t.ppf(LEVEL, degrees)) * error - mean


def _mean(
    studies: Sequence[Study], more_seeds: int = 0, times_the_rows: float = 1
) -> tuple[float, float, float]:
    """Return the mean over studies, its standard error, and the error's degrees of freedom.

    If no row differs, the error is 0, and the rule of three holds: an event with rate p is unseen
    in n rows with a chance of exp(-n p) (Hanley and Lippman-Hand, 1983).
    """
    mean = float(np.mean([study.mean for study in studies]))
    errors = [study.error(more_seeds, times_the_rows) for study in studies]
    variance = sum(v for v, _ in errors)
    spread = sum(v**2 / degrees for v, degrees in errors)
    # A variance so small that its square is 0 counts as 0.
    if spread == 0:
        return mean, 0.0, math.inf
    return mean, math.sqrt(variance) / len(errors), variance**2 / spread


def additional_seeds_needed(studies: Sequence[Study], margin: float) -> int | None:
    """Return how many more seeds make the loss at most ``margin`` with a chance of `LEVEL`.

    In cross-validation, seeds are added in steps of a whole partition. The number is None if it is
    unknown, or if there would be more than `MOST_SEEDS` seeds.
    """
    seeds = min((study.seeds for study in studies), default=1)
    step = max((study.folds for study in studies), default=0) or 1
    tried = range(step, MOST_SEEDS - seeds + 1, step) if seeds > 1 else ()
    return next((more for more in tried if most_lost(studies, more) <= margin), None)


def additional_rows_needed(study: Study, margin: float) -> int | None:
    """Return how many more rows make the loss at most ``margin`` with a chance of `LEVEL`.

    The number is rounded up to two digits. It is None if it is unknown, or if there would be more
    than `MOST_TIMES_THE_ROWS` times the present rows.
    """
    if not study.parts:
        return None
    for times in np.geomspace(1.05, MOST_TIMES_THE_ROWS, 100):
        if most_lost([study], 0, times) <= margin:
            more = (times - 1) * study.rows
            digits = 10 ** max(0, math.floor(math.log10(more)) - 1)
            return math.ceil(more / digits) * digits
    return None


def pseudo_values(
    score: Callable[[np.ndarray], float], part_of_unit: np.ndarray, parts: int
) -> np.ndarray:
    """Return a score's pseudo-value for each part of the rows ``[parts]``.

    Args:
        score: a function of a mask ``[u]``: the metric over the units where the mask is ``True``.
        part_of_unit: the part, from 0, of each unit ``[u]`` that the metric compares, such as a
            word; a row's units are in one part.
    """
    whole = score(np.ones(len(part_of_unit), bool))
    without = np.array([score(part_of_unit != part) for part in range(parts)])
    return parts * whole - (parts - 1) * without
