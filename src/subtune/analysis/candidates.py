"""Compare each method with a reference, and summarise all methods in a table.

Methods are ordered by the size of the encoder and, for encoders of the same size, by the number of
trained parameters, without the classifier. Scores are paired by seed and fold. Unpaired runs are
left out, so that both means are over the same examples. Intervals and probabilities account for the
variance between seeds and between examples. With a single seed, they account for examples only, and
without recorded predictions, for seeds only. A method is *surely* within the margin only if this
also holds against its rival, because one of several methods often scores higher than the reference.
`benchmarks.answers` counts the wrong answers.
"""

import itertools
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
from subtune.analysis.run_scores import PART_COLUMNS, require_same_rows
from subtune.analysis.tables import order_columns, set_types
from subtune.core.errors import locate_errors
from subtune.methods import FULL

# Thresholds of the probability that a method is within the margin. A method with two seeds or more
# is *surely* within the margin from `SURE` on, *probably* from `LIKELY` on, and is worth naming
# from `POSSIBLE` on. Full fine-tuning is worth it if, surely or probably, no smaller method is
# within the margin.
SURE, LIKELY, POSSIBLE = intervals.LEVEL, 0.8, 0.5
# Metrics that are shares of examples.
SHARES = {"accuracy", "exact_match"}
# An answer for all tasks averages differences over the combinations of values in these columns.
TASK = ["task", "metric"]
# These columns are constant within one answer. `select_scored_runs` adds ``models``.
QUESTION = ["models", *TASK]
# Methods are sorted by these columns: the smallest first, and ties by the highest score.
FROM_SMALLEST = ["encoder_size", "trained", "score"]
# Differences of scores are rounded to this many digits; further digits are rounding errors.
DIGITS = 10
# The attributes of a `Candidate` that are columns of the summary.
CANDIDATE_COLUMNS = ("score", "reference_score", "most_lost", "chance", "rival", "least_chance")
NO_DIFFERENCE = Interval(np.nan, np.nan, np.nan)


