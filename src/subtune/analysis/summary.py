"""Scores and costs of methods, compared with the best that was tried, and the method to train.

The best that was tried is the reference: full fine-tuning, unless another method surely beats it.
Parameters are counted without the classifier, which every method trains. A difference is a method's
score minus the reference's score with the same seed and fold; runs without a partner are left out.
Its interval is over seeds and rows, both paired. With a single seed it is over rows alone; without
predictions, over seeds alone. The chance that a method is within the margin of the reference uses
the same distribution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.predictions import NO_ROWS, NUMBERS
from subtune.analysis.scores import best_of, on_most_rows, trained_beside_classifier
from subtune.runs.tables import FELL, STILL_RISING
from subtune.selections.methods import title_of, with_mask

FULL = title_of("full")
ALL_TASKS = "all tasks"
# The lowest chance at which the answer names a method without "probably".
SURE = 0.95
Decision = Literal["train", "probably", "everything"]
Missing = Literal["full", "score of full", "smaller method"]
# By method: how many seeds or folds are done, and how many are planned.
Unfinished = Mapping[str, Sequence[int]]
# Metrics that are shares of rows.
SHARES = {"accuracy", "exact_match"}
# The columns that the methods of one comparison share.
QUESTION = ["model", "task", "metric"]
# The columns in which these methods differ.
METHOD = ["method", "fraction", "scope"]
# Digits of a difference of scores; later digits are rounding errors.
DIGITS = 10
NO_DIFFERENCE = Interval(np.nan, np.nan, np.nan)


def summary(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> pd.DataFrame:
    """Return a row per model, task and method, with scores in each task's judging column.

    Returns:
        ``model``, ``task``, ``metric``, ``method``, ``fraction``, ``scope``; ``score`` and
        ``spread`` (mean and standard deviation over seeds), ``seeds``; ``reference``, the title of
        the task's reference; ``difference`` to it with ``low`` and ``high`` of its 95 % interval;
        ``most_lost`` (the loss against the reference is at most this with 95 % chance) and
        ``chance`` (that it is at most the ``margin``); ``sure``: whether this chance is at least
        `SURE` over several seeds, or the method is a reference that beats full; ``trained``
        (parameters), ``share`` of full's parameters; ``delta_bytes``, ``seconds`` of training and
        ``epoch`` of the best score (medians over seeds); ``one_answer``, the number of seeds whose
        run predicts the same for every row; ``at_edge`` (whether the best learning rate is the
        smallest or largest tried); ``curve`` (converged, still rising, or fell); ``on_front``: no
        other method scores as high with fewer parameters, or higher with as many. Methods are
        sorted by score, the highest first. A method that diverged has no score.
    """
    rows = []
    for question, runs_of_question in judged_runs(chosen).groupby(QUESTION, sort=False):
        reference, compared, _ = with_reference(runs_of_question, row_scores.set_index("run"))
        others = {c.title: c for c in compared if c.title != reference}
        full = runs_of_question[runs_of_question["title"] == FULL]
        for method, runs in runs_of_question.groupby(METHOD, sort=False, dropna=False):
            title, trained = title_with_mask(*method), runs["trained"].median()
            found = others.get(title)
            difference = found.difference if found else NO_DIFFERENCE
            rows.append(
                dict(zip([*QUESTION, *METHOD], [*question, *method], strict=True))
                | {"score": runs["value"].mean(skipna=False), "spread": runs["value"].std()}
                | {"seeds": len(runs), "reference": reference, "difference": difference.mean}
                | {"low": difference.low, "high": difference.high}
                | {name: getattr(found, name, np.nan) for name in ("most_lost", "chance")}
                | {"margin": runs_of_question["margin"].min()}
                # Full is among the others if the reference beats it.
                | {"sure": found.is_sure if found else title == reference and FULL in others}
                | {"trained": int(trained), "share": trained / full["trained"].median()}
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


def judged_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the judging columns, with ``trained`` and the method's ``title``.

    If a task has a test file, the test rows give the scores.
    """
    judged = chosen[chosen["judges"]]
    titles = [title_with_mask(*method) for method in judged[METHOD].itertuples(index=False)]
    return judged.assign(trained=trained_beside_classifier(judged), title=titles)


