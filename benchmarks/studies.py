"""Simulated studies with a known truth: how often intervals hold it, and whether chances are right.

    python -m benchmarks.studies --studies 200 --to results/benchmarks

It writes ``intervals.md`` and ``calibration.png``.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from subtune.analysis import intervals
from subtune.analysis.claims import EQUIVALENCE_MARGINS
from subtune.analysis.intervals import LEVEL, PARTS, Study
from subtune.exhibits.output import COLOURS, new_figure

MARGIN = EQUIVALENCE_MARGINS["score"]
METRICS = ("accuracy", "F1", "Matthews", "real")
SEEDS, ROWS = (1, 2, 3, 5, 10), (40, 200, 800)
# Standard deviations of seeds, rows, rows by method, and the rest. A row's sum of effects is right
# above 0; of real values the sum itself is the value, in units of `REAL`.
EFFECTS = {
    "alike seeds": (0.05, 1.0, 0.3, 0.5),
    "seeds that differ": (0.2, 1.0, 0.3, 0.5),
    "rows that differ": (0.02, 1.0, 1.0, 0.3),
    "hardly a row differs": (0.02, 1.0, 0.05, 0.1),
}
INTERCEPT = 1.0
REAL = 0.3
# The share of rows of class 1.
ONES = 0.4
# Shifts of a method's values, among which that of a true difference is looked up.
SHIFTS = np.linspace(-3, 3, 6001)
# True differences to full are normal with this mean and standard deviation. Those of the methods
# of one question share half of the variance.
MEAN, SPREAD, MOST = -0.01, 0.03, 0.1
METHODS = 5
BINS = [0, 0.05, 0.5, 0.8, 0.9, 0.95, 1]
TRUTHS = np.linspace(-0.08, 0.04, 13)
# A method stops if its chance is below the first number or above the second.
STOPS = (0.02, 0.98)
BUDGET_SEEDS, MOST_SEEDS = 5, 15


class Setting(NamedTuple):
    """The metric of a study, its numbers of seeds and of rows, and its effects."""

    metric: str
    seeds: int
    rows: int
    effects: str

    def generator(self, purpose: int) -> np.random.Generator:
        """Return the generator of the studies of this setting."""
        names = METRICS.index(self.metric), [*EFFECTS].index(self.effects)
        return np.random.default_rng([self.seeds, self.rows, *names, purpose])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=200, help="of each setting; default: 200")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    settings = [Setting(*chosen) for chosen in product(METRICS, SEEDS, ROWS, EFFECTS)]
    of_accuracy = [setting for setting in settings if setting.metric == "accuracy"]
    coverage = pd.DataFrame([covered(setting, options.studies) for setting in settings])
    chances = pd.concat([chances_of(setting, options.studies) for setting in settings])
    questions = pd.concat([decided(setting, options.studies) for setting in of_accuracy])
    longest = [s._replace(seeds=MOST_SEEDS) for s in of_accuracy if s.seeds == 1 and s.rows > 40]
    stopped = pd.concat([with_stops(setting, options.studies) for setting in longest])
    power = pd.DataFrame(
        named(Setting("accuracy", 5, rows, "alike seeds"), float(truth), options.studies)
        for rows, truth in product(ROWS, TRUTHS)
    )
    text = in_markdown(coverage, chances, questions, stopped, options.studies)
    (options.to / "intervals.md").write_text(text)
    draw(chances, power, options.to / "calibration.png")


def covered(setting: Setting, studies: int) -> dict:
    """Return how often intervals hold a difference at the margin, and are sure of it falsely."""
    found = [*studied(setting, [-MARGIN] * studies, 0)]
    alone = [intervals.study(d, None, 0) for d, _ in found] if setting.seeds > 1 else []
    both = [study for _, study in found]
    return setting._asdict() | {
        "coverage": held(both),
        "seeds alone": held(alone) if alone else np.nan,
        "half-width": np.mean([np.ptp(intervals.interval([study])[1:]) / 2 for study in both]),
        "falsely sure": np.mean([intervals.chance([study], MARGIN) >= LEVEL for study in both]),
    }


def held(studies: Sequence[Study]) -> float:
    """Return the share of studies whose interval holds a difference at the margin."""
    found = [intervals.interval([study]) for study in studies]
    return float(np.mean([interval.low <= -MARGIN <= interval.high for interval in found]))


def chances_of(setting: Setting, studies: int) -> pd.DataFrame:
    """Return each study's chance to be within the margin, and whether it is."""
    truths = setting.generator(1).normal(MEAN, SPREAD, studies).clip(None, MOST)
    found = [intervals.chance([study], MARGIN) for _, study in studied(setting, truths, 2)]
    table = pd.DataFrame({"chance": found, "within": truths >= -MARGIN})
    return table.assign(**setting._asdict())


