"""Methods as candidates: how each compares with a reference, and their summary.

The reference is the best method that was tried: full fine-tuning of the model on which it scores
best, unless another method surely beats it. A method is smaller than another if its encoder is
smaller, or if the encoders are as large and it trains fewer parameters. Parameters are counted
without the classifier, which every method trains. A difference is a method's score minus the
reference's score with the same seed and fold; runs without a partner are left out. So that methods
with runs on different folds can be compared, a method's score is the reference's score plus this
difference. Its interval is over seeds and rows, both paired. With a single seed it is over rows
alone; without predictions, over seeds alone. The probability that a method is within the margin of
the reference uses the same distribution.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import (
    FELL,
    METHOD,
    STILL_RISING,
    title_with_mask,
    trained_beside_classifier,
)
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.run_scores import PART_COLUMNS, no_rows
from subtune.analysis.tables import order_columns, set_types

# The lowest chance at which a method is sure to be within the margin.
SURE = 0.95
# Metrics that are shares of rows.
SHARES = {"accuracy", "exact_match"}
# The columns that are averaged over for all tasks.
TASK = ["task", "metric"]
# The columns that the methods of one answer share. `judged_runs` makes ``models``.
QUESTION = ["models", *TASK]
# The columns by which methods are ordered: the smallest first; of one size, the best first.
FROM_SMALLEST = ["encoder_size", "trained", "score"]
# Digits of a difference of scores; later digits are rounding errors.
DIGITS = 10
NO_DIFFERENCE = Interval(np.nan, np.nan, np.nan)


class Candidate(NamedTuple):
    """A method, and the difference of its score from that of a reference.

    Attributes:
        title: the method's title, with its model if models are compared.
        model: the model's name.
        encoder_size: the model's number of parameters; 0 without a model; NaN for predictions that
            the user brings, which are not a method that can be trained.
        trained: the number of trained parameters.
        share: this number as a share of full's.
        score: ``reference_score`` plus the mean difference.
        reference: the reference's title.
        reference_score: the reference's mean score over all of its seeds and folds.
        difference: the mean difference, with its interval.
        most_lost: with 95 % chance the loss against the reference is at most this.
        chance: the chance of a loss within the margin.
        is_sure: whether this chance is at least `SURE` over several seeds.
        seeds: the seeds of the task with the fewest.
        studies: one study per task; if one of them is unknown, none, and there is no interval.
        judged_by: the rows that give the scores: dev rows, test rows, or rows of folds.
        over: the seeds and rows of the interval, in words.
    """

    title: str
    model: str
    encoder_size: float
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

    @property
    def size(self) -> tuple[float, int]:
        """The size by which methods are ordered. Nothing is smaller or larger than NaN."""
        return self.encoder_size, self.trained


class Compared(NamedTuple):
    """Methods as compared with a reference.

    Attributes:
        reference: the reference's title; empty if no method has a score.
        full: the title of full fine-tuning of the model on which it scores best; empty if full
            lacks a score.
        methods: each method against the reference, from the smallest, by title.
        with_full: each method against full.
    """

    reference: str
    full: str
    methods: dict[str, Candidate]
    with_full: dict[str, Candidate]


def judged_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the judging columns, with what comparisons need.

    If a task has a test file, the test rows give the scores.

    Returns:
        The columns of ``chosen``, and: ``models``, the names of the models that are in one answer;
        ``trained``; ``title``, the method's title, with its model if there are several;
        ``is_full``.
    """
    # Tables of earlier versions lack these columns; each of their methods has a model.
    later = {"encoder_size": 1, "planned": 0, "across_models": False, "share_read": np.nan}
    judged = chosen.assign(**{name: chosen.get(name, value) for name, value in later.items()})
    judged = judged[judged["judges"]]
    trainable = judged[judged["encoder_size"].notna()]
    names = trainable.groupby("task")["model"].agg(lambda models: ", ".join(models.unique()))
    across = judged["across_models"].astype(bool)
    models = judged["task"].map(names).where(across, judged["model"])
    titles = [title_with_mask(row) for row in judged[METHOD].to_dict("records")]
    title = pd.Series(titles, judged.index, dtype=object)
    has_model = (judged["encoder_size"].fillna(0) > 0) & (models != judged["model"])
    judged = judged.assign(
        models=models,
        # A method without a model has a classifier alone.
        trained=trained_beside_classifier(judged).mask(judged["encoder_size"] == 0, 0),
        title=title.where(~has_model, title + " of " + judged["model"]),
        is_full=(judged["method"] == "full") & judged["scope"].isna(),
    )
    # A method without a model has the same run beside each model.
    return judged.drop_duplicates([*QUESTION, "title", "seed", "fold", "train_rows"])