def _is_sure(studies: Sequence[Study], margin: float) -> bool:
    """Return whether a loss is at most the margin with a chance of at least `SURE`.

    The chance of a single seed does not include differences between seeds, so one seed is never
    sure.
    """
    is_likely = intervals.chance(studies, margin) >= SURE
    return is_likely and min(study.seeds for study in studies) > 1


def paired(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the runs whose seed and fold the reference has too, with their ``difference``.

    The reference's ``value_of_reference`` and ``run_of_reference`` are beside them. A difference is
    NaN if a run diverged.
    """
    same = [*QUESTION, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "value", "run"]]
    pairs = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    difference = (pairs["value"] - pairs["value_of_reference"]).round(DIGITS)
    return pairs.assign(difference=difference)


def study_of(pairs: pd.DataFrame, numbers: pd.DataFrame) -> Study | None:
    """Return one method's differences on one task, or None if there is no interval.

    There is none if the predictions of a single seed are unknown, or if no row differs and the
    metric is not a share of rows.

    Args:
        pairs: from `paired`.
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


def folds_judge(runs: pd.DataFrame) -> bool:
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
    """A method, and the difference of its score from that of a ``reference``.

    ``score`` and ``reference_score`` are means over the seeds and folds that both have. With 95 %
    chance the loss against the reference is at most ``most_lost``; ``chance`` is the chance of a
    loss within the margin; ``is_sure`` is whether it is at least `SURE` over several seeds.
    ``share`` is the share of full's parameters. ``seeds`` is the number of seeds of the task with
    the fewest. ``studies`` has one study per task; if one is unknown, it is empty and there is no
    interval. ``judged_by`` names the rows that give the scores (dev rows, test rows, or rows of
    folds), and ``over`` names the seeds and rows of the interval. ``at_edge`` and ``still_rising``
    contain the titles of this method, of the reference and of full, if the remark holds on some
    task. ``share_read`` is the share of the training texts' tokens that ``max_length`` keeps, on
    the task where this share is smallest.
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
    share_read: float = np.nan


def candidates(runs: pd.DataFrame, reference: str, numbers: pd.DataFrame) -> list[Candidate]:
    """Return the methods as compared with a reference, itself included, from the smallest.

    Methods without a difference on every task are left out. Scores are means over tasks.

    Args:
        runs: the rows of one model from `judged_runs`, on one or on all tasks.
        numbers: the row scores, indexed by run.
    """
    margin, tasks = runs["margin"].min(), runs.groupby(["task", "metric"]).ngroups
    judged_by = "dev rows" if runs["decides"].all() else "test rows"
    if folds_judge(runs):
        judged_by = "rows"
    full = runs.loc[runs["title"] == FULL, "trained"].median()
    edge = set(runs.loc[runs["at_edge"].astype(bool), "title"])
    rising = set(runs.loc[runs["curve"] == STILL_RISING, "title"])
    found = []
    for title, pairs in paired(runs, reference).groupby("title", sort=False):
        groups = pairs.groupby(["task", "metric"], sort=False)
        pairs_by_task = [task_pairs for _, task_pairs in groups]
        if len(pairs_by_task) < tasks or pairs["difference"].isna().any():
            continue
        studies = tuple(s for p in pairs_by_task if (s := study_of(p, numbers)))
        if len(studies) < tasks or title == reference:
            studies = ()
        means = [task_pairs["difference"].mean() for task_pairs in pairs_by_task]
        of_tasks = pairs.groupby("task")[["value", "value_of_reference"]].mean().mean()
        trained, named = int(pairs["trained"].median()), dict.fromkeys([title, reference, FULL])
        found.append(
            Candidate(
                title=title,
                trained=trained,
                share=trained / full,
                score=of_tasks["value"],
                reference=reference,
                reference_score=of_tasks["value_of_reference"],
                difference=intervals.interval(studies)
                if studies
                else NO_DIFFERENCE._replace(mean=float(np.mean(means))),
                most_lost=intervals.most_lost(studies),
                chance=intervals.chance(studies, margin),
                is_sure=_is_sure(studies, margin),
                seeds=tuple(sorted(min(pairs_by_task, key=len)["seed"])),
                studies=studies,
                judged_by=judged_by,
                over=_over(studies, judged_by),
                at_edge=tuple(name for name in named if name in edge),
                still_rising=tuple(name for name in named if name in rising),
                # Scores of earlier versions lack this column.
                share_read=float(pairs.get("share_read", pd.Series(np.nan)).min()),
            )
        )
    return sorted(found, key=lambda candidate: (candidate.trained, -candidate.score))


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
    most runs; if several have as many, the one with the highest mean. It is empty if no method
    has a score.
    """
    if any(candidate.title == FULL for candidate in with_full):
        better = [c for c in with_full if _is_sure(c.studies, -runs["margin"].min())]
        best = max(better, key=lambda candidate: candidate.difference.mean, default=None)
        return best.title if best else FULL
    tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
    scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
    return "" if scored.empty else str(scored.index[-1])


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


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        margin: the largest acceptable loss of score against the reference.
        reference: the title of the method from `reference_of`, or empty.
        decision: *train* the smallest method that is within the margin with a chance of at least
            `SURE` over several seeds; else *probably* the smallest with a chance of at least a
            half; else *everything*, which is full fine-tuning. If the reference beats full and no
            smaller method has a chance of a half, *train* the reference. If full has no score, the
            answer is at most *probably*.
        candidate: the method of the decision; if everything trains, the method nearest to full. Its
            numbers are against the reference, or if it is the reference, against full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate, or why full is not the reference.
        full_with_one_answer: the number of runs of full that predict the same for every row.
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
    found = []
    for model, runs_of_model in judged_runs(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            question = str(model), str(task), str(metric)
            found.append(_answer(question, runs, row_scores, unfinished))
        if len(questions) > 1:
            question = str(model), ALL_TASKS, "mean"
            together = _answer(question, runs_of_model, row_scores, unfinished)
            found += [together] if together.candidate else []
    return found


def _answer(
    question: tuple[str, str, str],
    runs: pd.DataFrame,
    row_scores: pd.DataFrame,
    unfinished: Unfinished,
) -> Answer:
    """Return the answer from the runs of one model on one or all tasks."""
    margin, full = float(runs["margin"].min()), runs[runs["title"] == FULL]
    reference, compared, with_full = with_reference(runs, row_scores.set_index("run"))
    itself, against_full = (
        next((c for c in found if c.title == reference), None) for found in (compared, with_full)
    )
    missing: Missing | None = None
    if not against_full:
        missing = "full" if full.empty else "score of full"
    smaller = [c for c in compared if itself and c.trained < itself.trained]
    # The distribution is symmetric, and the mean is known even without an interval.
    likely = next((c for c in smaller if c.difference.mean >= -margin), None)
    sure = next((c for c in smaller if c.is_sure and not missing), None)
    answer = Answer(
        *question,
        margin,
        reference,
        missing=missing,
        full_with_one_answer=int(full["one_answer"].sum()),
        unit="fold" if folds_judge(runs) else "seed",
        unfinished=unfinished,
    )
    decision: Decision
    named: Candidate | None
    if sure:
        decision, named = "train", sure
    elif likely or missing:
        decision, named = "probably", likely or itself
    elif reference != FULL:
        decision, named = "train", against_full
    else:
        nearest = max(smaller, key=lambda c: c.difference.mean, default=None)
        decision, named = "everything", nearest
    if not named:
        return replace(answer, missing=missing or "smaller method")
    better = [c for c in with_full if c.difference.low > 0 and c.trained < full["trained"].median()]
    is_open = decision == "probably" and not missing and not unfinished and len(named.seeds) > 1
    studies = named.studies if is_open else ()
    return replace(
        answer,
        decision=decision,
        candidate=named,
        better=max(better, key=lambda candidate: candidate.difference.mean, default=None),
        more_seeds=intervals.more_seeds(studies, margin),
        more_rows=intervals.more_rows(studies[0], margin) if len(studies) == 1 else None,
    )