class Candidate(NamedTuple):
    """A method, and its difference in score from the reference.

    Attributes:
        title: the method's title, which includes the model's name if several models are compared.
        encoder_size: the encoder's number of parameters; 0 for a method without a model; NaN for
            external predictions, which cannot be trained.
        trained: the number of trained parameters, without the classifier.
        share: ``trained`` as a share of the parameters that full fine-tuning trains.
        score: the mean score over the seeds and folds that the method shares with the reference.
        reference_score: the reference's mean score over the same seeds and folds.
        most_lost: the 95 % upper confidence bound of the drop in score relative to the reference.
        chance: the probability, given the recorded scores, that the method's score is lower than
            the reference's by no more than the margin.
        rival: the title of the method (or the reference) against which this probability is lowest;
            empty if it is unknown.
        least_chance: the probability against the rival.
        is_sure: whether ``least_chance`` is at least `SURE` and there is more than one seed.
        seeds: the seeds of the compared runs, on the task with the fewest seeds.
        studies: one `Study` of the difference per task, or none if a task has no study. If
            ``chance`` is at least `SURE`, the difference is from the rival, otherwise from the
            reference.
        judged_by: the name of the scored examples, such as ``dev examples``.
        over: the number of seeds and examples from which the interval is computed, as a string.
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
    rival: str
    least_chance: float
    is_sure: bool
    seeds: tuple[int, ...]
    runs: frozenset[str]
    studies: tuple[Study, ...]
    judged_by: str
    over: str

    @property
    def sort_key(self) -> tuple[float, int]:
        """The sorting key of methods, which contains NaN for external predictions."""
        return self.encoder_size, self.trained


class MethodComparison(NamedTuple):
    """All methods of one answer, by title, compared with the reference and with full fine-tuning.

    Methods are sorted by size. ``reference`` is the title of the reference, and ``full`` of the
    best fully fine-tuned model; both are empty without a score.
    """

    reference: str
    full: str
    methods: dict[str, Candidate]
    with_full: dict[str, Candidate]


def select_scored_runs(chosen: pd.DataFrame, row_scores: pd.DataFrame) -> pd.DataFrame:
    """Select the scores by which methods are compared, on the test set if there is one.

    Adds ``models`` (the models that are compared in one answer), ``trained`` (the number of trained
    parameters, without the classifier), ``title`` (with the model's name if there are several),
    ``is_full``, and three columns from ``row_scores``: the number of scored examples, ``rows``,
    their hash, and ``parts``, the pseudo-values ``[parts]``. For a run without pseudo-values, these
    are 0, an empty string, and NaN.
    """
    judged = chosen[chosen["judges"]]
    trainable = judged[judged["encoder_size"].notna()]
    names = trainable.groupby("task")["model"].agg(lambda models: ", ".join(models.unique()))
    across = judged["across_models"].astype(bool)
    models = judged["task"].map(names).where(across, judged["model"])
    titles = [title_with_mask(row) for row in judged[METHOD].to_dict("records")]
    title = pd.Series(titles, judged.index, dtype=object)
    has_model = (judged["encoder_size"].fillna(0) > 0) & (models != judged["model"])
    known = row_scores.set_index("run").reindex(judged["run"])
    judged = judged.assign(
        models=models,
        # A method without a model trains only a classifier.
        trained=count_encoder_parameters(judged).mask(judged["encoder_size"] == 0, 0),
        title=title.where(~has_model, title + " of " + judged["model"]),
        is_full=(judged["method"] == FULL) & judged["scope"].isna(),
        rows=known["rows"].fillna(0).astype(int).to_numpy(),
        rows_hash=known["rows_hash"].fillna("").to_numpy(),
        parts=[*known[PART_COLUMNS].to_numpy(float)],
    )
    # A run of a method that uses no model (such as `tf-idf`) has one row for each model; keep only
    # one.
    return judged.drop_duplicates([*QUESTION, "title", "seed", "fold", "train_rows"])


def are_scored_on_folds(runs: pd.DataFrame) -> bool:
    """Return whether all runs are scored on their folds, not on a test file."""
    return bool((runs["fold"].notna() & runs["decides"]).all())


def compare_with_reference(runs: pd.DataFrame) -> MethodComparison:
    """Choose the reference, and compare all methods with the reference and with full fine-tuning.

    The reference is full fine-tuning of the best model. If other methods surely beat it by at least
    the margin, the reference is the one with the largest difference. If it has no score, the
    reference is the method with the highest score. External predictions are never the reference.

    ``runs`` are the rows of `select_scored_runs` with the same values in the columns `QUESTION`.
    """
    runs_of = _index_runs(runs)
    full = _find_best(runs[runs["is_full"]])
    with_full = _compare_methods(runs, runs_of, full)
    if full in with_full:
        margin = runs["margin"].min()
        better = [
            candidate
            for title, candidate in with_full.items()
            if title != full and candidate.encoder_size >= 0 and len(candidate.seeds) > 1
            if intervals.probability_within(_estimate_studies(runs_of, title, full), -margin)
            >= SURE
        ]
        best = max(better, key=lambda candidate: candidate.difference.mean, default=None)
        reference = best.title if best else full
    else:
        full, reference = "", _find_best(runs[runs["encoder_size"].notna()])
    if reference == full:
        return MethodComparison(reference, full, with_full, with_full)
    methods = _compare_methods(runs, runs_of, reference)
    return MethodComparison(reference, full, methods, with_full)


def _find_best(runs: pd.DataFrame) -> str:
    """Return the method with the best mean, among those with the most runs and no diverged run."""
    tried = runs.groupby("title")["value"].agg(["size", "count", "mean"])
    scored = tried[tried["count"] == tried["size"]].sort_values(["count", "mean"])
    return "" if scored.empty else str(scored.index[-1])


# Maps each method's title to its runs by task and metric, and then by seed and fold. A run is a row
# of `select_scored_runs`, with ``judged_fold``, which is -1 if all runs are scored on the same
# examples.
_Run = Mapping[str, Any]
_RunsOf = Mapping[str, Mapping[tuple[str, str], Mapping[tuple[int, float], _Run]]]
# The pairs of runs of two methods with the same seed and fold, for each task and metric.
_Pairs = Mapping[tuple[str, str], Sequence[tuple[_Run, _Run]]]


def _index_runs(runs: pd.DataFrame) -> _RunsOf:
    fold = runs["fold"].astype(float).fillna(-1)
    runs = runs.assign(fold=fold, judged_fold=fold.where(runs["decides"], -1))
    tasks = dict.fromkeys(runs[TASK].itertuples(index=False, name=None))
    found: dict[str, Any] = {title: {task: {} for task in tasks} for title in runs["title"]}
    for row in runs.to_dict("records"):
        found[row["title"]][row["task"], row["metric"]][row["seed"], row["fold"]] = row
    return found


def _pair_runs(runs_of: _RunsOf, title: str, other: str) -> _Pairs:
    """Pair two methods' runs by seed and fold, or return {} if a task lacks pairs or scores."""
    found = {}
    for task, own in runs_of[title].items():
        theirs = runs_of[other][task]
        pairs = [(run, theirs[key]) for key, run in own.items() if key in theirs]
        if not pairs or not all(math.isfinite(a["value"] + b["value"]) for a, b in pairs):
            return {}
        found[task] = pairs
    return found


def _compare_methods(runs: pd.DataFrame, runs_of: _RunsOf, reference: str) -> dict[str, Candidate]:
    """Compare each method with a reference. Return comparisons by title, the smallest method first.

    A method is left out if its difference is missing on a task.
    """
    if not reference:
        return {}
    trainable = runs.loc[runs["encoder_size"].notna(), "title"].unique()
    # Ties are broken in favour of the reference, which comes first.
    rivals = [reference, *(title for title in trainable if title != reference)]
    margin, judged_by, found = runs["margin"].min(), _name_scored_examples(runs), []
    for title, size in _tabulate_sizes(runs).to_dict("index").items():
        if pairs := _pair_runs(runs_of, str(title), reference):
            with locate_errors(f"{title} and {reference}"):
                for run, partner in itertools.chain.from_iterable(pairs.values()):
                    require_same_rows(run, partner)
            shared = pairs, runs_of, rivals, margin, judged_by
            found.append(_compare_method(str(title), size, *shared))
    # External predictions come last. The size of their encoder is NaN.
    found = sorted(found, key=lambda c: (math.isnan(c.encoder_size), *c.sort_key, -c.score))
    return {candidate.title: candidate for candidate in found}


def _compare_method(
    title: str,
    size: Mapping[str, Any],
    pairs: _Pairs,
    runs_of: _RunsOf,
    rivals: Sequence[str],
    margin: float,
    judged_by: str,
) -> Candidate:
    """Compare a method with the reference (the first of the rivals) and with the others.

    ``size`` is the method's row of `_tabulate_sizes`.
    """
    reference = rivals[0]
    means = [
        np.mean([(run["value"], partner["value"]) for run, partner in both], 0)
        for both in pairs.values()
    ]
    score, reference_score = np.mean(means, 0).round(DIGITS).tolist()
    studies_of = {
        rival: _estimate_studies(runs_of, title, rival)
        for rival in rivals
        if title not in (reference, rival)
    }
    chances = {
        rival: intervals.probability_within(studies, margin)
        for rival, studies in studies_of.items()
        if studies
    }
    studies = studies_of.get(reference, ())
    # Without an interval against the reference, there is no probability.
    rival = min(chances, key=lambda name: chances[name]) if studies else ""
    chance, least_chance = chances.get(reference, math.nan), chances.get(rival, math.nan)
    difference = NO_DIFFERENCE._replace(mean=round(score - reference_score, DIGITS))
    return Candidate(
        **size,
        title=title,
        score=score,
        reference=reference,
        reference_score=reference_score,
        difference=intervals.mean_interval(studies) if studies else difference,
        most_lost=intervals.loss_bound(studies),
        chance=chance,
        rival=rival,
        least_chance=least_chance,
        is_sure=least_chance >= SURE and min(map(len, pairs.values())) > 1,
        seeds=tuple(sorted(run["seed"] for run, _ in min(pairs.values(), key=len))),
        runs=frozenset(run["run"] for both in pairs.values() for run, _ in both),
        studies=studies_of.get(rival, ()) if chance >= SURE else studies,
        judged_by=judged_by,
        over=_format_sample(studies, judged_by),
    )


def _name_scored_examples(runs: pd.DataFrame) -> str:
    if are_scored_on_folds(runs):
        return "examples"
    return "dev examples" if runs["decides"].all() else "test examples"


def _tabulate_sizes(runs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate four attributes of each method's `Candidate`, by title."""
    sizes = runs.astype({"encoder_size": float}).groupby("title", sort=False)
    table = sizes[["trained", "encoder_size"]].median().astype({"trained": int})
    full = runs[runs["is_full"]].groupby("model")["trained"].median()
    models = sizes["model"].first()
    return table.assign(model=models, share=table["trained"] / models.map(full))


def _estimate_studies(runs_of: _RunsOf, title: str, other: str) -> tuple[Study, ...]:
    """Estimate two methods' mean difference on each task, and its variance components.

    The result is empty if there are no pairs, or if a variance cannot be estimated. This happens on
    a task with a single seed without recorded predictions, or if the variance is 0 and the metric
    is not a share of examples.
    """
    studies = []
    for (_, metric), pairs in _pair_runs(runs_of, title, other).items():
        differences = [round(run["value"] - partner["value"], DIGITS) for run, partner in pairs]
        values = np.array([run["parts"] - partner["parts"] for run, partner in pairs])
        if len(pairs) == 1 and np.isnan(values).all():
            return ()
        folds, rows = {run["judged_fold"] for run, _ in pairs} - {-1}, [r["rows"] for r, _ in pairs]
        study = intervals.estimate_study_of_runs(differences, values, rows, len(folds))
        if not study.error()[0] and metric not in SHARES:
            return ()
        studies.append(study)
    return tuple(studies)


def _format_sample(studies: Sequence[Study], judged_by: str) -> str:
    """Format the size of a sample, such as ``3 seeds and 872 dev examples``."""
    if not studies:
        return ""
    seeds = min(study.seeds for study in studies)
    unit = "fold" if judged_by == "examples" else "seed"
    over = f"one {unit}" if seeds == 1 else f"{seeds} {unit}s"
    if all(study.parts for study in studies):
        over += f" and {sum(study.rows for study in studies):,} {judged_by}"
    return over


def summarise_methods(chosen: pd.DataFrame, row_scores: pd.DataFrame) -> pd.DataFrame:
    """Summarise each method in one row per model and task, as ``columns.csv`` explains."""
    rows = []
    for question, runs in select_scored_runs(chosen, row_scores).groupby(QUESTION, sort=False):
        reference, full, compared, with_full = compare_with_reference(runs)
        keys, sizes = ["title", "model", *METHOD], _tabulate_sizes(runs).to_dict("index")
        for (title, *method), same in runs.groupby(keys, sort=False, dropna=False):
            candidate = compared.get(str(title))
            difference = candidate.difference if candidate and title != reference else NO_DIFFERENCE
            # The reference is compared with full fine-tuning instead, which it may surely beat.
            against = with_full if title == reference != full and full else compared
            paired = same[same["run"].isin(candidate.runs)] if candidate else same
            mean = round(same["value"].mean(skipna=False), DIGITS)
            values = candidate._asdict() if candidate else {"score": mean, "rival": ""}
            rows.append(
                {
                    **dict(zip([*QUESTION, *keys], [*question, title, *method], strict=True)),
                    "reference": reference,
                    "margin": runs["margin"].min(),
                    **{name: values.get(name, np.nan) for name in CANDIDATE_COLUMNS},
                    "spread": paired["value"].std(),
                    "seeds": len(same),
                    "compared": len(paired) if candidate else 0,
                    "planned": max(len(same), int(same["planned"].max())),
                    "unit": "fold" if are_scored_on_folds(runs) else "seed",
                    **dict(zip(("difference", "low", "high"), difference, strict=True)),
                    "sure": bool(candidate) and against[str(title)].is_sure,
                    **sizes[title],
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
    table = order_columns(table.assign(on_front=is_on_pareto_front(table)), "summary")
    return sort_methods(set_types(table, "summary"), ["score", *FROM_SMALLEST[:2]])


def sort_methods(methods: pd.DataFrame, columns: list[str] = FROM_SMALLEST) -> pd.DataFrame:
    """Sort the methods of each task by columns: sizes ascending, scores descending."""
    ascending = [column != "score" for column in columns]
    questions = [rows for _, rows in methods.groupby(QUESTION, sort=False)]
    ordered = [rows.sort_values(columns, ascending=ascending) for rows in questions]
    return pd.concat(ordered, ignore_index=True)


def is_on_pareto_front(table: pd.DataFrame) -> pd.Series:
    """Return, for each row, whether the method is on its task's Pareto front of score and size."""
    trainable = table[table["encoder_size"].notna()]
    scores = trainable.assign(score=trainable["score"].fillna(-np.inf))
    by_size = scores.sort_values(FROM_SMALLEST, ascending=[True, True, False])
    fronts = by_size.groupby(QUESTION)["score"].transform(
        lambda score: score > score.cummax().shift(fill_value=-np.inf)
    )
    # Methods of the same size and score are on the front together.
    equal = by_size.assign(front=fronts).groupby([*QUESTION, *FROM_SMALLEST])
    fronts = equal["front"].transform("any")
    return fronts.reindex(table.index, fill_value=False).astype(bool)


def describe_curves(row: Mapping[str, Any]) -> str | None:
    """List the reasons why other learning rates or epochs may score higher, if any."""
    reasons = ["at the edge"] if row["at_edge"] else []
    reasons += [row["curve"]] if row["curve"] in (STILL_RISING, FELL) else []
    return ", ".join(reasons) or None
