"""Simulate comparisons with known true scores, and count the wrong answers.

    python -m benchmarks.answers --questions 120 --to results/benchmarks

Each question compares full fine-tuning and five smaller methods by accuracy. `compare` trains one
seed or fold of every method, then the second, and so on. The answer after each of them is that of
`subtune.analysis`. Writes ``answers.md``, whose tables are those of ``docs/intervals.md``:

* *seeds*: each method has up to five seeds (40, 200 or 800 dev examples, four kinds of effects).
* *folds*: each method has up to five folds (200 or 600 examples, two kinds of effects). Each of
  these settings has three times as many questions.

*First enough* is the answer at which somebody stops who looks after each seed or fold, and stops
when an answer is sure that a method is enough; otherwise, it is the last answer. An answer is wrong
*against the reference* or *against the best* method if the named method truly scores more than the
margin lower. *Full, wrong*: a smaller method is truly within the margin of full fine-tuning.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from subtune.analysis import intervals
from subtune.analysis.answer import choose_method
from subtune.analysis.candidates import NO_DIFFERENCE, SURE, Candidate, MethodComparison
from subtune.analysis.intervals import Study

MARGIN, MOST = 0.02, 5
TITLES = ("Full", "One", "Two", "Three", "Four", "Five")
# Standard deviations of seeds, rows, rows by method, and the rest. The prediction for an example is
# right if the sum of its effects is above 0.
EFFECTS = {
    "alike seeds": (0.05, 1.0, 0.3, 0.5),
    "seeds that differ": (0.2, 1.0, 0.3, 0.5),
    "rows that differ": (0.02, 1.0, 1.0, 0.3),
    "hardly a row differs": (0.02, 1.0, 0.05, 0.1),
}
INTERCEPT = 1.0
SHIFTS = np.linspace(-3, 3, 6001)
# True differences from full fine-tuning are normal with this mean and standard deviation, and at
# most `HIGHEST`. Those of the methods of one question share half of the variance.
MEAN, SPREAD, HIGHEST = -0.01, 0.03, 0.1

# A candidate without numbers.
EMPTY = Candidate(
    *("", "", 1.0, 0, 0.0, 0.0, "", 0.0, NO_DIFFERENCE, 0.0, 0.0, "", 0.0, False, ()),
    *(frozenset[str](), (), "", ""),
)


class Setting(NamedTuple):
    """Whether there are folds, the number of examples of each seed or fold, and the effects."""

    folds: bool
    rows: int
    effects: str


SETTINGS = [
    *(Setting(False, rows, effects) for rows in (40, 200, 800) for effects in EFFECTS),
    *(Setting(True, rows, effects) for rows in (40, 120) for effects in [*EFFECTS][:2]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=100, help="default: 100")
    parser.add_argument("--to", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    rows = [
        row
        for setting in SETTINGS
        for row in judge_answers(setting, options.questions * (3 if setting.folds else 1))
    ]
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "answers.md").write_text(format_tables(pd.DataFrame(rows)))


def judge_answers(setting: Setting, questions: int) -> Iterator[dict[str, Any]]:
    """Yield the answers to the questions of a setting, and whether they are wrong."""
    seed = [setting.folds, setting.rows, [*EFFECTS].index(setting.effects)]
    generator = np.random.default_rng(seed)
    for _ in range(questions):
        spread = SPREAD / np.sqrt(2)
        truths = generator.normal(MEAN, spread) + generator.normal(0, spread, len(TITLES) - 1)
        truth = np.array([0.0, *truths.clip(None, HIGHEST)])
        scores, parts = draw_scores(setting, truth, generator)
        found = [
            judge_answer(setting, scores[:, :number], parts[:, :number], truth)
            for number in range(1, 1 + MOST)
        ]
        is_first = [row["answer"] == "train" for row in found]
        first = found[is_first.index(True) if any(is_first) else -1]
        for number, row in [*enumerate(found, 1), ("first enough", first)]:
            yield {"from": "folds" if setting.folds else "seeds", "looks": number, **row}


def judge_answer(
    setting: Setting, scores: np.ndarray, parts: np.ndarray, truth: np.ndarray
) -> dict[str, Any]:
    """Find an answer as `subtune.analysis.candidates` does, and judge it by the true scores.

    ``scores`` ``[methods, seeds]`` and their pseudo-values ``[methods, seeds, parts]`` begin with
    full fine-tuning; the other methods follow, the smallest first.
    """
    seeds, methods = scores.shape[1], range(len(scores))
    estimate: Callable[..., Study] = intervals.estimate_study
    size = [setting.rows]
    if setting.folds:
        estimate, size = intervals.estimate_nested_study, [setting.rows * seeds, seeds]
    studies = {
        (one, other): estimate(
            (scores[one] - scores[other]).tolist(), parts[one] - parts[other], *size
        )
        for one in methods
        for other in methods
        if one != other
    }
    chances = {
        pair: intervals.probability_within([study], MARGIN) for pair, study in studies.items()
    }

    def compare(reference: int) -> dict[str, Candidate]:
        found = {}
        for one in (*methods[1:], 0):
            least = min(chances[one, other] for other in methods if other != one)
            chance = chances.get((one, reference), math.nan)
            mean = float((scores[one] - scores[reference]).mean())
            found[TITLES[one]] = EMPTY._replace(
                title=TITLES[one],
                trained=one or len(scores),
                difference=intervals.Interval(mean, math.nan, math.nan),
                chance=chance,
                least_chance=least,
                is_sure=least >= SURE and seeds > 1 and one != reference,
                seeds=tuple(range(seeds)),
            )
        return found

    with_full, better = compare(0), [0]
    if seeds > 1:
        above = (intervals.probability_within([studies[one, 0]], -MARGIN) for one in methods[1:])
        better += [one for one, chance in enumerate(above, 1) if chance >= SURE]
    # Full fine-tuning is the reference, unless other methods surely beat it by the margin.
    reference = max(better[1:] or better, key=lambda one: scores[one].mean())
    compared = MethodComparison(TITLES[reference], TITLES[0], compare(reference), with_full)
    decision, candidate = choose_method(compared, MARGIN)
    named = truth[TITLES.index(candidate.title)] if candidate else 0
    return {
        "answer": decision,
        "wrong": named < truth[reference] - MARGIN,
        "wrong against best": named < truth.max() - MARGIN,
        "full wrong": truth[1:].max() >= -MARGIN,
    }


def draw_scores(
    setting: Setting, truths: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the scores of all runs ``[methods, seeds]``, and their pseudo-values."""
    of_seeds, of_rows, of_both, of_rest = EFFECTS[setting.effects]
    # The mean score of infinitely many rows and seeds for each shift.
    expected = stats.norm.cdf((INTERCEPT + SHIFTS) / np.linalg.norm(EFFECTS[setting.effects]))
    shifts = np.interp(truths, expected - expected[len(SHIFTS) // 2], SHIFTS)[:, None, None]
    # Seeds share the examples and the effects of examples. Each fold has its own.
    methods, groups = len(truths), MOST if setting.folds else 1
    sums = INTERCEPT + shifts + generator.normal(0, of_seeds, (methods, MOST, 1))
    sums = sums + generator.normal(0, of_rows, (groups, setting.rows))
    sums = sums + generator.normal(0, of_both, (methods, groups, setting.rows))
    correct = (sums + generator.normal(0, of_rest, (methods, MOST, setting.rows)) > 0).astype(float)
    parts = min(intervals.JACKKNIFE_PARTS, setting.rows)
    in_part = np.eye(parts)[np.arange(setting.rows) % parts]
    in_parts = correct @ in_part
    without = (in_parts.sum(-1, keepdims=True) - in_parts) / (setting.rows - in_part.sum(0))
    scores = correct.mean(-1)
    return scores, parts * scores[..., None] - (parts - 1) * without


def format_tables(answers: pd.DataFrame) -> str:
    """Format the share of each answer, and the share of wrong answers among them."""
    tables = []
    for name, group in answers.groupby("from", sort=False):
        rows = []
        for looks, found in group.groupby("looks", sort=False):
            shares = found["answer"].value_counts(normalize=True)
            of = {kind: found[found["answer"] == kind] for kind in shares.index}
            row = {str(name): looks}
            for kind in ("train", "probably", "undecided", "probably everything", "everything"):
                row[kind] = shares.get(kind, 0.0)
            for kind in ("train", "probably"):
                for wrong in ("wrong", "wrong against best"):
                    row[f"{kind}, {wrong}"] = of[kind][wrong].mean() if kind in of else np.nan
            for kind in ("everything", "probably everything"):
                row[f"{kind}, wrong"] = of[kind]["full wrong"].mean() if kind in of else np.nan
            rows.append(row)
        table = pd.DataFrame(rows).set_index(str(name)).map(_format_share).reset_index()
        text = table.to_markdown(index=False, disable_numparse=True)
        tables.append(f"{len(group) // (MOST + 1):,} questions\n\n{text}")
    return "\n\n".join(tables) + "\n"


def _format_share(share: float) -> str:
    return "" if np.isnan(share) else f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
