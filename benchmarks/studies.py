"""Simulated studies with a known truth: how often the interval holds it, and what is decided.

    python -m benchmarks.studies --studies 200 --to results/benchmarks

It writes ``intervals.md`` and ``intervals.png``.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize, stats

from subtune.analysis import crossed, verdicts
from subtune.analysis.crossed import Interval
from subtune.analysis.significance import MARGIN
from subtune.exhibits.figures.drawing import COLOURS, new_figure

METRICS = ("accuracy", "F1", "Matthews", "real")
SEEDS, ROWS = (3, 5, 10), (40, 200, 800)
# Standard deviations of seeds, rows, rows by method, and the rest. A row's sum of effects is right
# above 0; of real values the sum itself is the value, in units of `REAL`.
EFFECTS = {
    "alike seeds": (0.05, 1.0, 0.3, 0.5),
    "seeds that differ": (0.2, 1.0, 0.3, 0.5),
    "rows that differ": (0.02, 1.0, 1.0, 0.3),
}
INTERCEPT = 1.0
REAL = 0.3
# The share of rows of class 1.
ONES = 0.4
TRUTHS = np.linspace(-0.08, 0.04, 13)


class Setting(NamedTuple):
    """The metric of a study, its numbers of seeds and rows, and its effects."""

    metric: str
    seeds: int
    rows: int
    effects: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200, help="of each setting; default: 200")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    settings = [Setting(*chosen) for chosen in product(METRICS, SEEDS, ROWS, EFFECTS)]
    coverage = pd.DataFrame([covered(setting, options.studies) for setting in settings])
    power = pd.DataFrame(
        decided(Setting("accuracy", 5, rows, "alike seeds"), float(truth), options.studies)
        for rows, truth in product(ROWS, TRUTHS)
    )
    (options.to / "intervals.md").write_text(in_markdown(coverage, power, options.studies))
    draw(power, options.to / "intervals.png")


def covered(setting: Setting, studies: int) -> dict:
    """Return how often intervals hold a difference at the margin, and false decisions there."""
    found = [*intervals(setting, -MARGIN, studies)]
    crossed_of, of_seeds = ([pair[place] for pair in found] for place in (0, 1))
    return setting._asdict() | {
        "seeds and rows": held(crossed_of, -MARGIN),
        "seeds alone": held(of_seeds, -MARGIN),
        "false yes": share_of(verdicts.SUPPORTED, crossed_of),
        "false yes, seeds alone": share_of(verdicts.SUPPORTED, of_seeds),
    }


def decided(setting: Setting, truth: float, studies: int) -> dict:
    """Return how often studies of a true difference say yes, no, or undecided."""
    found = [interval for interval, _ in intervals(setting, truth, studies)]
    outcomes = (verdicts.SUPPORTED, verdicts.NOT_SUPPORTED, verdicts.UNDECIDED)
    return {"rows": setting.rows, "truth": truth} | {o: share_of(o, found) for o in outcomes}


def held(intervals: Sequence[Interval], truth: float) -> float:
    """Return the share of intervals that hold the truth."""
    return float(np.mean([interval.low <= truth <= interval.high for interval in intervals]))


def share_of(verdict: str, intervals: Sequence[Interval]) -> float:
    """Return the share of intervals that say so of "not below full by more than the margin"."""
    return float(np.mean([verdicts.verdict("no less", i, MARGIN) == verdict for i in intervals]))


def intervals(setting: Setting, truth: float, studies: int) -> Iterator[tuple[Interval, Interval]]:
    """Yield the interval over seeds and rows, and that over seeds alone, of each study."""
    generator = np.random.default_rng([setting.seeds, setting.rows, METRICS.index(setting.metric)])
    shift = shift_of(setting, truth)
    for _ in range(studies):
        (scores_of_full, full), (scores, method) = simulated(setting, (0.0, shift), generator)
        differences = (scores - scores_of_full).tolist()
        yield (
            crossed.interval([crossed.study(differences, method - full, setting.rows)]),
            crossed.interval([crossed.study(differences, None, 0)]),
        )


def simulated(
    setting: Setting, shifts: Sequence[float], generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each method's scores ``[seeds]`` and its pseudo-values ``[seeds, parts]``."""
    of_seeds, of_rows, of_both, of_rest = EFFECTS[setting.effects]
    row = generator.normal(0, of_rows, setting.rows)
    is_one = generator.random(setting.rows) < ONES
    for shift in shifts:
        seed = generator.normal(0, of_seeds, (setting.seeds, 1))
        by_method = generator.normal(0, of_both, setting.rows)
        rest = generator.normal(0, of_rest, (setting.seeds, setting.rows))
        values = INTERCEPT + shift + row + by_method + seed + rest
        scores, parts = [], []
        for of_seed in values:

            def score(mask: np.ndarray, of_seed: np.ndarray = of_seed) -> float:
                return metric_of(setting.metric, of_seed[mask], is_one[mask])

            scores.append(score(np.ones(setting.rows, bool)))
            parts.append(crossed.pseudo_values(score, np.arange(setting.rows))[0])
        yield np.array(scores), np.array(parts)


