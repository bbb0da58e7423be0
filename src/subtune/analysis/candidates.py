"""Methods as candidates: how each compares with a reference, and their summary.

The reference is the best method that was tried: full fine-tuning, unless another method surely
beats it. Parameters are counted without the classifier, which every method trains. A difference is
a method's score minus the reference's score with the same seed and fold; runs without a partner are
left out. Its interval is over seeds and rows, both paired. With a single seed it is over rows
alone; without predictions, over seeds alone. The chance that a method is within the margin of the
reference uses the same distribution.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import (
    FELL,
    METHOD,
    QUESTION,
    STILL_RISING,
    title_with_mask,
    trained_beside_classifier,
)
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.run_scores import NO_ROWS, PART_COLUMNS
from subtune.analysis.tables import order_columns
from subtune.methods import method_title

FULL_TITLE = method_title("full")
# The lowest chance at which a method is sure to be within the margin.
SURE = 0.95
# Metrics that are shares of rows.
SHARES = {"accuracy", "exact_match"}
# The columns that are averaged over for all tasks of a model.
TASK = ["task", "metric"]
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


def folds_judge(runs: pd.DataFrame) -> bool:
    """Return whether each run is scored on its fold, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def compare_with_reference(
    runs: pd.DataFrame, pseudo_values: pd.DataFrame
) -> tuple[str, dict[str, Candidate], dict[str, Candidate]]:
    """Return the reference's title, and the methods as compared with it and with full, by title.

    The reference is the method against which the others may lose the margin. It is full
    fine-tuning, unless other methods are sure to beat full by more than the margin: then it is the
    one of them that beats full most. If full lacks a score, it is the method with the most runs; if
    several have as many, the one with the highest mean. It is empty if no method has a score.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        pseudo_values: the row scores, indexed by run.
    """
    with_full = compare_methods(runs, FULL_TITLE, pseudo_values)
    if FULL_TITLE in with_full:
        margin = runs["margin"].min()
        better = [c for c in with_full.values() if _is_sure(c.studies, -margin)]
        best = max(better, key=lambda candidate: candidate.difference.mean, default=None)
        reference = best.title if best else FULL_TITLE
    else:
        tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
        scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
        reference = "" if scored.empty else str(scored.index[-1])
    if reference == FULL_TITLE:
        return reference, with_full, with_full
    return reference, compare_methods(runs, reference, pseudo_values), with_full


def compare_methods(
    runs: pd.DataFrame, reference: str, pseudo_values: pd.DataFrame
) -> dict[str, Candidate]:
    """Return the methods as compared with a reference, itself included, from the smallest.

    Runs are paired by seed and fold. Methods without a difference on every task, such as those of
    which a run diverged, are left out. Scores are means over tasks.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        reference: the reference's title.
        pseudo_values: the row scores, indexed by run.
    """
    same = [*QUESTION, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "title", "value", "run"]]
    every = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    every["difference"] = (every["value"] - every["value_of_reference"]).round(DIGITS)
    tasks = runs.groupby(TASK).ngroups
    found = [
        _candidate(pairs, runs, pseudo_values)
        for _, pairs in every.groupby("title", sort=False)
        if pairs.groupby(TASK).ngroups == tasks and pairs["difference"].notna().all()
    ]
    found = sorted(found, key=lambda candidate: (candidate.trained, -candidate.score))
    return {candidate.title: candidate for candidate in found}


