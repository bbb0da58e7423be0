"""Answers: the method to train, for each model and task, and how methods compare with a reference.

The reference is the best method that was tried: full fine-tuning, unless another method surely
beats it. Parameters are counted without the classifier, which every method trains. A difference is
a method's score minus the reference's score with the same seed and fold; runs without a partner are
left out. Its interval is over seeds and rows, both paired. With a single seed it is over rows
alone; without predictions, over seeds alone. The chance that a method is within the margin of the
reference uses the same distribution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.curves import STILL_RISING
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.predictions import NO_ROWS, NUMBERS
from subtune.analysis.scores import trained_beside_classifier
from subtune.methods import masked_name, method_title

FULL = method_title("full")
# The lowest chance at which a method is sure to be within the margin.
SURE = 0.95
# Metrics that are shares of rows.
SHARES = {"accuracy", "exact_match"}
# The columns that the methods of one comparison share.
QUESTION = ["model", "task", "metric"]
# The columns that are averaged over for all tasks of a model.
TASK = ["task", "metric"]
# The columns in which these methods differ.
METHOD = ["method", "fraction", "scope"]
# Digits of a difference of scores; later digits are rounding errors.
DIGITS = 10
NO_DIFFERENCE = Interval(np.nan, np.nan, np.nan)


class Candidate(NamedTuple):
    """A method, and the difference of its score from that of a reference.

    Attributes:
        title: the method's title.
        trained: its number of trained parameters.
        share: this number as a share of full's.
        score: its mean score over the seeds and folds that the reference has too.
        reference: the reference's title.
        reference_score: the reference's mean score over the same seeds and folds.
        difference: the mean difference, with its interval.
        most_lost: with 95 % chance the loss against the reference is at most this.
        chance: the chance of a loss within the margin.
        is_sure: whether this chance is at least `SURE` over several seeds.
        seeds: the seeds of the task with the fewest.
        studies: one study per task; if one of them is unknown, none, and there is no interval.
        judged_by: the rows that give the scores: dev rows, test rows, or rows of folds.
        over: the seeds and rows of the interval, in words.
        at_edge: which of this method, the reference and full have their best learning rate at the
            edge on some task.
        still_rising: which of these three were still rising on some task.
        share_read: the share of the training texts' tokens that ``max_length`` keeps, on the task
            where this share is smallest.
    """

    title: str
    trained: int
    share: float
    score: float
    reference: str
    reference_score: float
    difference: Interval
    most_lost: float
    chance: float
    is_sure: bool
    seeds: tuple[int, ...]
    studies: tuple[Study, ...]
    judged_by: str
    over: str
    at_edge: tuple[str, ...]
    still_rising: tuple[str, ...]
    share_read: float


def judged_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the judging columns, with ``trained`` and the method's ``title``.

    If a task has a test file, the test rows give the scores.
    """
    judged = chosen[chosen["judges"]]
    titles = [title_with_mask(row) for row in judged[METHOD].to_dict("records")]
    return judged.assign(trained=trained_beside_classifier(judged), title=titles)


def title_with_mask(row: Mapping[str, Any]) -> str:
    """Return a method's title, with its mask if it has a scope, from a row with `METHOD`."""
    scope = None if pd.isna(row["scope"]) else row["scope"]
    return masked_name(method_title(row["method"]), row["fraction"], scope)


