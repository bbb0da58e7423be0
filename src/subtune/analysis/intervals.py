"""Compute intervals and probabilities for a mean difference of scores over seeds and examples.

Seeds and examples are crossed: the value of an example with a seed is the grand mean plus an effect
of the seed, an effect of the example, and a residual. The variances of these three terms are
estimated by the analysis of variance with random effects (Searle, Casella and McCulloch, 1992,
section 4.3); negative estimates count as 0. Degrees of freedom are computed by Satterthwaite's
method (1946). In cross-validation, examples are nested in seeds. Jackknife pseudo-values (Tukey,
1958) replace the values of examples, because a metric need not be a mean over examples.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
# The jackknife splits the examples into this many parts and leaves out one part at a time. Leaving
# out one example at a time would be slow.
JACKKNIFE_PARTS = 50
# The largest suggested number of seeds, and of examples as a multiple of their present number.
MOST_SEEDS, MOST_TIMES_THE_ROWS = 50, 50


class Interval(NamedTuple):
    """A mean and its 95 % interval. With too few values, the ends of the interval are NaN."""

    mean: float
    low: float
    high: float


class Variances(NamedTuple):
    """The variances of the effects of seeds, of the effects of parts, and of the residuals."""

    seeds: float
    parts: float
    residuals: float


class Study(NamedTuple):
    """A mean difference, with its variance components and the size of the sample.

    Attributes:
        seeds: the number of seeds; in cross-validation, the number of runs.
        parts: the number of parts, which are groups of examples; in cross-validation, the mean
            number of parts per fold. If the scores of parts are unknown, this is 0, and the
            interval accounts for seeds only.
        rows: the number of examples.
        folds: the number of folds, each with its own seeds; 0 without cross-validation. Seeds
            beyond this number use further partitions of the examples.
    """

    mean: float
    variances: Variances
    seeds: int
    parts: float
    rows: int
    folds: int = 0

    def error(self, more_seeds: int = 0, times_the_rows: float = 1) -> tuple[float, float]:
        """Compute the squared standard error of the mean, and its degrees of freedom."""
        seeds, parts, variances = self.seeds + more_seeds, self.parts, self.variances
        seed_share = variances.seeds / seeds
        part_share = variances.parts / times_the_rows / parts if parts else 0
        # Each pair is the contribution of a mean square to the variance, and its degrees of
        # freedom. If the variance of seeds is 0, the mean square of seeds contributes 0.
        shares: list[tuple[float, float]]
        if not parts:
            shares = [(seed_share, seeds - 1)]
        elif self.folds:
            # Further partitions score the same examples again. So the variance due to examples is
            # divided by the number of folds (``once``), but the variance between runs contains it
            # divided by the number of runs (``again``).
            once = part_share / min(seeds, self.folds)
            again = part_share / seeds if variances.seeds else 0
            shares = [(once - again, seeds * (parts - 1)), (seed_share + again, seeds - 1)]
        else:
            residual = variances.residuals / times_the_rows / (seeds * parts)
            shares = [(part_share + residual, parts - 1)]
            if variances.seeds:
                shares += [(seed_share + residual, seeds - 1)]
                shares += [(-residual, (seeds - 1) * (parts - 1))]
        variance = sum(share for share, _ in shares)
        spread = sum(share**2 / degrees for share, degrees in shares if share)
        return variance, variance**2 / spread if spread else math.inf


def estimate_study(differences: Sequence[float], values: np.ndarray | None, rows: int) -> Study:
    """Estimate variance components if seeds and examples are crossed.

    ``values`` are the pseudo-values of each seed's difference ``[seeds, parts]``; without them,
    there must be at least two ``differences``. With one seed, the variance between seeds is not
    included.
    """
    mean, seeds = float(np.mean(differences)), len(differences)
    if values is None:
        variances = Variances(float(np.var(differences, ddof=1)), 0, 0)
        return Study(mean, variances, seeds, parts=0, rows=0)
    parts = values.shape[1]
    by_seed, by_part = values.mean(1, keepdims=True), values.mean(0, keepdims=True)
    if seeds == 1:
        return Study(mean, Variances(0, float(by_part.var(ddof=1)), 0), seeds, parts, rows)
    residuals = values - by_seed - by_part + values.mean()
    of_residuals = float((residuals**2).sum() / ((seeds - 1) * (parts - 1)))
    of_seeds = max(0.0, float(by_seed.var(ddof=1)) - of_residuals / parts)
    of_parts = max(0.0, float(by_part.var(ddof=1)) - of_residuals / seeds)
    return Study(mean, Variances(of_seeds, of_parts, of_residuals), seeds, parts, rows)


def estimate_nested_study(
    differences: Sequence[float], values: np.ndarray, rows: int, folds: int
) -> Study:
    """Estimate variance components in cross-validation, where each seed is scored on its own fold.

    If a fold has no score, there is no interval. If a fold has fewer than two parts, the interval
    accounts for seeds only. With one fold, the variance between folds is not included. ``rows`` is
    the number of examples in all ``folds``; ``values`` of missing parts are NaN.
    """
    seeds, mean, counts = len(differences), float(np.mean(differences)), np.isfinite(values).sum(1)
    if counts.min() < 2:
        return estimate_study(differences, None, 0)
    mean_variance = float((np.nanvar(values, 1, ddof=1) / counts).mean())
    variance = np.var(differences, ddof=1) if seeds > 1 else mean_variance
    # Unlike max, np.maximum keeps NaN.
    of_seeds, parts = float(np.maximum(0, variance - mean_variance)), float(counts.mean())
    variances = Variances(of_seeds, mean_variance * parts, residuals=0)
    return Study(mean, variances, seeds, parts, rows, folds)


def estimate_study_of_runs(
    differences: Sequence[float], values: np.ndarray, rows: Sequence[int], folds: int
) -> Study:
    """Estimate variance components from each run's difference of scores.

    ``values`` are the pseudo-values ``[runs, parts]``; missing parts are NaN. If a run has none,
    the interval accounts for seeds only, and there must be at least two runs. ``rows`` is the
    number of examples of each run, and ``folds`` is 0 if all runs are scored on the same examples.
    """
    if np.isnan(values).all(1).any():
        return estimate_study(differences, None, 0)
    if folds:
        return estimate_nested_study(differences, values, sum(rows) * folds // len(rows), folds)
    return estimate_study(differences, values[:, ~np.isnan(values).any(0)], rows[0])


def student_quantile(level: float, degrees: float) -> float:
    """Return a quantile of Student's distribution, fifty times as fast as `scipy.stats`."""
    # Importing scipy is slow.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, level))