def named(setting: Setting, truth: float, studies: int) -> dict:
    """Return how often studies of a true difference are sure of it, or find it probable."""
    found = [
        intervals.chance([study], MARGIN) for _, study in studied(setting, [truth] * studies, 3)
    ]
    return {"rows": setting.rows, "truth": truth} | {
        f"at least {level:.0%}": np.mean(np.array(found) >= level) for level in (LEVEL, 0.5)
    }


def decided(setting: Setting, studies: int) -> pd.DataFrame:
    """Return what is named in each question, and whether it is within the margin.

    By the ``rule``, the reference is always full, or chosen as
    `subtune.analysis.candidates.reference_of` does. ``of reference`` and ``of best`` are whether
    what is named truly loses at most the margin against the reference, and against the method that
    is truly the best.
    """
    generator, rows = setting.generator(4), []
    for _ in range(studies):
        truths = truths_of_question(generator)
        scores, parts = simulated(setting, truths, generator)
        for rule, reference in (
            ("always full", 0),
            ("chosen", chosen_reference(setting, scores, parts)),
        ):
            # The first methods are the smallest, and full is the largest.
            smaller = slice(1, reference or None)
            chances = question_chances(setting, scores, parts, reference)[smaller]
            sure, probable = (np.flatnonzero(chances >= level) for level in (LEVEL, 0.5))
            answer = "Train" if len(sure) else "Probably" if len(probable) else "reference"
            named = {"Train": sure, "Probably": probable, "reference": np.array([reference - 1])}
            place = named[answer][0]
            best = truths[place + 1] >= truths.max() - MARGIN
            within = truths[place + 1] >= truths[reference] - MARGIN
            rows.append([rule, answer, reference == 0, within, best])
    names = ["rule", "answer", "is full", "of reference", "of best"]
    return pd.DataFrame(rows, columns=names).assign(**setting._asdict())


def chosen_reference(setting: Setting, scores: np.ndarray, parts: np.ndarray) -> int:
    """Return the place of the reference: 0, full, unless others surely beat it by the margin."""
    beats = question_chances(setting, scores, parts, 0, -MARGIN) >= LEVEL
    better = np.flatnonzero(beats & (np.arange(len(scores)) > 0) & (setting.seeds > 1))
    return int(max(better, key=lambda place: scores[place].mean(), default=0))


def with_stops(setting: Setting, studies: int) -> pd.DataFrame:
    """Return the methods that as many runs settle, with stops of methods and without.

    A method is settled if its chance is at least 95 %, or at most 5 %.
    """
    generator, rows = setting.generator(5), []
    for _ in range(studies):
        truths = truths_of_question(generator)
        scores, parts = simulated(setting, truths, generator)
        within = truths[1:] >= -MARGIN
        for first in (0, 1, 2, 3):
            chances, runs = sequential(setting, scores, parts, first)
            yes, no = chances >= LEVEL, chances <= 1 - LEVEL
            mistakes = (yes & ~within) | (no & within)
            rows.append([first, (yes | no).sum(), mistakes.sum(), runs])
    columns = ["stops after seed", "settled", "mistaken", "runs"]
    return pd.DataFrame(rows, columns=columns).assign(**setting._asdict())


def sequential(
    setting: Setting, scores: np.ndarray, parts: np.ndarray, first: int
) -> tuple[np.ndarray, int]:
    """Return the methods' chances, and the runs that they took.

    One seed of full and of each method that goes on is trained after the other. Methods stop from
    the seed ``first`` on, and never if it is 0.
    """
    budget = left = BUDGET_SEEDS * (METHODS + 1)
    chances, active, seeds = np.full(METHODS, 0.5), np.arange(METHODS), 0
    while len(active) and left > 1 and seeds < MOST_SEEDS:
        active, seeds = active[: left - 1], seeds + 1
        left -= 1 + len(active)
        now = setting._replace(seeds=seeds)
        chances[active] = question_chances(now, scores[:, :seeds], parts[:, :seeds])[1:][active]
        if first and seeds >= first:
            going_on = (STOPS[0] <= chances) & (chances <= STOPS[1])
            active = active[going_on[active]]
    return chances, budget - left


def truths_of_question(generator: np.random.Generator) -> np.ndarray:
    """Return the true differences of full, 0, and of several methods, the smallest first."""
    spread = SPREAD / np.sqrt(2)
    truths = generator.normal(MEAN, spread) + generator.normal(0, spread, METHODS)
    return np.concatenate([[0.0], truths.clip(None, MOST)])


