"""Recorded runs as one table: what each was, how it scored, how large its delta is."""

from pathlib import Path

import pandas as pd

from subtune.methods import name_of
from subtune.runs import records
from subtune.selections import Selection

COLUMNS = (
    "run",
    "model",
    "task",
    "method",
    "learning_rate",
    "batch_size",
    "epochs",
    "seed",
    "metric",
    "score",
    "best_epoch",
    "diverged",
    "trained",
    "delta_bytes",
)


def table(store: Path) -> pd.DataFrame:
    """One row per recorded run, in the order of tasks, methods and learning rates.

    Columns: `COLUMNS`. ``score`` is the task's first metric on its first evaluation split, at the
    best epoch. A method that has no name is shown as its selection.

    Raises:
        SubtuneError: a record cannot be read.
    """
    rows = [_row(store, run) for run in records.all_runs(store)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values(["task", "method", "learning_rate", "seed"], ignore_index=True)


def _row(store: Path, run: str) -> tuple:
    spec = records.read_spec(store, run)
    scores = records.read_scores(store, run)
    task = spec.tokens.data.task
    return (
        run,
        spec.model.repository or f"local {spec.model.version[:8]}",
        task.name,
        describe(spec.selection),
        spec.recipe.learning_rate,
        spec.recipe.batch_size,
        spec.recipe.epochs,
        spec.seed,
        task.metrics[0],
        scores["scores"][task.evaluation[0]][task.metrics[0]],
        scores["best_epoch"],
        scores.get("diverged", False),
        scores["trainable"],
        records.delta_path(store, run).stat().st_size,
    )


def describe(selection: Selection) -> str:
    """A selection's name, where it has one, or what it trains."""
    return name_of(selection) or selection.in_words()