def folds_judge(runs: pd.DataFrame) -> bool:
    """Return whether each run is scored on its fold, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def compare_with_reference(
    runs: pd.DataFrame, numbers: pd.DataFrame
) -> tuple[str, list[Candidate], list[Candidate]]:
    """Return the reference's title, and the methods as compared with it and with full.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        numbers: the row scores, indexed by run.
    """
    with_full = compare_methods(runs, FULL, numbers)
    reference = find_reference(runs, with_full)
    if reference == FULL:
        return reference, with_full, with_full
    return reference, compare_methods(runs, reference, numbers), with_full


def find_reference(runs: pd.DataFrame, with_full: Sequence[Candidate]) -> str:
    """Return the title of the reference, the method against which the others may lose the margin.

    It is full fine-tuning, unless other methods are sure to beat full by more than the margin: then
    it is the one of them that beats full most. If full lacks a score, it is the method with the
    most runs; if several have as many, the one with the highest mean. It is empty if no method has
    a score.
    """
    if any(candidate.title == FULL for candidate in with_full):
        better = [c for c in with_full if _is_sure(c.studies, -runs["margin"].min())]
        best = max(better, key=lambda candidate: candidate.difference.mean, default=None)
        return best.title if best else FULL
    tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
    scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
    return "" if scored.empty else str(scored.index[-1])


def compare_methods(runs: pd.DataFrame, reference: str, numbers: pd.DataFrame) -> list[Candidate]:
    """Return the methods as compared with a reference, itself included, from the smallest.

    Methods without a difference on every task are left out. Scores are means over tasks.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        reference: the reference's title.
        numbers: the row scores, indexed by run.
    """
    tasks = runs.groupby(TASK).ngroups
    found = []
    for _, pairs in _pair_runs(runs, reference).groupby("title", sort=False):
        if pairs.groupby(TASK).ngroups == tasks and pairs["difference"].notna().all():
            found.append(_candidate(pairs, runs, numbers))
    return sorted(found, key=lambda candidate: (candidate.trained, -candidate.score))


def _candidate(pairs: pd.DataFrame, runs: pd.DataFrame, numbers: pd.DataFrame) -> Candidate:
    """Return a method as compared with a reference.

    Args:
        pairs: the method's runs, from `_pair_runs`.
        runs: the runs of all methods.
        numbers: the row scores, indexed by run.
    """
    by_task = [task_pairs for _, task_pairs in pairs.groupby(TASK, sort=False)]
    title, reference = pairs["title"].iloc[0], pairs["title_of_reference"].iloc[0]
    margin, trained = runs["margin"].min(), int(pairs["trained"].median())
    mean = float(np.mean([task_pairs["difference"].mean() for task_pairs in by_task]))
    scores = pairs.groupby("task")[["value", "value_of_reference"]].mean().mean()
    found = [_study(task_pairs, numbers) for task_pairs in by_task] if title != reference else []
    studies = tuple(study for study in found if study)
    if len(studies) < len(found):
        studies = ()
    of_folds = folds_judge(runs)
    judged_by = "rows" if of_folds else "dev rows" if runs["decides"].all() else "test rows"
    compared = dict.fromkeys([title, reference, FULL])
    at_edge = set(runs.loc[runs["at_edge"].astype(bool), "title"])
    still_rising = set(runs.loc[runs["curve"] == STILL_RISING, "title"])
    return Candidate(
        title=title,
        trained=trained,
        share=trained / runs.loc[runs["title"] == FULL, "trained"].median(),
        score=scores["value"],
        reference=reference,
        reference_score=scores["value_of_reference"],
        difference=intervals.mean_interval(studies)
        if studies
        else NO_DIFFERENCE._replace(mean=mean),
        most_lost=intervals.most_lost(studies),
        chance=intervals.chance_within(studies, margin),
        is_sure=_is_sure(studies, margin),
        seeds=tuple(sorted(min(by_task, key=len)["seed"])),
        studies=studies,
        judged_by=judged_by,
        over=_over(studies, judged_by),
        at_edge=tuple(name for name in compared if name in at_edge),
        still_rising=tuple(name for name in compared if name in still_rising),
        share_read=float(pairs["share_read"].min()),
    )


def _pair_runs(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the runs whose seed and fold the reference has too, with their ``difference``.

    The columns ``title_of_reference``, ``value_of_reference`` and ``run_of_reference`` are the
    partner's. A difference is NaN if a run diverged.
    """
    same = [*QUESTION, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "title", "value", "run"]]
    pairs = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    difference = (pairs["value"] - pairs["value_of_reference"]).round(DIGITS)
    return pairs.assign(difference=difference)


