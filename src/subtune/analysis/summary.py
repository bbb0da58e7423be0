"""Summary of methods: scores and costs, and the Pareto front of both."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis.answer import (
    FULL,
    METHOD,
    NO_DIFFERENCE,
    QUESTION,
    Candidate,
    compare_with_reference,
    judged_runs,
)
from subtune.analysis.columns import declared
from subtune.analysis.curves import FELL, STILL_RISING
from subtune.analysis.predictions import NO_ROWS
from subtune.analysis.scores import choose_best, on_most_rows


def summary(chosen: pd.DataFrame, row_scores: pd.DataFrame = NO_ROWS) -> pd.DataFrame:
    """Return a row per model, task and method, with scores in each task's judging column.

    `columns.csv` explains the columns. Methods are sorted by score, the highest first. A method
    that diverged has no score.
    """
    numbers, rows = row_scores.set_index("run"), []
    for question, runs in judged_runs(chosen).groupby(QUESTION, sort=False):
        reference, compared, _ = compare_with_reference(runs, numbers)
        others = {c.title: c for c in compared if c.title != reference}
        about = {
            **dict(zip(QUESTION, question, strict=True)),
            "reference": reference,
            "margin": runs["margin"].min(),
        }
        full = runs.loc[runs["title"] == FULL, "trained"].median()
        for (title, *method), same in runs.groupby(["title", *METHOD], sort=False, dropna=False):
            row = about | dict(zip(METHOD, method, strict=True)) | _scores_and_costs(same)
            row |= _comparison(others.get(str(title))) | {"share": row["trained"] / full}
            if title == reference:
                # Full is among the others if the reference beats it.
                row["sure"] = FULL in others
            rows.append(row)
    table = pd.DataFrame(rows)
    table = declared(table.assign(on_front=on_front(table)), "summary")
    return _in_order(table, ["score", "trained"])


def _scores_and_costs(runs: pd.DataFrame) -> dict[str, Any]:
    """Return one method's scores and costs over the runs of all seeds."""
    return {
        "score": runs["value"].mean(skipna=False),
        "spread": runs["value"].std(),
        "seeds": len(runs),
        "trained": int(runs["trained"].median()),
        "delta_bytes": runs["delta_bytes"].median(),
        "seconds": runs["seconds"].median(),
        "one_answer": int(runs["one_answer"].sum()),
        "epoch": runs["best_epoch"].astype(float).median(),
        "at_edge": bool(runs["at_edge"].any()),
        "curve": runs["curve"].iloc[0],
    }


def _comparison(candidate: Candidate | None) -> dict[str, Any]:
    """Return one method's comparison with the reference; without one, the numbers are missing."""
    difference = candidate.difference if candidate else NO_DIFFERENCE
    return {
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "most_lost": candidate.most_lost if candidate else np.nan,
        "chance": candidate.chance if candidate else np.nan,
        "sure": candidate.is_sure if candidate else False,
    }


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
    best = choose_best(together, [*QUESTION, *METHOD], together["experiment"])
    return best.drop(columns="experiment")


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
