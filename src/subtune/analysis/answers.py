"""The smallest method that is not worse than full fine-tuning by more than a margin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from subtune.analysis import crossed, verdicts
from subtune.analysis.row_scores import NO_ROWS
from subtune.analysis.summary import QUESTION, REFERENCE, Candidate, candidates, with_differences
from subtune.analysis.verdicts import EQUIVALENCE_MARGINS

MARGIN = EQUIVALENCE_MARGINS["score"]
ALL_TASKS = "all tasks"


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        candidate: the smallest method whose mean difference to full is within the margin; if there
            is none, the method nearest to full.
        is_within: whether the candidate is within the margin.
        verdict: what the candidate's interval says.
        confident: the smallest method whose whole interval is within the margin.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate.
        more_seeds: how many further seeds would decide, if the runs are too few and it is known.
        more_rows: how many further rows would, with the same seeds.
    """

    model: str
    task: str
    metric: str
    candidate: Candidate | None = None
    is_within: bool = False
    verdict: str | None = None
    confident: Candidate | None = None
    better: Candidate | None = None
    missing: Literal["full", "score of full", "smaller method"] | None = None
    more_seeds: int | None = None
    more_rows: int | None = None


def answers(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> list[Answer]:
    """Return an answer per model and task, and one for all tasks of a model that has several."""
    found = []
    for model, runs_of_model in with_differences(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            question = str(model), str(task), str(metric)
            full = runs.loc[runs["method"] == REFERENCE, "value"]
            smaller = candidates(runs, row_scores)
            if full.empty:
                found.append(Answer(*question, missing="full"))
            elif full.isna().any():
                found.append(Answer(*question, missing="score of full"))
            elif not smaller:
                found.append(Answer(*question, missing="smaller method"))
            else:
                found.append(_of_candidates(smaller, question))
        together = candidates(runs_of_model, row_scores) if len(questions) > 1 else []
        if together:
            found.append(_of_candidates(together, (str(model), ALL_TASKS, "mean")))
    return found


def _of_candidates(smaller: Sequence[Candidate], question: tuple[str, str, str]) -> Answer:
    """Return the answer from the methods smaller than full, which stand from the smallest."""
    within = [c for c in smaller if verdicts.holds("no less", c.difference.mean, MARGIN)]
    named = within[0] if within else max(smaller, key=lambda c: c.difference.mean)
    verdict = _verdict(named)
    seeds, rows = _more(named) if verdict == verdicts.UNDECIDED else (None, None)
    better = [c for c in smaller if c.difference.low > 0]
    return Answer(
        *question,
        named,
        is_within=bool(within),
        verdict=verdict,
        confident=next((c for c in within if _verdict(c) == verdicts.SUPPORTED), None),
        better=max(better, key=lambda c: c.difference.mean, default=None),
        more_seeds=seeds,
        more_rows=rows,
    )


def _more(candidate: Candidate) -> tuple[int | None, int | None]:
    """Return how many further seeds would decide, or dev rows with the same seeds, if known."""
    distance, studies = abs(candidate.difference.mean + MARGIN), candidate.studies
    rows = crossed.more_rows(studies[0], distance) if len(studies) == 1 else None
    if len(candidate.seeds) < verdicts.FEWEST_UNITS:
        return verdicts.FEWEST_UNITS - len(candidate.seeds), rows
    return crossed.more_seeds(studies, distance), rows


def _verdict(candidate: Candidate) -> str:
    return verdicts.verdict("no less", candidate.difference, MARGIN)
