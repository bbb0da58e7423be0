"""Recorded runs as one table: what each was, how it scored, how large its delta is."""

from pathlib import Path
from typing import Any

import pandas as pd

from subtune.methods import name_of
from subtune.runs import records


def recorded_runs(store: Path) -> pd.DataFrame:
    """One row per recorded run, in the order of tasks, methods and learning rates.

    Columns: ``run``, ``model``, ``task``, ``method``, ``train_rows``, ``learning_rate``,
    ``batch_size``, ``epochs``, ``seed``, ``metric``, ``score``, ``best_epoch``, ``diverged``,
    ``trained``, ``delta_bytes``; none where no run is on record. ``train_rows`` is how many rows
    train it, or all. ``score`` is the task's first metric on its first evaluation split, at the
    best epoch; a run that diverged has neither. A method that has no name is shown as its
    selection.

    Raises:
        SubtuneError: a record cannot be read.
    """
    table = pd.DataFrame([_row(store, run) for run in records.all_runs(store)])
    order = ["task", "method", "learning_rate", "seed"]
    if table.empty:
        return table
    return table.astype({"best_epoch": "Int64"}).sort_values(order, ignore_index=True)


def _row(store: Path, run: str) -> dict[str, Any]:
    spec = records.read_spec(store, run)
    scores = records.read_outcome(store, run)
    task = spec.tokens.data.task
    return {
        "run": run,
        "model": spec.model.repository or f"local {spec.model.version[:8]}",
        "task": task.name,
        "method": name_of(spec.selection) or spec.selection.in_words(),
        "train_rows": str(spec.recipe.train_rows or "all"),
        **{name: getattr(spec.recipe, name) for name in ("learning_rate", "batch_size", "epochs")},
        "seed": spec.seed,
        "metric": task.metrics[0],
        "score": scores["scores"][task.evaluation[0]][task.metrics[0]],
        "best_epoch": scores["best_epoch"],
        "diverged": scores["diverged"],
        "trained": scores["trainable"],
        "delta_bytes": records.delta_bytes(store, run),
    }