def question_chances(
    setting: Setting,
    scores: np.ndarray,
    parts: np.ndarray,
    reference: int = 0,
    margin: float = MARGIN,
) -> np.ndarray:
    """Return the chance of each method, full first, to lose at most a margin to a reference."""
    of_methods = zip(scores - scores[reference], parts - parts[reference], strict=True)
    found = [intervals.study(d.tolist(), values, setting.rows) for d, values in of_methods]
    return np.array([intervals.chance([study], margin) for study in found])


def studied(
    setting: Setting, truths: Sequence[float] | np.ndarray, purpose: int
) -> Iterator[tuple[list[float], Study]]:
    """Yield the differences of a method to full, and the study of them, for each true one."""
    generator = setting.generator(purpose)
    for truth in truths:
        scores, parts = simulated(setting, [0.0, truth], generator)
        differences = (scores[1] - scores[0]).tolist()
        yield differences, intervals.study(differences, parts[1] - parts[0], setting.rows)


def simulated(
    setting: Setting, truths: Sequence[float] | np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return methods' scores ``[methods, seeds]`` and pseudo-values ``[methods, seeds, parts]``."""
    of_seeds, of_rows, of_both, of_rest = EFFECTS[setting.effects]
    methods, seeds, rows = len(truths), setting.seeds, setting.rows
    values = shift_of(setting, truths)[:, None, None] + INTERCEPT
    values = values + generator.normal(0, of_rows, rows)
    values = values + generator.normal(0, of_seeds, (methods, seeds, 1))
    values = values + generator.normal(0, of_both, (methods, 1, rows))
    values = values + generator.normal(0, of_rest, (methods, seeds, rows))
    return scored(setting.metric, values, generator.random(rows) < ONES)


def scored(metric: str, values: np.ndarray, is_one: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the metric of rows ``[..., rows]`` that are right above 0, and its pseudo-values.

    They are those of `intervals.pseudo_values`, of all runs at once.
    """
    rows = len(is_one)
    parts = min(PARTS, rows)
    part_of_row = np.random.default_rng(0).permutation(rows) % parts
    in_part = np.eye(parts, dtype=np.float32)[part_of_row]
    if metric == "real":
        sums = values @ in_part
        whole = values.mean(-1)
        without = (sums.sum(-1, keepdims=True) - sums) / (rows - in_part.sum(0)) * REAL
        whole = whole * REAL
    else:
        right = values > 0
        cells = [(a & b) @ in_part for a, b in product((is_one, ~is_one), (right, ~right))]
        of_all = [cell.sum(-1, keepdims=True) for cell in cells]
        whole = of_counts(metric, *of_all)[..., 0]
        without = of_counts(metric, *(a - c for a, c in zip(of_all, cells, strict=True)))
    return whole, parts * whole[..., None] - (parts - 1) * without


def of_counts(metric: str, found: Any, missed: Any, refused: Any, mistaken: Any) -> Any:
    """Return a metric of numbers of rows: right and wrong ones of class 1, then of class 0."""
    if metric == "accuracy":
        return (found + refused) / (found + missed + refused + mistaken)
    if metric == "F1":
        return 2 * found / np.maximum(2 * found + missed + mistaken, 1e-9)
    product_of_sums = (found + mistaken) * (found + missed)
    product_of_sums *= (refused + mistaken) * (refused + missed)
    return (found * refused - mistaken * missed) / np.sqrt(np.maximum(product_of_sums, 1e-9))


def shift_of(setting: Setting, truths: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the shifts of a method's values that make its true score differ so."""
    expected = true_scores(setting.metric, setting.effects)
    return np.asarray(np.interp(truths, expected - expected[len(SHIFTS) // 2], SHIFTS))


@cache
def true_scores(metric: str, effects: str) -> np.ndarray:
    """Return the mean score of infinitely many rows and seeds, for each of `SHIFTS`."""
    of_seeds, *others = EFFECTS[effects]
    if metric == "real":
        return REAL * (INTERCEPT + SHIFTS)
    # A quadrature over the effect of the seed.
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    values = INTERCEPT + SHIFTS[:, None] + of_seeds * points
    right = stats.norm.cdf(values / np.linalg.norm(others))
    cells = [share * part for share in (ONES, 1 - ONES) for part in (right, 1 - right)]
    return of_counts(metric, *cells) @ weights / weights.sum()


def in_markdown(
    coverage: pd.DataFrame,
    chances: pd.DataFrame,
    questions: pd.DataFrame,
    stopped: pd.DataFrame,
    studies: int,
) -> str:
    """Return the tables: coverage, calibration, answers and stops by what is simulated."""
    shares = ["coverage", "seeds alone", "falsely sure"]
    several = coverage[coverage["seeds"] > 1]
    parts = [f"{len(coverage) * studies:,} studies at the margin, {studies} of each setting."]
    for by in ("seeds", "metric", "rows", "effects"):
        groups = (coverage if by == "seeds" else several).groupby(by, sort=False)
        table = groups[shares].mean().map(percent)
        widths = groups["half-width"].mean().map("{:.3f}".format)
        parts.append(markdown(table.assign(**{"half-width": widths})))
    of_all = ", ".join(f"{name} {percent(several[name].mean())}" for name in shares)
    parts.append(f"All studies of two seeds or more: {of_all}.")
    parts.append(markdown(calibration(chances)))
    parts.extend(markdown(by_bin(chances, by)) for by in ("seeds", "rows", "effects"))
    parts.append(markdown(answers_by_rule(questions)))
    stops = stopped.replace({"stops after seed": {0: "never"}}).groupby("stops after seed")
    parts.append(markdown(stops[["settled", "mistaken", "runs"]].mean().round(2)))
    return "\n\n".join(parts) + "\n"


def answers_by_rule(questions: pd.DataFrame) -> pd.DataFrame:
    """Return the share of questions with each answer, and with each false answer, by rule."""
    by = ["rule", "seeds"]
    kinds = pd.get_dummies(questions["answer"])[["Train", "Probably", "reference"]]
    tables = [kinds.assign(full=questions["is full"])]
    for name in ("of reference", "of best"):
        wrong = kinds.mul(~questions[name], axis=0).drop(columns="reference")
        tables.append(wrong.add_suffix(f", not {name}"))
    shares = pd.concat([questions[by], *tables], axis=1).groupby(by).mean()
    return shares.map(percent)


def calibration(chances: pd.DataFrame) -> pd.DataFrame:
    """Return how often the truth is within the margin, by the chance, of two seeds or more."""
    several = chances[chances["seeds"] > 1]
    groups = several.groupby(pd.cut(several["chance"], BINS, include_lowest=True), observed=False)
    table = pd.DataFrame({"studies": groups.size(), "mean chance": groups["chance"].mean()})
    table["mean chance"], table["within"] = (
        column.map(percent) for column in (table["mean chance"], groups["within"].mean())
    )
    return table.set_axis(names_of_bins()).rename_axis("chance")


def by_bin(chances: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return how often the truth is within the margin, by the chance and a part of the setting."""
    chosen = chances if by == "seeds" else chances[chances["seeds"] > 1]
    bins = pd.cut(chosen["chance"], BINS, include_lowest=True, labels=names_of_bins())
    return (
        chosen.groupby([by, bins], sort=False, observed=False)["within"]
        .mean()
        .map(percent)
        .unstack()[names_of_bins()]
    )


def names_of_bins() -> list[str]:
    return [f"{a:.0%}–{b:.0%}" for a, b in pairwise(BINS)]


def markdown(table: pd.DataFrame) -> str:
    return table.reset_index().to_markdown(index=False, disable_numparse=True)


def percent(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.1f} %"


def draw(chances: pd.DataFrame, power: pd.DataFrame, path: Path) -> None:
    """Draw how right the chances are, and how often methods are named, by the true difference."""
    figure = new_figure(6.3, 2.8)
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color="0.6", linestyle=":")
    for colour, (rows, of_rows) in zip(
        COLOURS, chances[chances["seeds"] > 1].groupby("rows"), strict=False
    ):
        groups = of_rows.groupby(pd.cut(of_rows["chance"], np.linspace(0, 1, 11)), observed=False)
        means = groups[["chance", "within"]].mean()
        left.plot(means["chance"], means["within"], "o-", color=colour, label=f"{rows} dev rows")
    left.set(xlabel="chance", ylabel="share truly within the margin")
    left.legend()
    for colour, (_, of_rows) in zip(COLOURS, power.groupby("rows"), strict=False):
        for name, style in (("at least 95%", "-"), ("at least 50%", "--")):
            right.plot(of_rows["truth"], of_rows[name], style, color=colour)
    right.axvline(-MARGIN, color="0.6", linestyle=":")
    right.set(xlabel="true difference to full", ylabel="share of studies so sure")
    figure.savefig(path, dpi=200)


if __name__ == "__main__":
    main()