def metric_of(metric: str, values: np.ndarray, is_one: np.ndarray) -> float:
    """Return the metric of rows that are right where their value is above 0."""
    if metric == "real":
        return float(REAL * values.mean())
    right = values > 0
    cells = [np.count_nonzero(a & b) for a, b in product((is_one, ~is_one), (right, ~right))]
    return float(of_counts(metric, *cells))


def of_counts(metric: str, found: Any, missed: Any, refused: Any, mistaken: Any) -> Any:
    """Return a metric of numbers of rows: right and wrong ones of class 1, then of class 0."""
    if metric == "accuracy":
        return (found + refused) / (found + missed + refused + mistaken)
    if metric == "F1":
        return 2 * found / np.maximum(2 * found + missed + mistaken, 1e-9)
    product_of_sums = (found + mistaken) * (found + missed)
    product_of_sums *= (refused + mistaken) * (refused + missed)
    return (found * refused - mistaken * missed) / np.sqrt(np.maximum(product_of_sums, 1e-9))


def shift_of(setting: Setting, truth: float) -> float:
    """Return the shift of a method's values that makes its true score differ by ``truth``."""

    def difference(shift: float) -> float:
        return expected(setting, shift) - expected(setting, 0.0) - truth

    return float(optimize.brentq(difference, -4, 4))


def expected(setting: Setting, shift: float) -> float:
    """Return the true score: of infinitely many rows, and the mean over infinitely many seeds."""
    of_seeds, *others = EFFECTS[setting.effects]
    if setting.metric == "real":
        return REAL * (INTERCEPT + shift)
    # A quadrature over the effect of the seed.
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    right = stats.norm.cdf((INTERCEPT + shift + of_seeds * points) / np.linalg.norm(others))
    cells = [share * part for share in (ONES, 1 - ONES) for part in (right, 1 - right)]
    scores = of_counts(setting.metric, *cells)
    return float(weights @ scores / weights.sum())


def in_markdown(coverage: pd.DataFrame, power: pd.DataFrame, studies: int) -> str:
    """Return the tables: coverage by what is simulated, and decisions by true difference."""
    shares = ["seeds and rows", "seeds alone", "false yes", "false yes, seeds alone"]
    every = len(coverage) * studies
    parts = [
        f"{every:,} studies with a true difference at the margin, {studies} of each setting.\n",
        *(
            coverage.groupby(by, sort=False)[shares]
            .mean()
            .map(percent)
            .reset_index()
            .to_markdown(index=False, disable_numparse=True)
            + "\n"
            for by in ("metric", "seeds", "rows", "effects")
        ),
        f"All studies: {', '.join(f'{n} {percent(coverage[n].mean())}' for n in shares)}.\n",
        power.assign(truth=power["truth"].map("{:+.2f}".format)).round(3).to_markdown(index=False),
    ]
    return "\n".join(parts) + "\n"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def draw(power: pd.DataFrame, path: Path) -> None:
    """Draw how often studies say yes, and no, by the true difference."""
    figure = new_figure(6.3, 2.6)
    panels = figure.subplots(1, 2, sharey=True)
    for panel, verdict, word in zip(
        panels, (verdicts.SUPPORTED, verdicts.NOT_SUPPORTED), ("yes", "no"), strict=True
    ):
        for colour, (rows, of_rows) in zip(COLOURS, power.groupby("rows"), strict=False):
            panel.plot(of_rows["truth"], of_rows[verdict], color=colour, label=f"{rows} dev rows")
        panel.axvline(-MARGIN, color="0.6", linestyle=":")
        panel.set_title(f'says "{word}"')
    panels[0].legend()
    panels[0].set_ylabel("share of studies with 5 seeds")
    figure.supxlabel("true difference to full")
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    main()