def folds_judge(runs: pd.DataFrame) -> bool:
    """Return whether each run is scored on its fold, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def compare_with_reference(runs: pd.DataFrame, pseudo_values: pd.DataFrame) -> Compared:
    """Return the methods as compared with the reference, and with full fine-tuning.

    The reference is the method against which the others may lose the margin. It is full
    fine-tuning, of the model on which it scores best, unless other methods are sure to beat it by
    more than the margin: then it is the one of them that beats it most. If full lacks a score, it
    is the best method that was tried. Predictions that the user brings are never the reference.

    Args:
        runs: the rows of one answer from `judged_runs`, on one or on all tasks.
        pseudo_values: the row scores, indexed by run.
    """
    full = _find_best(runs[runs["is_full"]])
    with_full = compare_methods(runs, full, pseudo_values)
    if full in with_full:
        margin = runs["margin"].min()
        better = [c for c in with_full.values() if _is_sure(c.studies, -margin)]
        better = [candidate for candidate in better if candidate.encoder_size >= 0]
        best = max(better, key=lambda candidate: candidate.difference.mean, default=None)
        reference = best.title if best else full
    else:
        full, reference = "", _find_best(runs[runs["encoder_size"].notna()])
    if reference == full:
        return Compared(reference, full, with_full, with_full)
    methods = compare_methods(runs, reference, pseudo_values)
    return Compared(reference, full, methods, with_full)


def _find_best(runs: pd.DataFrame) -> str:
    """Return the title of the method with the most runs; of several, with the highest mean.

    Methods of which a run diverged are left out. If none is left, the title is empty.
    """
    tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
    scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
    return "" if scored.empty else str(scored.index[-1])


def compare_methods(
    runs: pd.DataFrame, reference: str, pseudo_values: pd.DataFrame
) -> dict[str, Candidate]:
    """Return the methods as compared with a reference, itself included, from the smallest.

    Runs are paired by seed and fold. Methods without a difference on every task, such as those of
    which a run diverged, are left out. Scores are means over tasks.

    Args:
        runs: the rows of one answer from `judged_runs`, on one or on all tasks.
        reference: the reference's title.
        pseudo_values: the row scores, indexed by run.
    """
    same = [*TASK, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "title", "value", "run"]]
    every = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    every["difference"] = (every["value"] - every["value_of_reference"]).round(DIGITS)
    tasks = runs.groupby(TASK).ngroups
    found = [
        _candidate(pairs, runs, pseudo_values)
        for _, pairs in every.groupby("title", sort=False)
        if pairs.groupby(TASK).ngroups == tasks and pairs["difference"].notna().all()
    ]
    # Brought predictions, whose encoder's size is NaN, are last.
    found = sorted(found, key=lambda c: (math.isnan(c.encoder_size), *c.size, -c.score))
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
    margin, model = runs["margin"].min(), pairs["model"].iloc[0]
    trained = int(pairs["trained"].median())
    full = runs.loc[runs["is_full"] & (runs["model"] == model), "trained"]
    mean = float(np.mean([task_pairs["difference"].mean() for task_pairs in by_task]))
    all_of_reference = runs[runs["title"] == reference].groupby(TASK)["value"].mean()
    reference_score = round(float(all_of_reference.mean()), DIGITS)
    found: list[Study | None] = []
    if title != reference:
        found = [_study(task_pairs, pseudo_values) for task_pairs in by_task]
    studies = tuple(study for study in found if study)
    if len(studies) < len(found):
        studies = ()
    of_folds = folds_judge(runs)
    judged_by = "rows" if of_folds else "dev rows" if runs["decides"].all() else "test rows"
    return Candidate(
        title=title,
        model=model,
        encoder_size=pairs["encoder_size"].astype(float).median(),
        trained=trained,
        share=trained / full.median(),
        score=round(reference_score + mean, DIGITS),
        reference=reference,
        reference_score=reference_score,
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


def summary(chosen: pd.DataFrame, row_scores: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a row per model, task and method, with scores in each task's judging column.

    `columns.csv` explains the columns. Methods are sorted by score, the highest first. A method
    that diverged has no score.
    """
    row_scores = no_rows() if row_scores is None else row_scores
    pseudo_values, rows = row_scores.set_index("run"), []
    for question, runs in judged_runs(chosen).groupby(QUESTION, sort=False):
        reference, full, compared, _ = compare_with_reference(runs, pseudo_values)
        keys = ["title", "model", *METHOD]
        for (title, *method), same in runs.groupby(keys, sort=False, dropna=False):
            candidate = compared.get(str(title))
            difference = candidate.difference if candidate else NO_DIFFERENCE
            if title == reference:
                difference = NO_DIFFERENCE
            # A reference other than full beats full, if full is compared with it.
            beats_full = title == reference != full and full in compared
            trained = int(same["trained"].median())
            of_full = runs.loc[runs["is_full"] & (runs["model"] == method[0]), "trained"].median()
            mean = round(same["value"].mean(skipna=False), DIGITS)
            rows.append(
                {
                    **dict(zip([*QUESTION, *keys[1:]], [*question, *method], strict=True)),
                    "reference": reference,
                    "margin": runs["margin"].min(),
                    "score": candidate.score if candidate else mean,
                    "spread": same["value"].std(),
                    "seeds": len(same),
                    "planned": max(len(same), int(same["planned"].max())),
                    "unit": "fold" if folds_judge(runs) else "seed",
                    "difference": difference.mean,
                    "low": difference.low,
                    "high": difference.high,
                    "most_lost": candidate.most_lost if candidate else np.nan,
                    "chance": candidate.chance if candidate else np.nan,
                    "sure": beats_full or bool(candidate and candidate.is_sure),
                    "encoder_size": same["encoder_size"].iloc[0],
                    "trained": trained,
                    "share": trained / of_full,
                    "delta_bytes": same["delta_bytes"].median(),
                    "seconds": same["seconds"].median(),
                    "one_answer": int(same["one_answer"].sum()),
                    "share_read": same["share_read"].min(),
                    "epoch": same["best_epoch"].astype(float).median(),
                    "at_edge": bool(same["at_edge"].any()),
                    "curve": same["curve"].iloc[0],
                }
            )
    table = pd.DataFrame(rows)
    table = order_columns(table.assign(on_front=on_front(table)), "summary")
    return sort_methods(set_types(table, "summary"), ["score", *FROM_SMALLEST[:2]])


def sort_methods(methods: pd.DataFrame, columns: list[str] = FROM_SMALLEST) -> pd.DataFrame:
    """Return the methods of each question, ordered by columns: sizes ascend and scores descend."""
    ascending = [column != "score" for column in columns]
    questions = [rows for _, rows in methods.groupby(QUESTION, sort=False)]
    ordered = [rows.sort_values(columns, ascending=ascending) for rows in questions]
    return pd.concat(ordered, ignore_index=True)


def on_front(table: pd.DataFrame) -> pd.Series:
    """Return the rows that no other method for the same task beats in score and size."""
    trainable = table[table["encoder_size"].notna()]
    scores = trainable.assign(score=trainable["score"].fillna(-np.inf))
    by_size = scores.sort_values(FROM_SMALLEST, ascending=[True, True, False])
    fronts = by_size.groupby(QUESTION)["score"].transform(
        lambda score: score > score.cummax().shift(fill_value=-np.inf)
    )
    return fronts.reindex(table.index, fill_value=False).astype(bool)


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
