"""Learning curves of recorded runs, and a verdict on each method's."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from subtune.analysis.scores import SETTING
from subtune.runs import curves, records
from subtune.tasks.task import ScoreColumn


def learning_curves(scores: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return the deciding score of every epoch.

    Args:
        scores: runs, from `subtune.analysis.scores.collect`.

    Returns:
        ``run``, ``epoch``, ``train_loss``, ``metric``, ``score``.

    Raises:
        SubtuneError: a record is missing.
    """
    rows = []
    for run in scores[scores["decides"]].drop_duplicates("run").to_dict("records"):
        split = records.read_spec(store, run["run"]).tokens.data.task.evaluation[0]
        rows += [
            {"run": run["run"], "epoch": epoch["epoch"], "train_loss": epoch["train_loss"]}
            | {"metric": run["metric"], "score": epoch[f"{split}/{run['metric']}"]}
            for epoch in records.read_epochs(store, run["run"])
        ]
    return pd.DataFrame(rows)


def with_verdicts(
    chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """Return the runs with ``curve``: the verdict on their setting's learning curves of all seeds.

    `subtune.runs.curves` has the verdicts. A setting that diverged has none.

    Raises:
        SubtuneError: a record is missing.
    """
    column_of = {column.task: column for column in columns if column.decides}
    verdicts: dict[str, str | None] = {}
    deciding = chosen[chosen["decides"]].dropna(subset=["value"])
    for _, runs in deciding.groupby(SETTING, sort=False, dropna=False):
        column = column_of[runs["task"].iloc[0]]
        scores = [
            [epoch[column.in_history] for epoch in records.read_epochs(store, run)]
            for run in runs["run"]
        ]
        predicted = records.read_predictions(store, runs["run"].iloc[0])
        rows = records.number_of_rows(predicted, column.split)
        verdicts |= dict.fromkeys(runs["run"], curves.verdict(scores, rows))
    return chosen.assign(curve=chosen["run"].map(verdicts))
