"""Compares each method with a reference, and summarises all methods in a table.

* The *reference* is the fully fine-tuned model with the highest score. If another method surely
  scores higher by at least the margin, that method is the reference instead.
* A method is *smaller* than another if its encoder is smaller. If both encoders have the same size,
  the method with fewer trained parameters is smaller. The classifier is trained by every method and
  not counted.
* A *difference* is the score of a run minus the score of the reference with the same seed and fold.
  A run is left out if the reference has no run with the same seed and fold.
* A method's *score* is the reference's score plus the mean difference. So methods can be compared
  even if they were run on different folds.
* The *interval* of the difference accounts for the variance between seeds and between examples.
  Scores are paired by seed and example. With a single seed, the interval accounts for examples
  only; without recorded predictions, for seeds only. The probability that a method is within the
  margin of the reference is computed from the same distribution as the interval.
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
    count_encoder_parameters,
    title_with_mask,
)
from subtune.analysis.intervals import Interval, Study
from subtune.analysis.run_scores import PART_COLUMNS, empty_row_scores, require_same_rows
from subtune.analysis.tables import order_columns, set_types
from subtune.core.errors import locate_errors

# A method is *surely* within the margin if it is within the margin with at least this probability.
SURE = 0.95
# Metrics that are shares of examples.
SHARES = {"accuracy", "exact_match"}
# An answer for all tasks averages differences over the combinations of values in these columns.
TASK = ["task", "metric"]
# These columns are constant within one answer. `scored_runs` adds ``models``.
QUESTION = ["models", *TASK]
# Methods are sorted by these columns: the smallest first, and among equal sizes the best first.
FROM_SMALLEST = ["encoder_size", "trained", "score"]
# Differences of scores are rounded to this many digits; further digits are rounding errors.
DIGITS = 10
NO_DIFFERENCE = Interval(np.nan, np.nan, np.nan)


class Candidate(NamedTuple):
    """A method, and the difference between its score and that of the reference.

    Attributes:
        title: the method's title, which includes the model's name if several models are compared.
        encoder_size: the encoder's number of parameters; 0 for a method without a model; NaN for
            external predictions, which cannot be trained.
        trained: the number of trained parameters, without the classifier.
        share: ``trained`` as a share of the parameters that full fine-tuning trains.
        score: ``reference_score`` plus the mean difference.
        reference_score: the reference's mean score over all of its seeds and folds.
        difference: the mean difference, with its interval.
        most_lost: the 95 % upper confidence bound of the loss of score against the reference.
        chance: the probability that the loss of score is at most the margin.
        is_sure: whether ``chance`` is at least `SURE` and there is more than one seed.
        seeds: the seeds for which both the method and the reference have a run; with several tasks,
            the seeds of the task with the fewest.
        studies: one `Study` per task. If a task has no study, ``studies`` is empty and the
            difference has no interval.
        judged_by: what the scored examples are called: ``dev examples``, ``test examples`` or, in
            cross-validation, ``examples``.
        over: the number of seeds and examples from which the interval is computed, as text.
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
    def sort_key(self) -> tuple[float, int]:
        """The key by which methods are sorted. It contains NaN for external predictions."""
        return self.encoder_size, self.trained


class Compared(NamedTuple):
    """All methods of one answer, compared with the reference and with full fine-tuning.

    Attributes:
        reference: the reference's title; empty if no method has a score.
        full: the title of the fully fine-tuned model with the highest score; empty if full
            fine-tuning has no score.
        methods: maps the title of each method to its comparison with the reference, the smallest
            method first.
        with_full: maps the title of each method to its comparison with full fine-tuning.
    """

    reference: str
    full: str
    methods: dict[str, Candidate]
    with_full: dict[str, Candidate]


def scored_runs(chosen: pd.DataFrame) -> pd.DataFrame:
    """Select the scores by which methods are compared, and add columns that comparisons need.

    If a task has a test file, these are scores on the test set.

    Returns:
        The columns of ``chosen``, and

        * ``models``: the names of the models that are compared in one answer
        * ``trained``: the number of trained parameters, without the classifier
        * ``title``: the method's title, which includes the model's name if there are several models
        * ``is_full``: whether the method is full fine-tuning
    """
    # Tables of earlier versions lack these columns. All methods in these tables have a model, so
    # `encoder_size` is not 0.
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
        # A method without a model trains only a classifier.
        trained=count_encoder_parameters(judged).mask(judged["encoder_size"] == 0, 0),
        title=title.where(~has_model, title + " of " + judged["model"]),
        is_full=(judged["method"] == "full") & judged["scope"].isna(),
    )
    # Runs of methods without a model are repeated for each model.
    return judged.drop_duplicates([*QUESTION, "title", "seed", "fold", "train_rows"])


