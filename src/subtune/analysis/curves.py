"""Learning curves of recorded runs."""

from pathlib import Path

import pandas as pd

from subtune.runs import records


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