def _study(pairs: pd.DataFrame, numbers: pd.DataFrame) -> Study | None:
    """Return one method's differences on one task, or None if there is no interval.

    There is none if the predictions of a single seed are unknown, or if no row differs and the
    metric is not a share of rows.

    Args:
        pairs: from `_pair_runs`.
        numbers: the row scores, indexed by run.
    """
    both, differences = (pairs["run"], pairs["run_of_reference"]), pairs["difference"].tolist()
    if not all(run.isin(numbers.index).all() for run in both):
        return intervals.estimate_study(differences, None, 0) if len(pairs) > 1 else None
    own, of_reference = (numbers.loc[run, NUMBERS].to_numpy(float) for run in both)
    values, rows = own - of_reference, numbers.loc[pairs["run"], "rows"].tolist()
    if folds_judge(pairs):
        folds = pairs["fold"].nunique()
        study = intervals.estimate_nested_study(
            differences, values, sum(rows) * folds // len(rows), folds
        )
    else:
        known = ~np.isnan(values).any(axis=0)
        study = intervals.estimate_study(differences, values[:, known], rows[0])
    return study if study.error()[0] or pairs["metric"].iloc[0] in SHARES else None


def _is_sure(studies: Sequence[Study], margin: float) -> bool:
    """Return whether the chance that a loss is at most the margin is at least `SURE`.

    The chance of a single seed does not include differences between seeds, so one seed is never
    sure.
    """
    is_likely = intervals.chance_within(studies, margin) >= SURE
    return is_likely and min(study.seeds for study in studies) > 1


def _over(studies: Sequence[Study], judged_by: str) -> str:
    """Return the seeds and rows of an interval in words."""
    if not studies:
        return ""
    seeds = min(study.seeds for study in studies)
    unit = "fold" if judged_by == "rows" else "seed"
    over = f"one {unit}" if seeds == 1 else f"{seeds} {unit}s"
    if all(study.parts for study in studies):
        over += f" and {sum(study.rows for study in studies):,} {judged_by}"
    return over


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
        reference: the title of the method from `subtune.analysis.answer.find_reference`, or
            empty.
        decision: from `_decision`.
        candidate: the method of the decision; if everything trains, the method nearest to full. Its
            numbers are against the reference, or if it is the reference, against full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate, or why full is not the reference.
        full_with_one_answer: the number of full fine-tuning's runs that predict the same answer for
            all rows.
        more_seeds: how many further seeds would make a probable method sure, if it is known. It is
            unknown with a single seed.
        more_rows: how many further rows would do so, with the same seeds; unknown for all tasks.
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


def find_answers(
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
    reference, compared, with_full = compare_with_reference(runs, numbers)
    missing: Missing | None = None
    if not _find_candidate(with_full, reference):
        missing = "full" if full.empty else "score of full"
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
    if decision != "probably" or missing or unfinished:
        return answer
    studies = candidate.studies if len(candidate.seeds) > 1 else ()
    return replace(
        answer,
        more_seeds=intervals.additional_seeds_needed(studies, margin),
        more_rows=(
            intervals.additional_rows_needed(studies[0], margin) if len(studies) == 1 else None
        ),
    )


def _find_candidate(candidates: Sequence[Candidate], title: str) -> Candidate | None:
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
    reference = _find_candidate(compared, answer.reference)
    smaller = [c for c in compared if reference and c.trained < reference.trained]
    if not answer.missing:
        for candidate in smaller:
            if candidate.is_sure:
                return "train", candidate
    for candidate in smaller:
        # The distribution is symmetric: the chance is at least a half if the mean is within.
        if candidate.difference.mean >= -answer.margin:
            return "probably", candidate
    if answer.missing:
        return "probably", reference
    if answer.reference != FULL:
        return "train", _find_candidate(with_full, answer.reference)
    return "everything", max(smaller, key=lambda c: c.difference.mean, default=None)
