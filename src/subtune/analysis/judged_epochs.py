"""Score runs at epochs that were chosen on other examples than those that are scored.

The score that is shown may belong to another epoch than the exported model. A run is exported as
it was at its ``best_epoch``, which has the highest score. After cross-validation, the exported
model is trained again on all folds, for the median of their best epochs. The highest score is
slightly too high, because the epoch was chosen by it. Therefore, methods are compared by a
``value`` at the epochs in ``judged_at``, which other examples choose:

* A run on a fold is scored at the epoch that is best on average over the runs on the other folds.
* Without other folds, each part of the examples is scored at the epoch that is best on the
  remaining parts, if there are enough examples.

Scores in a paper's experiment, and scores on the test set, are those of the best epoch.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis.chosen_runs import SETTING
from subtune.core.errors import SubtuneError
from subtune.runs import records
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.task import TEST

# The dev set is split into this many parts, and an epoch is chosen for each part. With more parts,
# the score varies more; with fewer parts, each epoch is chosen on fewer examples.
EPOCH_PARTS = 5


def rescore_at_judged_epochs(table: pd.DataFrame, store: Path) -> None:
    """Replace each ``value`` by which methods are compared, and set ``judged_at``, in place.

    ``table`` is from `subtune.analysis.run_scores.collect_scores`, and has the scores of the best
    epochs. ``judged_apart`` becomes True for each replaced score.
    """
    judged = table[table["decides"] & table["judges"] & table["value"].notna()]
    for _, runs in judged.groupby([*SETTING, "learning_rate", "partition"], dropna=False):
        metric, folds = runs["metric"].iloc[0], runs["fold"].fillna(0)
        if folds.nunique() > 1:
            scores = _score_by_other_folds(store, runs["run"], folds, metric)
        else:
            scores = [_score_by_other_parts(store, run, metric) for run in runs["run"]]
        for index, score in zip(runs.index, scores, strict=True):
            if score:
                table.at[index, "value"], table.at[index, "judged_at"] = score
                table.at[index, "judged_apart"] = True


# A score, and the epochs at which it is computed; None if other examples cannot choose them.
_Score = tuple[float, list[int]] | None


def _score_by_other_folds(
    store: Path, runs: pd.Series, folds: pd.Series, metric: str
) -> Sequence[_Score]:
    split = judged_split(records.read_spec(store, runs.iloc[0]).tokens.data.task)
    curves, scores = [records.read_curve(store, run, f"{split}/{metric}") for run in runs], []
    for curve, fold in zip(curves, folds, strict=True):
        others = [*itertools.compress(curves, folds != fold)]
        epochs = min(map(len, (curve, *others)))
        best = int(np.mean([other[:epochs] for other in others], axis=0).argmax())
        scores.append((curve[best], [best + 1]))
    return scores


def _score_by_other_parts(store: Path, run: str, metric: str) -> _Score:
    task, tables = read_epoch_predictions(store, run)
    if tables[1]["idx"].nunique() < EPOCH_PARTS:
        return None
    epochs = choose_part_epochs(task, metric, tables)
    if not epochs:
        return None
    predicted = combine_epochs_by_part(tables, epochs)
    return make_masked_metric(task, metric, predicted)(), epochs


def choose_part_epochs(
    task: TaskSpec, metric: str, tables: Mapping[int, pd.DataFrame]
) -> list[int]:
    """Choose an epoch for each part of the examples: the best epoch on the remaining parts.

    ``tables`` maps each epoch to predictions. The result is empty if a scorer is undefined on some
    of the parts.
    """
    scores = {epoch: make_masked_metric(task, metric, table) for epoch, table in tables.items()}
    part = part_indices(tables[1], EPOCH_PARTS)
    others = {
        e: [score(part != number) for number in range(EPOCH_PARTS)] for e, score in scores.items()
    }
    if np.isnan([*others.values()]).any():
        return []
    return [max(others, key=lambda e: others[e][number]) for number in range(EPOCH_PARTS)]


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
    kind = task.of_kind
    if metrics.is_scorer(metric):
        return partial(_score_masked, task, metric, table)
    predicted, expected = (
        # A mask cannot index a list.
        pd.Series(units, dtype=object).to_numpy() if isinstance(units, list) else np.asarray(units)
        for units in kind.metric_inputs(table)
    )

    def compute(mask: np.ndarray | None = None) -> float:
        selected = np.full(len(table), True) if mask is None else mask
        units = predicted[selected], expected[selected]
        return metrics.compute_metrics(kind.value_type, [metric], *units)[metric]

    return compute


def _score_masked(
    task: TaskSpec, metric: str, table: pd.DataFrame, mask: np.ndarray | None = None
) -> float:
    """Compute a scorer's score, which may be undefined (NaN) if some examples are left out."""
    from subtune.tasks.scorers import compute_score

    selected = table if mask is None else table[mask]
    logits, labels = selected.filter(like="logit_").to_numpy(), selected["label"].to_numpy()
    try:
        return compute_score(metric, logits, labels, task.metric_code)
    except SubtuneError:
        if mask is None:
            raise
        return math.nan


def judged_split(task: TaskSpec) -> str:
    """Return the split on which methods are compared: the test set if there is one."""
    return TEST if TEST in task.evaluation else task.evaluation[0]


def read_epoch_predictions(
    store: Path, run: str, epochs: Sequence[int] | None = None
) -> tuple[TaskSpec, dict[int, pd.DataFrame]]:
    """Read a run's task, and its predictions on `judged_split` by epoch, unless it diverged."""
    task = records.read_spec(store, run).tokens.data.task
    best = pd.DataFrame(records.read_recorded_predictions(store, run))
    columns = records.read_predictions_of_epochs(store, run)
    epoch = columns.pop("epoch")
    mask = (best["split"] == judged_split(task)).to_numpy()
    best = best[mask]
    return task, {
        number: best.assign(**{name: columns[name][epoch == number][mask] for name in columns})
        for number in (np.unique(epoch).tolist() if epochs is None else epochs)
    }


def read_scored_predictions(store: Path, row: Mapping[str, Any]) -> tuple[TaskSpec, pd.DataFrame]:
    """Read a run's task, and the predictions by whose score the run is compared with others."""
    task, tables = read_epoch_predictions(store, row["run"], row["judged_at"])
    return task, combine_epochs_by_part(tables, row["judged_at"])
