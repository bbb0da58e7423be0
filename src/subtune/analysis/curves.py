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
    for run in scores["run"].unique():
        task = records.read_spec(store, run).tokens.data.task
        split, metric = task.evaluation[0], task.metrics[0]
        history = records.read_history(store, run)
        part = history[["epoch", "train_loss"]]
        parts.append(part.assign(run=run, metric=metric, score=history[f"{split}/{metric}"]))
    return pd.concat(parts)[["run", "epoch", "train_loss", "metric", "score"]]
