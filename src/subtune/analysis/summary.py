"""Scores and costs of methods, compared with full fine-tuning, and the method to train.

Parameters are counted without the classifier, which every method trains. A difference is the
method's score minus full's score with the same seed. Its interval is over seeds and rows, both
paired. With a single seed it is over rows alone; without predictions, over seeds alone. The chance
that a method is within the margin of full uses the same distribution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.predictions import NO_ROWS, NUMBERS
from subtune.analysis.scores import best_of, on_most_rows, trained_beside_classifier
from subtune.runs.tables import FELL, STILL_RISING
from subtune.selections.methods import title_of, with_mask

REFERENCE = "full"
ALL_TASKS = "all tasks"
# The lowest chance at which the answer names a method without "probably".
SURE = 0.95
Decision = Literal["train", "probably", "everything"]
Missing = Literal["full", "score of full", "smaller method"]
# Metrics that are shares of rows.
SHARES = {"accuracy", "exact_match"}
# The columns that the methods of one comparison share.
QUESTION = ["model", "task", "metric"]
# The columns in which these methods differ.
METHOD = ["method", "fraction", "scope"]
# Digits of a difference of scores; later digits are rounding errors.
DIGITS = 10


def summary(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> pd.DataFrame:
    """Return a row per model, task and method, with scores in each task's judging column.

    Returns:
        ``model``, ``task``, ``metric``, ``method``, ``fraction``, ``scope``; ``score`` and
        ``spread`` (mean and standard deviation over seeds), ``seeds``; ``difference`` to full with
        ``low`` and ``high`` of its 95 % interval; ``most_lost`` (the loss against full is at most
        this with 95 % chance) and ``chance`` (that it is at most the ``margin``); ``trained``
        (parameters), ``share`` of full's parameters; ``delta_bytes``, ``seconds`` of training and
        ``epoch`` of the best score (medians over seeds); ``one_answer``, the number of seeds whose
        run predicts the same for every row; ``at_edge`` (whether the best learning rate is the
        smallest or largest tried); ``curve`` (converged, still rising, or fell); ``on_front``: no
        other method scores as high with fewer parameters, or higher with as many. Methods are
        sorted by score, the highest first. A method that diverged has no score.
    """
    judged = with_differences(chosen)
    rows = []
    for question, runs_of_question in judged.groupby(QUESTION, sort=False):
        full = _runs_of_full(runs_of_question)["trained"].median()
        for method, runs in runs_of_question.groupby(METHOD, sort=False, dropna=False):
            difference, studies = _difference([runs], row_scores)
            margin, trained = runs_of_question["margin"].min(), runs["trained"].median()
            rows.append(
                dict(zip([*QUESTION, *METHOD], [*question, *method], strict=True))
                | {"score": runs["value"].mean(skipna=False), "spread": runs["value"].std()}
                | {"seeds": len(runs), "difference": difference.mean}
                | {"low": difference.low, "high": difference.high}
                | {"most_lost": intervals.most_lost(studies)}
                | {"chance": intervals.chance(studies, margin), "margin": margin}
                | {"trained": int(trained), "share": trained / full if full else np.nan}
                | {name: runs[name].median() for name in ("delta_bytes", "seconds")}
                | {"one_answer": int(runs["one_answer"].sum())}
                | {"epoch": runs["best_epoch"].astype(float).median()}
                | {"at_edge": bool(runs["at_edge"].any()), "curve": runs["curve"].iloc[0]}
            )
    table = pd.DataFrame(rows)
    return _in_order(table.assign(on_front=on_front(table)), ["score", "trained"])


def from_the_smallest(methods: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `summary` with each task's methods from the smallest to the largest."""
    return _in_order(methods, ["trained", "score"])


