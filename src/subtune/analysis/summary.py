"""Scores and costs of methods, compared with full fine-tuning.

Parameters are counted without the classifier, which every method trains. A difference is the
method's score minus full's score with the same seed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import verdicts
from subtune.analysis.scores import on_most_rows, trained_beside_classifier

REFERENCE = "full"
# The columns that the methods of one comparison share.
QUESTION = ["model", "task", "metric"]
# The columns that tell them apart.
METHOD = ["method", "fraction", "scope"]
# Digits of a difference of scores; later ones are rounding errors.
DIGITS = 10


def summary(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return a row per model, task and method, with the scores of each task's deciding column.

    Args:
        chosen: the runs of the best learning rates.

    Returns:
        ``model``, ``task``, ``metric``, ``method``, ``fraction``, ``scope``; ``score`` and
        ``spread`` (mean and standard deviation over seeds), ``seeds``; ``difference`` to full with
        ``low`` and ``high`` of its 95 % interval over seeds; ``trained`` (parameters), ``share`` of
        full's parameters; ``delta_bytes``, ``seconds`` of training and ``epoch`` of the best score
        (medians over seeds); ``one_answer``, the number of seeds whose run predicts the same for
        every row; ``on_front``: no other method scores as high with fewer parameters, or higher
        with as many. Methods stand from the highest score to the lowest. A method that diverged has
        no score.
    """
    deciding = with_differences(chosen)
    rows = []
    for question, of_question in deciding.groupby(QUESTION, sort=False):
        reference = _of_reference(of_question)
        full = reference["trained"].median()
        for method, runs in of_question.groupby(METHOD, sort=False, dropna=False):
            is_reference = runs.index.isin(reference.index).all()
            cells = [] if is_reference else runs["difference"].dropna().tolist()
            difference = verdicts.interval(cells)
            trained = runs["trained"].median()
            rows.append(
                dict(zip([*QUESTION, *METHOD], [*question, *method], strict=True))
                | {"score": runs["value"].mean(skipna=False), "spread": runs["value"].std()}
                | {"seeds": len(runs), "difference": difference.mean}
                | {"low": difference.low, "high": difference.high}
                | {"trained": int(trained), "share": trained / full if full else np.nan}
                | {name: runs[name].median() for name in ("delta_bytes", "seconds")}
                | {"one_answer": int(runs.get("one_answer", pd.Series(False, runs.index)).sum())}
                | {"epoch": runs["best_epoch"].astype(float).median()}
            )
    table = pd.DataFrame(rows)
    order = table.groupby(QUESTION, sort=False).ngroup()
    table = table.assign(order=order, on_front=on_front(table))
    keys, ascending = ["order", "score", "trained"], [True, False, True]
    table = table.sort_values(keys, ascending=ascending, kind="stable", ignore_index=True)
    return table.drop(columns="order")


def on_front(table: pd.DataFrame) -> pd.Series:
    """Return the rows that no other method for the same task beats in score and parameters."""
    fronts = []
    for _, rows in table.groupby(QUESTION, sort=False):
        scores = rows.assign(score=rows["score"].fillna(-np.inf))
        by_size = scores.sort_values(["trained", "score"], ascending=[True, False])["score"]
        fronts.append(by_size > by_size.cummax().shift(fill_value=-np.inf))
    return pd.concat(fronts).reindex(table.index)


def of_all_experiments(chosen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the runs of several experiments as one table.

    If experiments share a setting, the one in which it scores best counts. Only the runs on the
    most training rows of a model and task count. If experiments judge a task by different metrics,
    each metric is a task of its own.
    """
    tables = [table.assign(experiment=number) for number, table in enumerate(chosen)]
    together = on_most_rows(pd.concat(tables, ignore_index=True))
    setting = together.groupby([*QUESTION, *METHOD], sort=False, dropna=False).ngroup()
    together = together.assign(setting=setting)
    deciding = together[together["decides"]]
    means = deciding.groupby(["setting", "experiment"], as_index=False)["value"]
    best = means.mean(skipna=False).sort_values("value", ascending=False, kind="stable")
    best = best.drop_duplicates("setting")[["setting", "experiment"]]
    return together.merge(best).drop(columns=["setting", "experiment"])


def with_differences(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the deciding columns, with ``trained`` and ``difference`` added.

    The difference is NaN if the method or full has no score with that seed.
    """
    deciding = chosen[chosen["decides"]]
    same = [*QUESTION, "seed"]
    full = _of_reference(deciding)[[*same, "value"]]
    both = deciding.merge(full, "left", on=same, suffixes=(None, "_of_full"), validate="m:1")
    difference = (both["value"] - both["value_of_full"]).round(DIGITS)
    return both.assign(trained=trained_beside_classifier(both), difference=difference)


def _of_reference(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["method"] == REFERENCE) & runs["scope"].isna()]


def differences(runs: pd.DataFrame) -> pd.Series:
    """Return the differences to full by task and seed; a task in another metric is another task."""
    levels = [runs["task"] + " " + runs["metric"], runs["seed"]]
    index = pd.MultiIndex.from_arrays(levels, names=["task", "seed"])
    return runs["difference"].set_axis(index).dropna()


class Candidate(NamedTuple):
    """A method smaller than full, and the difference of its score to full's.

    ``units`` are the numbers of the interval, and ``unit`` says what each of them stands for.
    """

    method: str
    fraction: float
    scope: str | None
    trained: int
    share: float
    score: float
    full_score: float
    difference: verdicts.Interval
    unit: str
    units: tuple[float, ...]


def candidates(deciding: pd.DataFrame) -> list[Candidate]:
    """Return the methods that train less than full, from the smallest.

    They have a score on every task. Scores are means over tasks.

    Args:
        deciding: the rows of one model from `with_differences`.
    """
    reference = _of_reference(deciding)
    tasks = deciding.groupby(["task", "metric"]).ngroups
    full = reference["trained"].median()
    made = []
    for (method, fraction, scope), runs in deciding.groupby(METHOD, sort=False, dropna=False):
        trained = int(runs["trained"].median())
        cells = differences(runs)
        complete = len(cells) == len(runs) and runs.groupby(["task", "metric"]).ngroups == tasks
        if trained >= full or not complete:
            continue
        unit, units = verdicts.units(cells if tasks > 1 else cells.droplevel("task"))
        made.append(
            Candidate(
                method=str(method),
                fraction=float(fraction),
                scope=None if pd.isna(scope) else str(scope),
                trained=trained,
                share=trained / full,
                score=runs.groupby("task")["value"].mean().mean(),
                full_score=reference.groupby("task")["value"].mean().mean(),
                difference=verdicts.interval(units.tolist()),
                unit=unit,
                units=tuple(units),
            )
        )
    return sorted(made, key=lambda candidate: (candidate.trained, -candidate.score))