def _candidate(pairs: pd.DataFrame, runs: pd.DataFrame, pseudo_values: pd.DataFrame) -> Candidate:
    """Return a method as compared with a reference.

    Args:
        pairs: the method's runs. The columns ``title_of_reference``, ``value_of_reference`` and
            ``run_of_reference`` are those of the reference's run with the same seed and fold.
        runs: the runs of all methods.
        pseudo_values: the row scores, indexed by run.
    """
    by_task = [task_pairs for _, task_pairs in pairs.groupby(TASK, sort=False)]
    title, reference = pairs["title"].iloc[0], pairs["title_of_reference"].iloc[0]
    margin, trained = runs["margin"].min(), int(pairs["trained"].median())
    mean = float(np.mean([task_pairs["difference"].mean() for task_pairs in by_task]))
    scores = pairs.groupby("task")[["value", "value_of_reference"]].mean().mean()
    found: list[Study | None] = []
    if title != reference:
        found = [_study(task_pairs, pseudo_values) for task_pairs in by_task]
    studies = tuple(study for study in found if study)
    if len(studies) < len(found):
        studies = ()
    of_folds = folds_judge(runs)
    judged_by = "rows" if of_folds else "dev rows" if runs["decides"].all() else "test rows"
    compared = dict.fromkeys([title, reference, FULL_TITLE])
    at_edge = set(runs.loc[runs["at_edge"].astype(bool), "title"])
    still_rising = set(runs.loc[runs["curve"] == STILL_RISING, "title"])
    return Candidate(
        title=title,
        trained=trained,
        share=trained / runs.loc[runs["title"] == FULL_TITLE, "trained"].median(),
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


def _study(pairs: pd.DataFrame, pseudo_values: pd.DataFrame) -> Study | None:
    """Return one method's differences on one task, or None if there is no interval.

    There is none if the predictions of a single seed are unknown, or if no row differs and the
    metric is not a share of rows.

    Args:
        pairs: as in `_candidate`.
        pseudo_values: the row scores, indexed by run.
    """
    both, differences = (pairs["run"], pairs["run_of_reference"]), pairs["difference"].tolist()
    if not all(run.isin(pseudo_values.index).all() for run in both):
        return intervals.estimate_study(differences, None, 0) if len(pairs) > 1 else None
    own, of_reference = (pseudo_values.loc[run, PART_COLUMNS].to_numpy(float) for run in both)
    values, rows = own - of_reference, pseudo_values.loc[pairs["run"], "rows"].tolist()
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


def summary(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> pd.DataFrame:
    """Return a row per model, task and method, with scores in each task's judging column.

    `columns.csv` explains the columns. Methods are sorted by score, the highest first. A method
    that diverged has no score.
    """
    pseudo_values, rows = row_scores.set_index("run"), []
    for question, runs in judged_runs(chosen).groupby(QUESTION, sort=False):
        reference, compared, _ = compare_with_reference(runs, pseudo_values)
        full = runs.loc[runs["title"] == FULL_TITLE, "trained"].median()
        for (title, *method), same in runs.groupby(["title", *METHOD], sort=False, dropna=False):
            candidate = None if title == reference else compared.get(str(title))
            difference = candidate.difference if candidate else NO_DIFFERENCE
            # A reference other than full beats full, if full is compared with it.
            beats_full = title == reference != FULL_TITLE and FULL_TITLE in compared
            trained = int(same["trained"].median())
            rows.append(
                {
                    **dict(zip([*QUESTION, *METHOD], [*question, *method], strict=True)),
                    "reference": reference,
                    "margin": runs["margin"].min(),
                    "score": same["value"].mean(skipna=False),
                    "spread": same["value"].std(),
                    "seeds": len(same),
                    "difference": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "most_lost": candidate.most_lost if candidate else np.nan,
                    "chance": candidate.chance if candidate else np.nan,
                    "sure": candidate.is_sure if candidate else beats_full,
                    "trained": trained,
                    "share": trained / full,
                    "delta_bytes": same["delta_bytes"].median(),
                    "seconds": same["seconds"].median(),
                    "one_answer": int(same["one_answer"].sum()),
                    "epoch": same["best_epoch"].astype(float).median(),
                    "at_edge": bool(same["at_edge"].any()),
                    "curve": same["curve"].iloc[0],
                }
            )
    table = pd.DataFrame(rows)
    table = order_columns(table.assign(on_front=on_front(table)), "summary")
    return sort_methods(table, ["score", "trained"])


def sort_methods(methods: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return the methods of each question, ordered by columns: sizes ascend and scores descend."""
    ascending = [column != "score" for column in columns]
    questions = [rows for _, rows in methods.groupby(QUESTION, sort=False)]
    ordered = [rows.sort_values(columns, ascending=ascending) for rows in questions]
    return pd.concat(ordered, ignore_index=True)


def on_front(table: pd.DataFrame) -> pd.Series:
    """Return the rows that no other method for the same task beats in score and parameters."""
    scores = table.assign(score=table["score"].fillna(-np.inf))
    by_size = scores.sort_values(["trained", "score"], ascending=[True, False])
    fronts = by_size.groupby(QUESTION)["score"].transform(
        lambda score: score > score.cummax().shift(fill_value=-np.inf)
    )
    return fronts.reindex(table.index).astype(bool)


def remarks(row: Mapping[str, Any]) -> str | None:
    """Return why other learning rates or epochs might score higher, or None.

    The reasons are *at the edge*, *still rising* and *fell*.
    """
    reasons = []
    if row["at_edge"]:
        reasons.append("at the edge")
    if row["curve"] in (STILL_RISING, FELL):
        reasons.append(row["curve"])
    return ", ".join(reasons) if reasons else None
