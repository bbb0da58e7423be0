"""Answers of cross-validated comparisons that were stopped early, and whether they hold.

    python -m benchmarks.early
    python -m benchmarks.early --records results/example/packages --calls 200 --margin 0.01

A call has one fold of each method, then two, and so on. Simulated calls have known true scores, as
in `benchmarks.studies`: full, and five smaller methods. Calls on records are of a finished
comparison, a directory with ``chosen.csv`` and ``row_scores.csv``: each call permutes its folds and
draws the parts of each fold's rows with replacement, so that the recorded scores are the truth.
*within* is how often what is named is truly within the margin of the reference, *holds* of the
method that is truly the best, and *final* how often it is what all folds name.
"""

import argparse
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.studies import BINS, MARGIN, Setting, markdown, percent, truths_of_question
from benchmarks.studies import simulated as scores_of_rows
from subtune.analysis.answers import Answer, answers
from subtune.analysis.candidates import FULL, Candidate, judged_runs
from subtune.analysis.predictions import NUMBERS, read_row_scores
from subtune.analysis.scores import read_scores

FOLDS, ROWS_OF_FOLD = 5, (40, 120)
EFFECTS = ("alike seeds", "seeds that differ")

# A call: runs of all folds, their values on parts of rows, and true scores by method's title.
Call = tuple[pd.DataFrame, pd.DataFrame, Mapping[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=50, help="of each setting; default: 50")
    parser.add_argument("--records", type=Path, help="a finished comparison; default: simulated")
    parser.add_argument("--margin", type=float, default=MARGIN, help=f"default: {MARGIN}")
    parser.add_argument("--behind", type=int, default=0, help="folds that full lacks; default: 0")
    options = parser.parse_args()
    calls = simulated(options.calls)
    if options.records:
        calls = recorded(options.records, options.calls)
    table = pd.DataFrame(
        row for call in calls for row in judged(call, options.margin, options.behind)
    )
    print(f"{markdown(by_folds(table))}\n\n{markdown(by_chance(table))}")


def simulated(calls: int) -> Iterator[Call]:
    """Yield calls with known true scores, on 200 or 600 rows in five folds."""
    for effects in EFFECTS:
        for rows in ROWS_OF_FOLD:
            setting = Setting("accuracy", 1, rows, effects)
            generator = setting.generator(6)
            for _ in range(calls):
                truths = truths_of_question(generator)
                folds = [scores_of_rows(setting, truths, generator) for _ in range(FOLDS)]
                scores = np.array([fold[0][:, 0] for fold in folds])
                parts = np.array([fold[1][:, 0] for fold in folds])
                yield as_tables(scores, parts, rows, truths)


def as_tables(scores: np.ndarray, parts: np.ndarray, rows: int, truths: np.ndarray) -> Call:
    """Return a call from scores ``[folds, methods]`` and pseudo-values ``[folds, methods, parts]``.

    The first method is full, and the others are the smallest first.
    """
    methods = ["full", *(f"method {number}" for number in range(1, len(truths)))]
    folds, places = np.indices(scores.shape).reshape(2, -1)
    chosen = pd.DataFrame(
        {"model": "model", "task": "task", "metric": "accuracy", "fraction": 1.0, "scope": None}
        | {"method": [methods[place] for place in places], "value": scores.ravel()}
        | {"seed": folds, "fold": folds, "run": [str(run) for run in range(scores.size)]}
        # Full is the largest.
        | {"trainable": (places - 1) % len(truths) + 1, "classifier": 0}
        | {"judges": True, "decides": True, "one_answer": False}
        | {"at_edge": False, "curve": "converged", "share_read": 1.0}
    )
    values = parts.reshape(scores.size, -1)
    numbers = pd.DataFrame(np.full((scores.size, len(NUMBERS)), np.nan), columns=NUMBERS)
    numbers.iloc[:, : values.shape[1]] = values
    titles = dict.fromkeys(judged_runs(chosen)["title"])
    truth = dict(zip(titles, truths, strict=True))
    return chosen, numbers.assign(run=chosen["run"], rows=rows), truth


def recorded(records: Path, calls: int) -> Iterator[Call]:
    """Yield calls on a finished comparison's rows, drawn with replacement, in other orders."""
    chosen = judged_runs(read_scores(records / "chosen.csv"))
    numbers = read_row_scores([records / "row_scores.csv"]).set_index("run")
    folds = chosen["fold"].unique()
    truths = numbers[NUMBERS].mean(axis=1).loc[chosen["run"]].groupby([*chosen["title"]]).mean()
    for number in range(calls):
        generator = np.random.default_rng(number)
        order = dict(zip(folds, generator.permutation(len(folds)), strict=True))
        drawn = numbers.copy()
        for fold in folds:
            # Parts that a fold lacks are missing in all of its runs.
            runs = chosen.loc[chosen["fold"] == fold, "run"]
            known = numbers.columns.intersection(NUMBERS)[
                numbers.loc[runs[:1], NUMBERS].notna().iloc[0]
            ]
            drawn.loc[runs, known] = numbers.loc[
                runs, generator.choice(known, len(known))
            ].to_numpy()
        means = drawn[NUMBERS].mean(axis=1).loc[chosen["run"]].to_numpy()
        again = chosen.assign(value=means, fold=chosen["fold"].map(order)).drop(columns="title")
        yield again, drawn.reset_index(), truths.to_dict()


def judged(call: Call, margin: float, behind: int) -> Iterator[dict]:
    """Yield the answer of a call after each number of folds, and whether it holds.

    Full lacks ``behind`` of the folds that the others have, but has one at least.
    """
    chosen, row_scores, truths = call
    chosen = chosen.assign(margin=margin)
    folds_of_full = (chosen["fold"] + behind).where(chosen["method"] == "full", chosen["fold"])
    order = folds_of_full.where(chosen["fold"] > 0, 0)
    every = range(1, chosen["fold"].nunique() + 1)
    found = [answers(chosen[order < folds], row_scores)[0] for folds in every]
    for folds, answer in zip(every, found, strict=True):
        title, named_method = named(answer), smaller(answer)
        yield {
            "folds": folds,
            "answer": answer.decision,
            "chance": named_method.chance if named_method else np.nan,
            "within": truths[title] >= truths[answer.reference] - answer.margin,
            "holds": truths[title] >= max(truths.values()) - answer.margin,
            "final": title == named(found[-1]),
        }


def smaller(answer: Answer) -> Candidate | None:
    """Return the method that an answer trains, or None if it trains everything."""
    return None if answer.decision == "everything" else answer.candidate


def named(answer: Answer) -> str:
    """Return the title of the method that an answer trains."""
    candidate = smaller(answer)
    return candidate.title if candidate else FULL


def by_folds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each answer by the number of folds, and how often answers hold."""
    kinds = pd.get_dummies(table["answer"]).reindex(columns=["train", "probably", "everything"])
    shares = pd.concat([kinds, table[["within", "holds", "final"]]], axis=1)
    of_kind = table.pivot_table("holds", "folds", "answer").add_suffix(" holds")
    shares = shares.groupby(table["folds"]).mean().join(of_kind)
    return shares.map(percent)


def by_chance(table: pd.DataFrame) -> pd.DataFrame:
    """Return how often the named method is within the margin of the reference, by its chance."""
    bins = pd.cut(table["chance"], BINS[2:], include_lowest=True)
    groups = table.groupby(["folds", bins], observed=False)
    shares = groups["within"].mean().map(percent) + groups.size().map(" of {}".format)
    return shares.unstack().set_axis([f"{a:.0%}–{b:.0%}" for a, b in pairwise(BINS[2:])], axis=1)


if __name__ == "__main__":
    main()
