"""Answers: the method to train, for each model and task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import (
    FULL,
    QUESTION,
    Candidate,
    folds_judge,
    judged_runs,
    with_reference,
)
from subtune.analysis.predictions import NO_ROWS

ALL_TASKS = "all tasks"
Decision = Literal["train", "probably", "everything"]
Missing = Literal["full", "score of full", "smaller method"]
# By method: how many seeds or folds are done, and how many are planned.
Unfinished = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        margin: the largest acceptable loss of score against the reference.
        reference: the title of the method from `subtune.analysis.candidates.reference_of`, or
            empty.
        decision: from `_decision`.
        candidate: the method of the decision; if everything trains, the method nearest to full. Its
            numbers are against the reference, or if it is the reference, against full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate, or why full is not the reference.
        full_with_one_answer: the number of full fine-tuning's runs that predict the same answer for
            all rows.
        more_seeds: how many further seeds would make a probable method sure, if it is known.
        more_rows: how many further rows would do so, with the same seeds.
        unit: *fold* or *seed*, in which methods are planned.
        unfinished: the methods that lack some of their seeds or folds.
    """

    model: str
    task: str
    metric: str
    margin: float
    reference: str = ""
    decision: Decision | None = None
    candidate: Candidate | None = None
    better: Candidate | None = None
    missing: Missing | None = None
    full_with_one_answer: int = 0
    more_seeds: int | None = None
    more_rows: int | None = None
    unit: str = "seed"
    unfinished: Unfinished = field(default_factory=dict)


def answers(
    chosen: pd.DataFrame,
    row_scores: pd.DataFrame = NO_ROWS,
    unfinished: Unfinished = MappingProxyType({}),
) -> list[Answer]:
    """Return an answer per model and task, and one for all tasks of a model that has several.

    If experiments have different margins, the smallest counts.
    """
    numbers, found = row_scores.set_index("run"), []
    for model, runs_of_model in judged_runs(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            question = str(model), str(task), str(metric)
            found.append(_answer(question, runs, numbers, unfinished))
        if len(questions) > 1:
            together = _answer((str(model), ALL_TASKS, "mean"), runs_of_model, numbers, unfinished)
            found += [together] if together.candidate else []
    return found


def _answer(
    question: tuple[str, str, str],
    runs: pd.DataFrame,
    numbers: pd.DataFrame,
    unfinished: Unfinished,
) -> Answer:
    """Return the answer from the runs of one model on one or all tasks."""
    margin, full = float(runs["margin"].min()), runs[runs["title"] == FULL]
    reference, compared, with_full = with_reference(runs, numbers)
    missing = None if _titled(with_full, reference) else _missing(full)
    answer = Answer(
        *question,
        margin,
        reference,
        missing=missing,
        full_with_one_answer=int(full["one_answer"].sum()),
        unit="fold" if folds_judge(runs) else "seed",
        unfinished=unfinished,
    )
    decision, candidate = _decision(answer, compared, with_full)
    if not candidate:
        return replace(answer, missing=missing or "smaller method")
    better = [c for c in with_full if c.difference.low > 0 and c.trained < full["trained"].median()]
    answer = replace(
        answer,
        decision=decision,
        candidate=candidate,
        better=max(better, key=lambda candidate: candidate.difference.mean, default=None),
    )
    is_open = decision == "probably" and not missing and not unfinished
    return _with_what_would_tell(answer, candidate) if is_open else answer


def _missing(full: pd.DataFrame) -> Missing:
    """Return why methods cannot be compared with full, from the runs of full."""
    return "full" if full.empty else "score of full"


def _titled(candidates: Sequence[Candidate], title: str) -> Candidate | None:
    """Return the candidate with a title, if there is one."""
    return next((candidate for candidate in candidates if candidate.title == title), None)


def _decision(
    answer: Answer, compared: Sequence[Candidate], with_full: Sequence[Candidate]
) -> tuple[Decision, Candidate | None]:
    """Return the decision, and the method that it names. The first rule that applies decides:

    1. *Train* the smallest method that is sure to be within the margin of the reference. Without a
       score of full, no method is sure.
    2. *Probably* the smallest method within the margin of the reference with a chance of at least a
       half. If there is none, and full has no score, *probably* the reference.
    3. *Train* the reference, if it beats full.
    4. *Everything*, which is full fine-tuning; the method nearest to full is named.

    Only methods that are smaller than the reference are named in rules 1, 2 and 4. There is no such
    method if the reference has no score.

    Args:
        answer: the answer so far, with its reference.
        compared: the comparison of each method with the reference, from the smallest method.
        with_full: the comparison of each method with full fine-tuning.
    """
    reference = _titled(compared, answer.reference)
    smaller = [c for c in compared if reference and c.trained < reference.trained]
    if not answer.missing:
        for candidate in smaller:
            if candidate.is_sure:
                return "train", candidate
    for candidate in smaller:
        # The distribution is symmetric, and the mean is known even without an interval.
        if candidate.difference.mean >= -answer.margin:
            return "probably", candidate
    if answer.missing:
        return "probably", reference
    if answer.reference != FULL:
        return "train", _titled(with_full, answer.reference)
    return "everything", max(smaller, key=lambda c: c.difference.mean, default=None)


def _with_what_would_tell(answer: Answer, candidate: Candidate) -> Answer:
    """Return an answer with how many more seeds or rows would make a probable method sure.

    The numbers are unknown if there is a single seed, and the number of rows for several tasks.
    """
    studies = candidate.studies if len(candidate.seeds) > 1 else ()
    rows = intervals.more_rows(studies[0], answer.margin) if len(studies) == 1 else None
    seeds = intervals.more_seeds(studies, answer.margin)
    return replace(answer, more_seeds=seeds, more_rows=rows)