def are_scored_on_folds(runs: pd.DataFrame) -> bool:
    """Return whether all runs are scored on their folds, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def compare_with_reference(runs: pd.DataFrame, pseudo_values: pd.DataFrame) -> Compared:
    """Choose the reference, and compare all methods with the reference and with full fine-tuning.

    The reference is the fully fine-tuned model with the highest score. There are two exceptions. If
    some methods surely score higher than full fine-tuning by at least the margin, the reference is
    the one with the largest difference. If full fine-tuning has no score, the reference is the
    method with the highest score. External predictions are never the reference.

    Args:
        runs: the rows of `scored_runs` with the same values in the columns `QUESTION`.
    """
    full = _find_best(runs[runs["is_full"]])
    with_full = compare_methods(runs, full, pseudo_values)
    if full in with_full:
        margin = runs["margin"].min()
        better = [c for c in with_full.values() if _is_surely_within_margin(c.studies, -margin)]
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
    """Of the methods with the most runs, find the title of the one with the highest mean score.

    Methods with a diverged run are left out. The returned title is empty if no method is left.
    """
    tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
    scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
    return "" if scored.empty else str(scored.index[-1])


def compare_methods(
    runs: pd.DataFrame, reference: str, pseudo_values: pd.DataFrame
) -> dict[str, Candidate]:
    """Compare each method with a reference, in pairs of runs with the same seed and fold.

    Scores are means over tasks. A method is left out if its difference is missing on a task, for
    instance because a run diverged.

    Args:
        runs: the rows of `scored_runs` with the same values in the columns `QUESTION`.

    Returns:
        A mapping from each method's title to its comparison, the smallest method first. The
        reference is included.
    """
    same = [*TASK, "seed", "fold"]
    partners = runs.loc[runs["title"] == reference, [*same, "title", "value", "run"]]
    every = runs.merge(partners, on=same, suffixes=(None, "_of_reference"), validate="m:1")
    every["difference"] = (every["value"] - every["value_of_reference"]).round(DIGITS)
    tasks = runs.groupby(TASK).ngroups
    found = [
        _compare_method(pairs, runs, pseudo_values)
        for _, pairs in every.groupby("title", sort=False)
        if pairs.groupby(TASK).ngroups == tasks and pairs["difference"].notna().all()
    ]
    # External predictions come last. The size of their encoder is NaN.
    found = sorted(found, key=lambda c: (math.isnan(c.encoder_size), *c.sort_key, -c.score))
    return {candidate.title: candidate for candidate in found}


def _compare_method(
    pairs: pd.DataFrame, runs: pd.DataFrame, pseudo_values: pd.DataFrame
) -> Candidate:
    """Compare one method with the reference.

    Args:
        pairs: the method's runs. The columns ``title_of_reference``, ``value_of_reference`` and
            ``run_of_reference`` describe the reference's run with the same seed and fold.
        runs: the runs of all methods.
    """
    by_task = [task_pairs for _, task_pairs in pairs.groupby(TASK, sort=False)]
    title, reference = pairs["title"].iloc[0], pairs["title_of_reference"].iloc[0]
    with locate_errors(f"{title} and {reference}"):
        require_same_rows(pseudo_values, pairs["run"], pairs["run_of_reference"])
    margin, model = runs["margin"].min(), pairs["model"].iloc[0]
    trained = int(pairs["trained"].median())
    full = runs.loc[runs["is_full"] & (runs["model"] == model), "trained"]
    mean = float(np.mean([task_pairs["difference"].mean() for task_pairs in by_task]))
    all_of_reference = runs[runs["title"] == reference].groupby(TASK)["value"].mean()
    reference_score = round(float(all_of_reference.mean()), DIGITS)
    found: list[Study | None] = []
    if title != reference:
        found = [_estimate_study(task_pairs, pseudo_values) for task_pairs in by_task]
    studies = tuple(study for study in found if study)
    if len(studies) < len(found):
        studies = ()
    of_folds = are_scored_on_folds(runs)
    of_dev = runs["decides"].all()
    judged_by = "examples" if of_folds else "dev examples" if of_dev else "test examples"
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
        most_lost=intervals.loss_bound(studies),
        chance=intervals.probability_within(studies, margin),
        is_sure=_is_surely_within_margin(studies, margin),
        seeds=tuple(sorted(min(by_task, key=len)["seed"])),
        studies=studies,
        judged_by=judged_by,
        over=_format_sample(studies, judged_by),
    )


def _estimate_study(pairs: pd.DataFrame, pseudo_values: pd.DataFrame) -> Study | None:
    """Estimate one method's mean difference on one task, and its variance components.

    The result is None if there is a single seed without recorded predictions, because the variance
    cannot be estimated. The result is also None if the variance is 0 and the metric is not a share
    of examples.

    Args:
        pairs: as in `_compare_method`.
    """
    both, differences = (pairs["run"], pairs["run_of_reference"]), pairs["difference"].tolist()
    if not all(run.isin(pseudo_values.index).all() for run in both):
        return intervals.estimate_study(differences, None, 0) if len(pairs) > 1 else None
    own, of_reference = (pseudo_values.loc[run, PART_COLUMNS].to_numpy(float) for run in both)
    values, rows = own - of_reference, pseudo_values.loc[pairs["run"], "rows"].tolist()
    if are_scored_on_folds(pairs):
        folds = pairs["fold"].nunique()
        study = intervals.estimate_nested_study(
            differences, values, sum(rows) * folds // len(rows), folds
        )
    else:
        known = ~np.isnan(values).any(axis=0)
        study = intervals.estimate_study(differences, values[:, known], rows[0])
    return study if study.error()[0] or pairs["metric"].iloc[0] in SHARES else None


def _is_surely_within_margin(studies: Sequence[Study], margin: float) -> bool:
    """Return whether the loss of score is at most the margin with a probability of at least `SURE`.

    The result is False for a single seed, because the probability does not account for differences
    between seeds.
    """
    is_likely = intervals.probability_within(studies, margin) >= SURE
    return is_likely and min(study.seeds for study in studies) > 1


def _format_sample(studies: Sequence[Study], judged_by: str) -> str:
    """Format the size of a sample as text, such as ``3 seeds and 872 dev examples``."""
    if not studies:
        return ""
    seeds = min(study.seeds for study in studies)
    unit = "fold" if judged_by == "examples" else "seed"
    over = f"one {unit}" if seeds == 1 else f"{seeds} {unit}s"
    if all(study.parts for study in studies):
        over += f" and {sum(study.rows for study in studies):,} {judged_by}"
    return over


def summarise_methods(chosen: pd.DataFrame, row_scores: pd.DataFrame | None = None) -> pd.DataFrame:
    """Summarise each method in one row per model and task.

    ``columns.csv`` explains the columns. The method with the highest score comes first. A diverged
    method has no score.
    """
    row_scores = empty_row_scores() if row_scores is None else row_scores
    pseudo_values, rows = row_scores.set_index("run"), []
    for question, runs in scored_runs(chosen).groupby(QUESTION, sort=False):
        reference, full, compared, _ = compare_with_reference(runs, pseudo_values)
        keys = ["title", "model", *METHOD]
        for (title, *method), same in runs.groupby(keys, sort=False, dropna=False):
            candidate = compared.get(str(title))
            difference = candidate.difference if candidate else NO_DIFFERENCE
            if title == reference:
                difference = NO_DIFFERENCE
            # If full fine-tuning has a score and is not the reference, the reference surely scores
            # higher.
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
                    "unit": "fold" if are_scored_on_folds(runs) else "seed",
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
    table = order_columns(table.assign(on_front=is_on_front(table)), "summary")
    return sort_methods(set_types(table, "summary"), ["score", *FROM_SMALLEST[:2]])


def sort_methods(methods: pd.DataFrame, columns: list[str] = FROM_SMALLEST) -> pd.DataFrame:
    """Sort the methods of each task by columns: sizes ascending, scores descending."""
    ascending = [column != "score" for column in columns]
    questions = [rows for _, rows in methods.groupby(QUESTION, sort=False)]
    ordered = [rows.sort_values(columns, ascending=ascending) for rows in questions]
    return pd.concat(ordered, ignore_index=True)


def is_on_front(table: pd.DataFrame) -> pd.Series:
    """Return, for each row, whether the method is on its task's Pareto front of score and size.

    A method is on the front if no smaller method scores as high and no method of the same size
    scores higher. Of methods with equal size and score, only the first is on the front. External
    predictions never are.
    """
    trainable = table[table["encoder_size"].notna()]
    scores = trainable.assign(score=trainable["score"].fillna(-np.inf))
    by_size = scores.sort_values(FROM_SMALLEST, ascending=[True, True, False])
    fronts = by_size.groupby(QUESTION)["score"].transform(
        lambda score: score > score.cummax().shift(fill_value=-np.inf)
    )
    return fronts.reindex(table.index, fill_value=False).astype(bool)


def describe_curves(row: Mapping[str, Any]) -> str | None:
    """List the reasons why other learning rates or epochs may score higher; None if there are none.

    *At the edge* means that the best learning rate is the smallest or largest that was tried. The
    other reasons are the verdicts *still rising* and *fell*.
    """
    reasons = []
    if row["at_edge"]:
        reasons.append("at the edge")
    if row["curve"] in (STILL_RISING, FELL):
        reasons.append(row["curve"])
    return ", ".join(reasons) if reasons else None
