"""A decision: which method to train, by what one can afford to lose against full fine-tuning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from subtune.analysis import crossed
from subtune.analysis.judged_apart import NO_ROWS
from subtune.analysis.summary import QUESTION, REFERENCE, Candidate, candidates, with_differences

ALL_TASKS = "all tasks"
# The chance from which a method is named without a doubt.
SURE = 0.95
Decision = Literal["train", "probably", "everything"]


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        margin: the largest loss of score against full fine-tuning that one can afford.
        decision: *train* the smallest method that is within the margin with a chance of at least
            `SURE` over several seeds; else *probably* the smallest that is so with at least a half;
            else *everything*, which is full fine-tuning.
        candidate: that method; if everything trains, the method nearest to full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate.
        more_seeds: how many further seeds would make a probable method sure, if it is known.
        more_rows: how many further rows would, with the same seeds.
    """

    model: str
    task: str
    metric: str
    margin: float
    decision: Decision | None = None
    candidate: Candidate | None = None
    better: Candidate | None = None
    missing: Literal["full", "score of full", "smaller method"] | None = None
    more_seeds: int | None = None
    more_rows: int | None = None


def answers(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> list[Answer]:
    """Return an answer per model and task, and one for all tasks of a model that has several.

    Where experiments have different margins, the smallest counts.
    """
    found = []
    for model, runs_of_model in with_differences(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            question = str(model), str(task), str(metric)
            margin = float(runs["margin"].min())
            full = runs.loc[runs["method"] == REFERENCE, "value"]
            smaller = candidates(runs, row_scores)
            if full.empty:
                found.append(Answer(*question, margin, missing="full"))
            elif full.isna().any():
                found.append(Answer(*question, margin, missing="score of full"))
            elif not smaller:
                found.append(Answer(*question, margin, missing="smaller method"))
            else:
                found.append(_decided(smaller, question, margin))
        together = candidates(runs_of_model, row_scores) if len(questions) > 1 else []
        if together:
            margin = float(runs_of_model["margin"].min())
            found.append(_decided(together, (str(model), ALL_TASKS, "mean"), margin))
    return found


def _decided(smaller: Sequence[Candidate], question: tuple[str, str, str], margin: float) -> Answer:
    """Return the answer from the methods smaller than full, which stand from the smallest."""
    # How seeds differ is not in the chance of a single one.
    sure = next((c for c in smaller if c.chance >= SURE and len(c.seeds) > 1), None)
    # The distribution is symmetric, and the mean is known where there is no interval.
    likely = next((c for c in smaller if c.difference.mean >= -margin), None)
    nearest = max(smaller, key=lambda candidate: candidate.difference.mean)
    better = [c for c in smaller if c.difference.low > 0]
    studies = likely.studies if likely and not sure else ()
    return Answer(
        *question,
        margin,
        "train" if sure else "probably" if likely else "everything",
        sure or likely or nearest,
        max(better, key=lambda candidate: candidate.difference.mean, default=None),
        more_seeds=crossed.more_seeds(studies, margin),
        more_rows=crossed.more_rows(studies[0], margin) if len(studies) == 1 else None,
    )