def mean_interval(studies: Sequence[Study]) -> Interval:
    """Compute the mean difference over tasks and its interval, from one study per task."""
    mean, error, degrees = _mean_and_error(studies)
    half = student_quantile((1 + LEVEL) / 2, degrees) * error
    if error == 0:
        half = max((3 / study.rows for study in studies if study.rows), default=0)
    return Interval(mean, mean - half, mean + half)


def probability_within(
    studies: Sequence[Study], margin: float, more_seeds: int = 0, times_the_rows: float = 1
) -> float:
    """Compute the probability that the mean difference over tasks is at least ``-margin``.

    There is one study per task; without studies, the probability is NaN. With more seeds or
    examples, the mean and the variance components are assumed to stay the same.
    """
    from scipy.special import stdtr

    if not studies:
        return math.nan
    mean, error, degrees = _mean_and_error(studies, more_seeds, times_the_rows)
    distance = mean + margin
    if error == 0:
        rows = min(study.rows for study in studies) * times_the_rows or math.inf
        return 1 - math.exp(-rows * distance) if distance > 0 else 0.0
    return float(stdtr(degrees, distance / error))


def loss_bound(studies: Sequence[Study]) -> float:
    """Compute the upper confidence bound of the loss ``-mean``, or NaN without studies."""
    if not studies:
        return math.nan
    mean, error, degrees = _mean_and_error(studies)
    if error == 0:
        return -math.log(1 - LEVEL) / (min(study.rows for study in studies) or math.inf) - mean
    return student_quantile(LEVEL, degrees) * error - mean


def _mean_and_error(
    studies: Sequence[Study], more_seeds: int = 0, times_the_rows: float = 1
) -> tuple[float, float, float]:
    """Compute the mean over studies, its standard error, and the degrees of freedom of the error.

    If the difference is 0 for all examples, the error is 0. Then the callers use the rule of three:
    the probability that an event of probability ``p`` does not occur in ``n`` examples is nearly
    ``exp(-n * p)`` (Hanley and Lippman-Hand, 1983).
    """
    mean = float(np.mean([study.mean for study in studies]))
    errors = [study.error(more_seeds, times_the_rows) for study in studies]
    variance = sum(v for v, _ in errors)
    spread = sum(v**2 / degrees for v, degrees in errors)
    # The square of a very small variance can underflow to 0. Such a variance counts as 0.
    if spread == 0:
        return mean, 0.0, math.inf
    return mean, math.sqrt(variance) / len(errors), variance**2 / spread


def _would_be_sure(
    studies: Sequence[Study], margin: float, more_seeds: int = 0, times_the_rows: float = 1
) -> bool:
    """Return whether `probability_within` would be at least `LEVEL`, or at most ``1 - LEVEL``."""
    chance = probability_within(studies, margin, more_seeds, times_the_rows)
    return max(chance, 1 - chance) >= LEVEL


def additional_seeds_needed(studies: Sequence[Study], margin: float) -> int | None:
    """Compute how many more seeds are needed to be sure whether the mean is above ``-margin``.

    The number is a multiple of the number of folds. The result is None for a single seed, or if
    more than `MOST_SEEDS` seeds would be needed in total.
    """
    seeds = min((study.seeds for study in studies), default=1)
    step = max((study.folds for study in studies), default=0) or 1
    tried = range(step, MOST_SEEDS - seeds + 1, step) if seeds > 1 else ()
    return next((more for more in tried if _would_be_sure(studies, margin, more)), None)


def additional_rows_needed(studies: Sequence[Study], margin: float) -> int | None:
    """Compute how many more examples are needed to be sure, rounded up to two significant digits.

    The result is None if there are several studies, if there are no per-example values, or if more
    than `MOST_TIMES_THE_ROWS` times as many examples would be needed.
    """
    if len(studies) != 1 or not studies[0].parts:
        return None
    for times in np.geomspace(1.05, MOST_TIMES_THE_ROWS, 100):
        if _would_be_sure(studies, margin, 0, times):
            more = (times - 1) * studies[0].rows
            digits = 10 ** max(0, math.floor(math.log10(more)) - 1)
            return math.ceil(more / digits) * digits
    return None


def compute_pseudo_values(
    score: Callable[[np.ndarray], float], part_of_unit: np.ndarray, parts: int
) -> np.ndarray:
    """Compute the jackknife pseudo-values of a score, one per part of the examples ``[parts]``.

    ``score`` computes the metric over the units (examples or words) in a mask ``[u]``.
    ``part_of_unit`` ``[u]`` gives the part of each unit; all units of an example are in the same
    part.
    """
    whole = score(np.ones(len(part_of_unit), bool))
    without = np.array([score(part_of_unit != part) for part in range(parts)])
    return parts * whole - (parts - 1) * without
