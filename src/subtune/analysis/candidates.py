"""Methods compared with a reference: differences of scores, their intervals and chances.

The reference is the best method that was tried: full fine-tuning, unless another method surely
beats it. Parameters are counted without the classifier, which every method trains. A difference is
a method's score minus the reference's score with the same seed and fold; runs without a partner are
left out. Its interval is over seeds and rows, both paired. With a single seed it is over rows
alone; without predictions, over seeds alone. The chance that a method is within the margin of the
reference uses the same distribution.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.curves import STILL_RISING
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.predictions import NUMBERS
from subtune.analysis.scores import trained_beside_classifier
from subtune.selections.methods import title_of, with_mask

FULL = title_of("full")
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
    titles = [title_with_mask(*method) for method in judged[METHOD].itertuples(index=False)]
    return judged.assign(trained=trained_beside_classifier(judged), title=titles)


def title_with_mask(method: str, fraction: float, scope: Any) -> str:
    """Return a method's title, with its mask if it has a scope."""
    return with_mask(title_of(method), fraction, None if pd.isna(scope) else scope)


def folds_judge(runs: pd.DataFrame) -> bool:
    """Return whether each run is scored on its fold, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def with_reference(
    runs: pd.DataFrame, numbers: pd.DataFrame
) -> tuple[str, list[Candidate], list[Candidate]]:
    """Return the reference's title, and the methods as compared with it and with full.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        numbers: the row scores, indexed by run.
    """
    with_full = candidates(runs, FULL, numbers)
    reference = reference_of(runs, with_full)
    if reference == FULL:
        return reference, with_full, with_full
    return reference, candidates(runs, reference, numbers), with_full


def reference_of(runs: pd.DataFrame, with_full: Sequence[Candidate]) -> str:
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


def candidates(runs: pd.DataFrame, reference: str, numbers: pd.DataFrame) -> list[Candidate]:
    """Return the methods as compared with a reference, itself included, from the smallest.

    Methods without a difference on every task are left out. Scores are means over tasks.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        reference: the reference's title.
        numbers: the row scores, indexed by run.
    """
    tasks = runs.groupby(TASK).ngroups
    found = []
    for _, pairs in _paired(runs, reference).groupby("title", sort=False):
        if pairs.groupby(TASK).ngroups == tasks and pairs["difference"].notna().all():
            found.append(_candidate(pairs, runs, numbers))
    return sorted(found, key=lambda candidate: (candidate.trained, -candidate.score))


def _candidate(pairs: pd.DataFrame, runs: pd.DataFrame, numbers: pd.DataFrame) -> Candidate:
    """Return a method as compared with a reference.

    Args:
        pairs: the method's runs, from `_paired`.
        runs: the runs of all methods.
        numbers: the row scores, indexed by run.
    """
    by_task = [task_pairs for _, task_pairs in pairs.groupby(TASK, sort=False)]
    title, reference = pairs["title"].iloc[0], pairs["title_of_reference"].iloc[0]
    margin, trained = runs["margin"].min(), int(pairs["trained"].median())
    mean = float(np.mean([task_pairs["difference"].mean() for task_pairs in by_task]))
    scores = pairs.groupby("task")[["value", "value_of_reference"]].mean().mean()
    studies = _studies(by_task, numbers) if title != reference else ()
    judged_by = _judging_rows(runs)
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
        difference=intervals.interval(studies) if studies else NO_DIFFERENCE._replace(mean=mean),
        most_lost=intervals.most_lost(studies),
        chance=intervals.chance(studies, margin),
        is_sure=_is_sure(studies, margin),
        seeds=tuple(sorted(min(by_task, key=len)["seed"])),
        studies=studies,
        judged_by=judged_by,
        over=_over(studies, judged_by),
        at_edge=tuple(name for name in compared if name in at_edge),
        still_rising=tuple(name for name in compared if name in still_rising),
        share_read=float(pairs["share_read"].min()),
    )


def _paired(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the runs whose seed and fold the reference has too, with their ``difference``.

    The columns ``title_of_reference``, ``value_of_reference`` and ``run_of_reference`` are the
    partner's. A difference is NaN if a run diverged.
    """
    same = [*QUESTION, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "title", "value", "run"]]
    pairs = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    difference = (pairs["value"] - pairs["value_of_reference"]).round(DIGITS)
    return pairs.assign(difference=difference)


def _studies(by_task: Sequence[pd.DataFrame], numbers: pd.DataFrame) -> tuple[Study, ...]:
    """Return a study per task, or none if there is no interval for one of the tasks."""
    studies = tuple(_study(pairs, numbers) for pairs in by_task)
    known = tuple(study for study in studies if study)
    return known if len(known) == len(studies) else ()


def _study(pairs: pd.DataFrame, numbers: pd.DataFrame) -> Study | None:
    """Return one method's differences on one task, or None if there is no interval.

    There is none if the predictions of a single seed are unknown, or if no row differs and the
    metric is not a share of rows.

    Args:
        pairs: from `_paired`.
        numbers: the row scores, indexed by run.
    """
    both, differences = (pairs["run"], pairs["run_of_reference"]), pairs["difference"].tolist()
    if not all(run.isin(numbers.index).all() for run in both):
        return intervals.study(differences, None, 0) if len(pairs) > 1 else None
    own, of_reference = (numbers.loc[run, NUMBERS].to_numpy(float) for run in both)
    values, rows = own - of_reference, numbers.loc[pairs["run"], "rows"].tolist()
    if folds_judge(pairs):
        folds = pairs["fold"].nunique()
        study = intervals.nested_study(differences, values, sum(rows) * folds // len(rows), folds)
    else:
        known = ~np.isnan(values).any(axis=0)
        study = intervals.study(differences, values[:, known], rows[0])
    return study if study.error()[0] or pairs["metric"].iloc[0] in SHARES else None


def _is_sure(studies: Sequence[Study], margin: float) -> bool:
    """Return whether a loss is at most the margin with a chance of at least `SURE`.

    The chance of a single seed does not include differences between seeds, so one seed is never
    sure.
    """
    is_likely = intervals.chance(studies, margin) >= SURE
    return is_likely and min(study.seeds for study in studies) > 1


def _judging_rows(runs: pd.DataFrame) -> str:
    """Return the name of the rows that give the scores."""
    if folds_judge(runs):
        return "rows"
    return "dev rows" if runs["decides"].all() else "test rows"


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