def _in_order(methods: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return the methods of each question, ordered by columns: sizes ascend and scores descend."""
    ascending = [column != "score" for column in columns]
    questions = [rows for _, rows in methods.groupby(QUESTION, sort=False)]
    ordered = [rows.sort_values(columns, ascending=ascending) for rows in questions]
    return pd.concat(ordered, ignore_index=True)


def is_sure(chance: Any, seeds: Any) -> Any:
    """Return whether a chance is at least `SURE`, for numbers or for columns of numbers.

    The chance of a single seed does not include differences between seeds, so one seed is never
    sure.
    """
    return (chance >= SURE) & (seeds > 1)


def on_front(table: pd.DataFrame) -> pd.Series:
    """Return the rows that no other method for the same task beats in score and parameters."""
    scores = table.assign(score=table["score"].fillna(-np.inf))
    by_size = scores.sort_values(["trained", "score"], ascending=[True, False])
    fronts = by_size.groupby(QUESTION)["score"].transform(
        lambda score: score > score.cummax().shift(fill_value=-np.inf)
    )
    return fronts.reindex(table.index).astype(bool)


def merged_experiments(chosen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the runs of several experiments as one table.

    If experiments share a setting, the experiment in which the setting scores best counts. Only the
    runs on the most training rows of a model and task count. If experiments judge a task by
    different metrics, each metric counts as a separate task.
    """
    tables = [table.assign(experiment=number) for number, table in enumerate(chosen)]
    together = on_most_rows(pd.concat(tables, ignore_index=True))
    best = best_of(together, [*QUESTION, *METHOD], together["experiment"])
    return best.drop(columns="experiment")


def with_differences(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the judging columns, with ``trained``, ``difference``, ``run_of_full``.

    If a task has a test file, the test rows give the scores. The difference is NaN for full itself,
    and if the method or full has no score for that seed and fold.
    """
    judged = chosen[chosen["judges"]]
    same = [*QUESTION, "seed", "fold"]
    full = _runs_of_full(judged)[[*same, "value", "run"]]
    both = judged.merge(full, "left", on=same, suffixes=(None, "_of_full"), validate="m:1")
    difference = (both["value"] - both["value_of_full"]).round(DIGITS)
    difference = difference.drop(_runs_of_full(both).index)
    return both.assign(trained=trained_beside_classifier(both), difference=difference)


def _runs_of_full(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of full fine-tuning without a mask."""
    return runs[(runs["method"] == REFERENCE) & runs["scope"].isna()]


def study_of(runs: pd.DataFrame, row_scores: pd.DataFrame) -> Study | None:
    """Return one method's differences from full on one task, or None if there is no interval.

    There is none if a seed has no difference, if the predictions of a single seed are unknown, or
    if no row differs and the metric is not a share of rows.
    """
    if runs["difference"].isna().any():
        return None
    numbers, differences = row_scores.set_index("run"), runs["difference"].tolist()
    pairs = runs["run"], runs["run_of_full"]
    if not all(run.isin(numbers.index).all() for run in pairs):
        return intervals.study(differences, None, 0) if len(runs) > 1 else None
    own, full_scores = (numbers.loc[run, NUMBERS].to_numpy(float) for run in pairs)
    values, rows = own - full_scores, numbers.loc[runs["run"], "rows"].tolist()
    if _folds_judge(runs):
        folds = runs["fold"].nunique()
        study = intervals.nested_study(differences, values, sum(rows) * folds // len(rows), folds)
    else:
        known = ~np.isnan(values).any(axis=0)
        study = intervals.study(differences, values[:, known], rows[0])
    return study if study.error()[0] or runs["metric"].iloc[0] in SHARES else None


def _folds_judge(runs: pd.DataFrame) -> bool:
    """Return whether each run is scored on its fold, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def title_with_mask(method: str, fraction: float, scope: Any) -> str:
    """Return a method's title, with its mask if it has a scope."""
    return with_mask(title_of(method), fraction, None if pd.isna(scope) else scope)


def remarks(row: Mapping[str, Any]) -> str | None:
    """Return why other rates or epochs might score higher: *at the edge*, *still rising* or
    *fell*."""
    edge = ["at the edge"] if row["at_edge"] else []
    return ", ".join([*edge, *{row["curve"]} & {STILL_RISING, FELL}]) or None


class Candidate(NamedTuple):
    """A method smaller than full, and its difference from full's score.

    With 95 % chance the loss against full is at most ``most_lost``; ``chance`` is the chance of a
    loss within the margin. ``seeds`` is the number of seeds of the task with the fewest;
    ``full_with_one_answer`` is the number of runs of full that predict the same for every row.
    ``studies`` has one study per task; if one is unknown, it is empty and there is no interval.
    ``judged_by`` names the rows that give the scores (dev rows, test rows, or rows of folds), and
    ``over`` names the seeds and rows of the interval. ``at_edge`` and ``still_rising`` contain the
    titles of this method and of full, if the remark holds on some task. ``share_read`` is the share
    of the training texts' tokens that ``max_length`` keeps, on the task where this share is
    smallest.
    """

    title: str
    trained: int
    share: float
    score: float
    full: float
    difference: Interval
    most_lost: float
    chance: float
    seeds: tuple[int, ...]
    full_with_one_answer: int
    studies: tuple[Study, ...]
    judged_by: str
    over: str
    at_edge: tuple[str, ...]
    still_rising: tuple[str, ...]
    share_read: float = np.nan


def candidates(judged: pd.DataFrame, row_scores: pd.DataFrame) -> list[Candidate]:
    """Return the methods that train less than full, from the smallest.

    Methods without a score on every task are left out. Scores are means over tasks.

    Args:
        judged: the rows of one model from `with_differences`.
    """
    reference = _runs_of_full(judged)
    tasks = judged.groupby(["task", "metric"]).ngroups
    judged_by = "dev rows" if judged["decides"].all() else "test rows"
    if _folds_judge(judged):
        judged_by = "rows"
    full = reference["trained"].median()
    smaller = []
    for method, runs in judged.groupby(METHOD, sort=False, dropna=False):
        trained = int(runs["trained"].median())
        runs_by_task = [task_runs for _, task_runs in runs.groupby(["task", "metric"], sort=False)]
        if trained >= full or runs["difference"].isna().any() or len(runs_by_task) != tasks:
            continue
        difference, studies = _difference(runs_by_task, row_scores)
        both = [(title_with_mask(*method), runs), (title_of(REFERENCE), reference)]
        smaller.append(
            Candidate(
                title=title_with_mask(*method),
                trained=trained,
                share=trained / full,
                score=runs.groupby("task")["value"].mean().mean(),
                full=reference.groupby("task")["value"].mean().mean(),
                difference=difference,
                most_lost=intervals.most_lost(studies),
                chance=intervals.chance(studies, judged["margin"].min()),
                seeds=tuple(sorted(min(runs_by_task, key=len)["seed"])),
                full_with_one_answer=int(reference["one_answer"].sum()),
                studies=studies,
                judged_by=judged_by,
                over=_over(studies, judged_by),
                at_edge=tuple(title for title, rows in both if rows["at_edge"].any()),
                still_rising=tuple(t for t, rows in both if STILL_RISING in set(rows["curve"])),
                # Scores of earlier versions lack this column.
                share_read=float(reference.get("share_read", pd.Series(np.nan)).min()),
            )
        )
    return sorted(smaller, key=lambda candidate: (candidate.trained, -candidate.score))


def _difference(
    runs_by_task: Sequence[pd.DataFrame], row_scores: pd.DataFrame
) -> tuple[Interval, tuple[Study, ...]]:
    """Return a method's difference to full over tasks, and one study per task."""
    studies = tuple(s for runs in runs_by_task if (s := study_of(runs, row_scores)))
    if len(studies) < len(runs_by_task):
        mean = float(np.mean([runs["difference"].mean(skipna=False) for runs in runs_by_task]))
        return Interval(mean, np.nan, np.nan), ()
    return intervals.interval(studies), studies


def _over(studies: Sequence[Study], judged_by: str) -> str:
    """Return the seeds and rows of an interval in words."""
    if not studies:
        return ""
    seeds = min(study.seeds for study in studies)
    over = "one seed" if seeds == 1 else f"{seeds} {'folds' if judged_by == 'rows' else 'seeds'}"
    if all(study.parts for study in studies):
        over += f" and {sum(study.rows for study in studies):,} {judged_by}"
    return over


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        margin: the largest acceptable loss of score against full fine-tuning.
        decision: *train* the smallest method that is within the margin with a chance of at least
            `SURE` over several seeds; else *probably* the smallest with a chance of at least a
            half; else *everything*, which is full fine-tuning.
        candidate: the method of the decision; if everything trains, the method nearest to full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate.
        more_seeds: how many further seeds would make a probable method sure, if it is known.
        more_rows: how many further rows would do so, with the same seeds.
    """

    model: str
    task: str
    metric: str
    margin: float
    decision: Decision | None = None
    candidate: Candidate | None = None
    better: Candidate | None = None
    missing: Missing | None = None
    more_seeds: int | None = None
    more_rows: int | None = None


def answers(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> list[Answer]:
    """Return an answer per model and task, and one for all tasks of a model that has several.

    If experiments have different margins, the smallest counts.
    """
    found = []
    for model, runs_of_model in with_differences(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            found.append(_answer((str(model), str(task), str(metric)), runs, row_scores))
        if len(questions) > 1:
            together = _answer((str(model), ALL_TASKS, "mean"), runs_of_model, row_scores)
            found += [] if together.missing else [together]
    return found


def _answer(question: tuple[str, str, str], runs: pd.DataFrame, row_scores: pd.DataFrame) -> Answer:
    """Return the answer from the runs of one model on one or all tasks."""
    margin, full = float(runs["margin"].min()), runs.loc[runs["method"] == REFERENCE, "value"]
    smaller = candidates(runs, row_scores)
    missing: Missing | None = None if smaller else "smaller method"
    if full.empty or full.isna().any():
        missing = "full" if full.empty else "score of full"
    if missing:
        return Answer(*question, margin, missing=missing)
    sure = next((c for c in smaller if is_sure(c.chance, len(c.seeds))), None)
    # The distribution is symmetric, and the mean is known even without an interval.
    likely = next((c for c in smaller if c.difference.mean >= -margin), None)
    nearest = max(smaller, key=lambda candidate: candidate.difference.mean)
    better = [c for c in smaller if c.difference.low > 0]
    studies = likely.studies if likely and not sure and len(likely.seeds) > 1 else ()
    return Answer(
        *question,
        margin,
        "train" if sure else "probably" if likely else "everything",
        sure or likely or nearest,
        max(better, key=lambda candidate: candidate.difference.mean, default=None),
        more_seeds=intervals.more_seeds(studies, margin),
        more_rows=intervals.more_rows(studies[0], margin) if len(studies) == 1 else None,
    )
