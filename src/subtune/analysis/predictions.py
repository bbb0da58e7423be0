"""Recorded predictions: their scores, and the epochs at which rows are scored.

The dev rows are divided into parts. Each part is scored at the epoch that is best on all other
parts, so no row chooses its own epoch.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.columns import read_table
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.metrics import MODULE
from subtune.tasks.task import ScoreColumn

# More parts make the score more variable; with fewer parts, fewer rows choose each epoch.
PARTS = 5
# Columns of `row_scores`, one for each part of the rows.
NUMBERS = [str(part) for part in range(intervals.PARTS)]
NO_ROWS = pd.DataFrame(columns=["run", "rows", *NUMBERS])


def judge_parts(
    task: TaskSpec, metric: str, tables: Mapping[int, pd.DataFrame]
) -> tuple[pd.DataFrame, list[int]]:
    """Return each row's prediction at its part's epoch, and the epoch of each part.

    Args:
        tables: a split's predictions by epoch, as `read_epoch_predictions` returns them.
    """
    scores = {epoch: make_masked_metric(task, metric, table) for epoch, table in tables.items()}
    part = part_of_rows(next(iter(tables.values())), PARTS)
    epochs = [max(scores, key=lambda e: scores[e](part != number)) for number in range(PARTS)]
    return join_parts(tables, epochs), epochs


def join_parts(tables: Mapping[int, pd.DataFrame], epochs: Sequence[int]) -> pd.DataFrame:
    """Return one table with the predictions of each part of the rows at the part's epoch."""
    part = part_of_rows(tables[epochs[0]], len(epochs))
    parts = [tables[epoch][part == number] for number, epoch in enumerate(epochs)]
    return pd.concat(parts).sort_index()


def part_of_rows(table: pd.DataFrame, parts: int) -> np.ndarray:
    """Return the part of the rows to which each prediction belongs.

    The parts are random, and the same for all runs.
    """
    row, names = pd.factorize(table["idx"])
    return (np.random.default_rng(0).permutation(len(names)) % parts)[row]


def make_masked_metric(
    task: TaskSpec, metric: str, table: pd.DataFrame
) -> Callable[[np.ndarray], float]:
    """Return the metric of recorded predictions as a function of a mask of the compared units."""
    predicted, expected = map(_array, task.of_kind.metric_inputs(table))
    compute = partial(metrics.compute_all, task.of_kind.compares, [metric])
    return lambda mask: compute(predicted[mask], expected[mask])[metric]


def read_epoch_predictions(
    store: Path, run: str, split: str
) -> tuple[TaskSpec, dict[int, pd.DataFrame]]:
    """Return the task of a run that did not diverge, and its predictions on a split by epoch."""
    task = records.read_spec(store, run).tokens.data.task
    best = pd.DataFrame(records.read_predictions(store, run))
    columns = records.read_predictions_of_epochs(store, run)
    epoch = columns.pop("epoch")
    is_of_split = (best["split"] == split).to_numpy()
    return task, {
        number: best.assign(**{name: columns[name][epoch == number] for name in columns})[
            is_of_split
        ]
        for number in np.unique(epoch).tolist()
    }


def _array(units: Sequence) -> np.ndarray:
    """Return units, which may be lists, as an array that a mask can index."""
    if isinstance(units, list):
        return np.fromiter(units, dtype=object, count=len(units))
    return np.asarray(units)


def read_row_scores(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return one table of the `row_scores` of several experiments; each run has one row."""
    return pd.concat(map(read_table, paths)).drop_duplicates("run")


def row_scores(chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]) -> pd.DataFrame:
    """Return the jackknife's pseudo-values of the scores that compare methods.

    Each part of the rows is scored at the epoch that was chosen for it. Runs that diverged, or have
    a single row, are left out.

    Returns:
        A row per run: ``run``; ``rows``, the number of scored rows; and a column per part of the
        rows, named in `NUMBERS`. If there are fewer rows than parts, the last columns are NaN.
    """
    split_of = {column.key: column.split for column in columns}
    parts_of_runs = []
    judged = chosen[chosen["judges"]].dropna(subset=["value"]).drop_duplicates("run")
    for row in judged.to_dict("records"):
        task, tables = read_epoch_predictions(store, row["run"], split_of[row["column"]])
        table = join_parts(tables, row["judged_at"])
        rows = table["idx"].nunique()
        if rows < 2:
            continue
        parts, score = min(intervals.PARTS, rows), make_masked_metric(task, row["metric"], table)
        values = intervals.pseudo_values(score, part_of_rows(table, parts), parts)
        missing = [np.nan] * (intervals.PARTS - parts)
        parts_of_runs.append([row["run"], rows, *values, *missing])
    return pd.DataFrame(parts_of_runs, columns=NO_ROWS.columns)


# Processors add in different orders; a wrong prediction changes a score by far more.
TOLERANCE = 1e-9


def require_scores_of_predictions(runs: Iterable[str], store: Path) -> None:
    """Compute the scores of runs again from their predictions, and refuse scores that differ.

    All scores of the epoch that is best by the task's first metric are compared. Runs that diverged
    have no predictions.

    Raises:
        SubtuneError: a recorded score differs from the score of the run's predictions by more than
            `TOLERANCE`.
    """
    # The metric's modules are local files; nothing is looked up on the hub.
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
            predicted, references = kind.metric_inputs(predictions[predictions["split"] == split])
            for name in task.metrics:
                metric = metric_of(f"{kind.compares}.{name}")
                again = metric.compute(predictions=predicted, references=references)[name]
                on_record = recorded[f"{split}/{name}"]
                if not abs(on_record - again) <= TOLERANCE:
                    raise SubtuneError(
                        f"run {run}: {task.name}: found {name} {on_record} of {split} on record, "
                        f"expected {again}, the score of its predictions; call `subtune verify "
                        f"--results {store.parent}`"
                    )
