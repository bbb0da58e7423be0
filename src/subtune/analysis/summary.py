"""What each method scores, and what it costs, beside full fine-tuning.

Parameters are counted without the classifier, which every method trains. A difference to full
fine-tuning is paired: score of the method minus that of full of the same seed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from subtune.analysis import verdicts
from subtune.analysis.scores import on_most_rows, trained_beside_classifier

REFERENCE = "full"
# What all methods of one panel, or of one answer, share.
QUESTION = ["model", "task", "metric"]
# What tells them apart.
METHOD = ["method", "fraction", "scope"]
# Of a difference of scores; what is behind them is what sums of floats leave.
DIGITS = 10


def summary(chosen: pd.DataFrame) -> pd.DataFrame:
    """One row per model, task and method, of each task's deciding column.

    Args:
        chosen: the runs of the best learning rates.

    Returns:
        ``model``, ``task``, ``metric``, ``method``, ``fraction``, ``scope``; ``score`` and
        ``spread`` (mean and standard deviation over seeds), ``seeds``; ``difference`` to full with
        ``low`` and ``high`` of its 95 % interval over seeds; ``trained`` (parameters), ``share`` of
        what full trains; ``delta_bytes``, ``seconds`` of training and ``epoch`` of the best score
        (medians over seeds); ``one_answer``, of how many seeds runs predict the same of every
        row; ``on_front``: no other method scores as high with fewer parameters,
        or higher with as many. Methods stand from the highest score to the lowest. One that
        diverged has no score.
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
    """Which rows of a summary nothing of the same question beats in both score and parameters."""
    fronts = []
    for _, rows in table.groupby(QUESTION, sort=False):
        scores = rows.assign(score=rows["score"].fillna(-np.inf))
        by_size = scores.sort_values(["trained", "score"], ascending=[True, False])["score"]
        fronts.append(by_size > by_size.cummax().shift(fill_value=-np.inf))
    return pd.concat(fronts).reindex(table.index)


def of_all_experiments(chosen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The runs of several experiments as those of one, each setting's of the experiment in which
    it scores best.

    Of a model and task those on the most training rows count. Tasks that experiments judge by
    different metrics are kept apart by the metric.
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
    """Rows of the deciding columns, with ``trained`` and ``difference``: the score minus full's of
    the same seed, NaN where either has no score."""
    deciding = chosen[chosen["decides"]]
    same = [*QUESTION, "seed"]
    full = _of_reference(deciding)[[*same, "value"]]
    both = deciding.merge(full, "left", on=same, suffixes=(None, "_of_full"), validate="m:1")
    difference = (both["value"] - both["value_of_full"]).round(DIGITS)
    return both.assign(trained=trained_beside_classifier(both), difference=difference)


def _of_reference(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["method"] == REFERENCE) & runs["scope"].isna()]


def differences(runs: pd.DataFrame) -> pd.Series:
    """Differences to full, by task and seed, as far as there are any.

    A task in another metric is another task.
    """
    levels = [runs["task"] + " " + runs["metric"], runs["seed"]]
    index = pd.MultiIndex.from_arrays(levels, names=["task", "seed"])
    return runs["difference"].set_axis(index).dropna()


class Candidate(NamedTuple):
    """A method smaller than full, and how its score differs from full's.

    ``units`` are the numbers that the interval is over, ``unit`` what one of them is.
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
    """The methods that train less than full, from the smallest, of one model and its tasks.

    They are those that every task has and that diverged nowhere; scores are means over tasks.

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
