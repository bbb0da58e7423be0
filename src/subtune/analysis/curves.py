"""Learning curves of recorded runs."""

from pathlib import Path

import pandas as pd

from subtune.runs import records


def learning_curves(scores: pd.DataFrame, store: Path) -> pd.DataFrame:
    """The deciding score of every epoch.

    Args:
        scores: runs, from `subtune.analysis.scores.collect`.
        store: where the run records are.

    Returns:
        ``run``, ``epoch``, ``train_loss``, ``metric``, ``score``.

    Raises:
        SubtuneError: a record is missing.
    """
    parts = []
    for row in scores[scores["decides"]].drop_duplicates("run").itertuples():
        split = records.read_spec(store, row.run).tokens.data.task.evaluation[0]
        history = records.read_history(store, row.run)
        part = history[["epoch", "train_loss"]]
        score = history[f"{split}/{row.metric}"]
        parts.append(part.assign(run=row.run, metric=row.metric, score=score))
    return pd.concat(parts)[["run", "epoch", "train_loss", "metric", "score"]]
