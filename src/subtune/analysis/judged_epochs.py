"""Score runs at epochs that were chosen on other examples than those that are scored.

The score that is shown may belong to another epoch than the exported model. The exported model is
that of the ``best_epoch``, which has the highest score. This score is slightly too high, because
the epoch was chosen by it. Therefore, methods are compared by a ``value`` at the epochs in
``judged_at``, which other examples choose:

* A run on a fold is scored at the epoch that is best on average over the runs on the other folds.
* Without other folds, each part of the examples is scored at the epoch that is best on the
  remaining parts, if there are enough examples.

Scores in a paper's experiment, and scores on the test set, are those of the best epoch.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import SETTING
from subtune.runs import records
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.task import ScoreColumn

# The dev set is split into this many parts, and an epoch is chosen for each part. With more parts,
# the score varies more; with fewer parts, each epoch is chosen on fewer examples.
EPOCH_PARTS = 5


def rescore_at_judged_epochs(
    table: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> None:
    """Replace each ``value`` by which methods are compared, and set ``judged_at``, in place.

    ``table`` is from `subtune.analysis.run_scores.collect_scores`, and has the scores of the best
    epochs. ``judged_apart`` becomes True for each replaced score.
    """
    column_of = {column.key: column for column in columns}
    judged = table[table["decides"] & table["judges"] & table["value"].notna()]
    for _, runs in judged.groupby([*SETTING, "learning_rate", "partition"], dropna=False):
        column, folds = column_of[runs["column"].iloc[0]], runs["fold"].fillna(0)
        if folds.nunique() > 1:
            scores = _score_by_other_folds(store, runs["run"], folds, column)
        else:
            scores = [_score_by_other_parts(store, run, column) for run in runs["run"]]
        for index, score in zip(runs.index, scores, strict=True):
            if score:
                table.at[index, "value"], table.at[index, "judged_at"] = score
                table.at[index, "judged_apart"] = True


# A score, and the epochs at which it is computed; None with too few examples.
_Score = tuple[float, list[int]] | None


def _score_by_other_folds(
    store: Path, runs: Iterable[str], folds: pd.Series, column: ScoreColumn
) -> Sequence[_Score]:
    curves, scores = [records.read_curve(store, run, column.history_column) for run in runs], []
    for curve, fold in zip(curves, folds, strict=True):
        others = [*itertools.compress(curves, folds != fold)]
        epochs = min(map(len, (curve, *others)))
        best = int(np.mean([other[:epochs] for other in others], axis=0).argmax())
        scores.append((curve[best], [best + 1]))
    return scores


def _score_by_other_parts(store: Path, run: str, column: ScoreColumn) -> _Score:
    task, tables = read_epoch_predictions(store, run, column.split)
    if tables[1]["idx"].nunique() < EPOCH_PARTS:
        return None
    epochs = choose_part_epochs(task, column.metric, tables)
    predicted = combine_epochs_by_part(tables, epochs)
    return make_masked_metric(task, column.metric, predicted)(), epochs


def choose_part_epochs(
    task: TaskSpec, metric: str, tables: Mapping[int, pd.DataFrame]
) -> list[int]:
    """Choose an epoch for each part of the examples: the best epoch on the remaining parts.

    ``tables`` maps each epoch to predictions.
    """
    scores = {epoch: make_masked_metric(task, metric, table) for epoch, table in tables.items()}
    part = part_indices(tables[1], EPOCH_PARTS)
    return [max(scores, key=lambda e: scores[e](part != number)) for number in range(EPOCH_PARTS)]


def combine_epochs_by_part(
    tables: Mapping[int, pd.DataFrame], epochs: Sequence[int]
) -> pd.DataFrame:
    """Concatenate the predictions for all parts of the examples, each part from its own epoch."""
    part = part_indices(tables[epochs[0]], len(epochs))
    parts = [tables[epoch][part == number] for number, epoch in enumerate(epochs)]
    return pd.concat(parts).sort_index()


def part_indices(table: pd.DataFrame, parts: int) -> np.ndarray:
    """Return the part of each prediction's example. Parts are random, but the same for all runs."""
    row, names = pd.factorize(table["idx"])
    return (np.random.default_rng(0).permutation(len(names)) % parts)[row]


def make_masked_metric(task: TaskSpec, metric: str, table: pd.DataFrame) -> Callable[..., float]:
    """Build a function that computes a metric over the predictions that a mask selects.

    Without a mask, the metric is computed over all predictions.
    """
    predicted, expected = (
        # A mask cannot index a list.
        pd.Series(units, dtype=object).to_numpy() if isinstance(units, list) else np.asarray(units)
        for units in task.of_kind.metric_inputs(table)
    )

    def compute(mask: np.ndarray | None = None) -> float:
        selected = np.full(len(table), True) if mask is None else mask
        units = predicted[selected], expected[selected]
        return metrics.compute_metrics(task.of_kind.value_type, [metric], *units)[metric]

    return compute


def read_epoch_predictions(
    store: Path, run: str, split: str, epochs: Sequence[int] | None = None
) -> tuple[TaskSpec, dict[int, pd.DataFrame]]:
    """Read a run's task, and its predictions on a split by epoch. Diverged runs have none."""
    task = records.read_spec(store, run).tokens.data.task
    best = pd.DataFrame(records.read_recorded_predictions(store, run))
    columns = records.read_predictions_of_epochs(store, run)
    epoch = columns.pop("epoch")
    mask = (best["split"] == split).to_numpy()
    best = best[mask]
    return task, {
        number: best.assign(**{name: columns[name][epoch == number][mask] for name in columns})
        for number in (np.unique(epoch).tolist() if epochs is None else epochs)
    }


def read_scored_predictions(
    store: Path, row: Mapping[str, Any], split: str
) -> tuple[TaskSpec, pd.DataFrame]:
    """Read a run's task, and its predictions on a split at the epochs in ``row["judged_at"]``."""
    task, tables = read_epoch_predictions(store, row["run"], split, row["judged_at"])
    return task, combine_epochs_by_part(tables, row["judged_at"])
