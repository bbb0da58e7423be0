"""Scores that are computed after training: from recorded predictions, and on training rows."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.scores import whole_methods
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.tasks.metrics import MODULE

# Processors add up in different orders; a wrong prediction changes a score by far more.
TOLERANCE = 1e-9


def require_scores_of_predictions(runs: Iterable[str], store: Path) -> None:
    """Compute the scores of runs again from their predictions, and refuse a difference.

    A record has the predictions of the epoch that is best by its task's first metric. Every score
    of that epoch is compared. A paper may show another epoch, whose predictions are not on record.
    Runs that diverged have none.

    Raises:
        SubtuneError: a score on record differs from that of its predictions by more than
            `TOLERANCE`, or a record cannot be read.
    """
    # Its modules are files here; nothing is looked up on the hub.
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    import evaluate

    @cache
    def metric_of(name: str) -> Any:
        return evaluate.load(
            str(MODULE), config_name=name, keep_in_memory=True, experiment_id=str(os.getpid())
        )

    for run in dict.fromkeys(runs):
        outcome = records.read_outcome(store, run)
        if outcome["diverged"]:
            continue
        task = records.read_spec(store, run).tokens.data.task
        kind, predictions = task.of_kind, pd.DataFrame(records.read_predictions(store, run))
        recorded = records.read_epochs(store, run)[outcome["best_epoch"] - 1]
        for split in task.evaluation:
            predicted, references = kind.compared(predictions[predictions["split"] == split])
            for name in task.metrics:
                metric = metric_of(f"{kind.compares}.{name}")
                again = metric.compute(predictions=predicted, references=references)[name]
                found = recorded[f"{split}/{name}"]
                if not abs(found - again) <= TOLERANCE:
                    raise SubtuneError(
                        f"run {run}: {task.name}: found {name} {found} of {split} on record, "
                        f"expected {again}, as its predictions score; call `subtune verify "
                        f"--results {store.parent}`"
                    )


def train_and_dev(chosen: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Return train and dev scores of the runs that were scored on their training rows.

    The first minus the second is the generalisation gap.

    Args:
        trained: ``run``, and one column per metric.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``,
        ``gap``, one row per run and column of the tables.
    """
    both = whole_methods(chosen).merge(trained, on="run")
    both["train"] = [row[row["metric"]] for _, row in both.iterrows()]
    both = both.rename(columns={"value": "dev"})
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]
