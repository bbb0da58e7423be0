"""Scores of an experiment's runs, from their records: recorded scores, and those of predictions.

If dev rows compare methods, they are divided into parts. Each part is scored at the epoch that is
best on all other parts, so no row chooses its own epoch.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import SETTING, whole_methods
from subtune.analysis.tables import order_columns, read_table, set_types
from subtune.core.errors import SubtuneError
from subtune.methods.roles import is_classifier
from subtune.runs import records
from subtune.tasks import TaskSpec, metrics
from subtune.tasks.metrics import MODULE
from subtune.tasks.task import ScoreColumn

# Searched learning rates belong to the plateau if they score at most this much lower than the best.
PLATEAU = 0.01
# The parts of the rows that have an epoch each. More parts make the score more variable; with fewer
# parts, fewer rows choose each epoch.
EPOCH_PARTS = 5
# Columns of `row_scores`, one for each part of the rows.
PART_COLUMNS = [str(part) for part in range(intervals.JACKKNIFE_PARTS)]
# The columns of the table of `row_scores`.
ROW_COLUMNS = ("run", "rows", *PART_COLUMNS)
# Processors add in different orders; a wrong prediction changes a score by far more.
TOLERANCE = 1e-9


def no_rows() -> pd.DataFrame:
    """Return the table of `row_scores` without runs."""
    return pd.DataFrame(columns=[*ROW_COLUMNS])


def collect_scores(
    finished: Sequence[Mapping[str, Any]],
    store: Path,
    columns: Sequence[ScoreColumn],
    apart: bool = False,
) -> pd.DataFrame:
    """Return the scores of an experiment's runs: a row per run and column of its task.

    `columns.csv` explains the columns of the result. A score is that of the run's best epoch: the
    first one with the highest score in the deciding column. A run that diverged has neither a best
    epoch nor a score.

    Args:
        finished: the runs, from `subtune.analysis.tables.join_run_ids`, with ``partition``.
        store: the directory of the run records.
        columns: the score columns of the experiment.
        apart: whether dev rows that compare methods are scored at epochs that other rows chose.
    """
    rows = []
    for entry in finished:
        task_columns = [column for column in columns if column.task == entry["task"]]
        outcome = records.read_outcome(store, entry["run"])
        history = records.read_epochs(store, entry["run"])
        sizes = records.read_sizes(store, entry["run"])
        best: Mapping[str, float] = {}
        if not outcome["diverged"]:
            [deciding] = [column.history_column for column in task_columns if column.decides]
            scored = [epoch for epoch in history if not math.isnan(epoch[deciding])]
            best = max(scored, key=lambda epoch: epoch[deciding])
        about = {name: entry[name] for name in entry if name not in ("key", "search", "tried")}
        about |= _tried_rates(entry, outcome["diverged"])
        about |= {
            "best_epoch": best.get("epoch"),
            "trainable": outcome["trainable"],
            "share_read": outcome.get("share_read"),
            "seconds": records.total_seconds(history),
            "one_answer": records.gives_one_answer(records.read_predictions(store, entry["run"])),
            "delta_bytes": records.delta_bytes(store, entry["run"]),
            "classifier": sum(size for name, size in sizes.items() if is_classifier(name)),
            "judged_apart": False,
            "judged_at": [best["epoch"]] if best else None,
        }
        rows += [
            {**about, "column": column.key, "value": best.get(column.history_column, math.nan)}
            | {name: getattr(column, name) for name in ("metric", "decides", "judges")}
            for column in task_columns
        ]
    table = set_types(order_columns(pd.DataFrame(rows), "scores"), "scores")
    table["fraction"] = table["fraction"].fillna(1.0)
    return _judge_apart(table, store, columns) if apart else table


def _tried_rates(entry: Mapping[str, Any], diverged: bool) -> dict[str, Any]:
    """Return the range of learning rates that were tried for a planned run, and the plateau."""
    tried = entry.get("tried", [])
    scores = {rate["learning_rate"]: rate["score"] for rate in tried if rate["score"] is not None}
    lowest = max(scores.values(), default=0.0) - PLATEAU
    plateau = [rate for rate, score in scores.items() if score >= lowest]
    rates = [rate["learning_rate"] for rate in tried] or [entry["learning_rate"]]
    return {
        "searched": bool(tried),
        "smallest_rate": min(rates),
        "largest_rate": max(rates),
        "plateau": plateau if tried and not diverged else None,
    }


def _judge_apart(table: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]) -> pd.DataFrame:
    """Return the scores with dev rows that compare methods scored at epochs that other rows chose.

    The best epoch's own score is slightly too high, because the rows that it scores chose it.
    Therefore ``value`` becomes a score at other epochs of the same training, ``judged_at``:

    1. for the run of a fold, the epoch that is best on average for the runs of the other folds
    2. without other folds, one epoch for each part of the rows: the best one on the other parts
    3. with fewer rows than parts, the best epoch, as before

    ``best_epoch`` stays the epoch of the recorded model, which can be exported.
    """
    column_of = {column.key: column for column in columns}
    judged = table[table["decides"] & table["judges"] & table["value"].notna()]
    for _, runs in judged.groupby([*SETTING, "learning_rate", "partition"], dropna=False):
        column, has_folds = column_of[runs["column"].iloc[0]], runs["fold"].notna().any()
        curves = {
            run: records.read_curve(store, run, column.history_column)
            for run in runs["run"]
            if has_folds
        }
        for index, run, fold in zip(runs.index, runs["run"], runs["fold"], strict=True):
            others = runs.loc[runs["fold"] != fold, "run"] if has_folds else []
            score: tuple[float, list[int]] | None
            if len(others):
                epochs = min(len(curves[name]) for name in (run, *others))
                best = int(np.mean([curves[name][:epochs] for name in others], axis=0).argmax())
                score = curves[run][best], [best + 1]
            else:
                score = _score_by_other_parts(store, run, column)
            if score:
                table.at[index, "value"], table.at[index, "judged_at"] = score
                table.at[index, "judged_apart"] = True
    return table


def _score_by_other_parts(
    store: Path, run_id: str, column: ScoreColumn
) -> tuple[float, list[int]] | None:
    """Return a run's score with each part of the rows at its epoch, and these epochs.

    The result is None if there are fewer rows than parts.
    """
    task, tables = read_epoch_predictions(store, run_id, column.split)
    if tables[1]["idx"].nunique() < EPOCH_PARTS:
        return None
    table, epochs = judge_parts(task, column.metric, tables)
    metric = make_masked_metric(task, column.metric, table)
    return metric(np.full(len(table), True)), epochs


def in_every_metric(
    chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """Return whole methods' runs at the epochs of ``chosen``: a row per run, column and metric.

    Returns:
        The columns of ``chosen``; ``decides`` is true only for the metric of ``chosen``.
    """
    split_of = {column.key: column.split for column in columns}
    rows = []
    for row in whole_methods(chosen).to_dict("records"):
        history = records.read_epochs(store, row["run"])
        best: Mapping[str, float] = {}
        if not pd.isna(row["value"]):
            epochs = row["judged_at"]
            best = history[epochs[0] - 1]
            if len(epochs) > 1:
                split = split_of[row["column"]]
                task, tables = read_epoch_predictions(store, row["run"], split)
                scores = task.of_kind.score(task, join_parts(tables, epochs))
                best = {f"{split}/{metric}": score for metric, score in scores.items()}
        for name in history[0]:
            split, _, metric = name.rpartition("/")
            if split == split_of[row["column"]]:
                decides = row["decides"] and metric == row["metric"]
                value = best.get(name, math.nan)
                rows.append(row | {"metric": metric, "value": value, "decides": decides})
    return pd.DataFrame(rows, columns=list(chosen)).astype(chosen.dtypes)


def train_and_dev(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Return train and dev scores of the runs whose records have scores on training rows.

    Returns:
        ``model``, ``task``, ``method``, ``column``, ``metric``, ``seed``, ``train``, ``dev``, and
        the generalisation ``gap``, which is train minus dev.
    """
    both = whole_methods(chosen).rename(columns={"value": "dev"})
    scores = {run: records.read_outcome(store, run)["scores"] for run in both["run"].unique()}
    both = both[[records.TRAIN in scores[run] for run in both["run"]]]
    metrics_of_rows = zip(both["run"], both["metric"], strict=True)
    both["train"] = [scores[run][records.TRAIN][metric] for run, metric in metrics_of_rows]
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]


def judge_parts(
    task: TaskSpec, metric: str, tables: Mapping[int, pd.DataFrame]
) -> tuple[pd.DataFrame, list[int]]:
    """Return each row's prediction at its part's epoch, and the epoch of each part.

    Args:
        tables: a split's predictions by epoch, as `read_epoch_predictions` returns them.
    """
    scores = {epoch: make_masked_metric(task, metric, table) for epoch, table in tables.items()}
    part = part_of_rows(next(iter(tables.values())), EPOCH_PARTS)
    epochs = [max(scores, key=lambda e: scores[e](part != number)) for number in range(EPOCH_PARTS)]
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
        rows, named in `PART_COLUMNS`. If there are fewer rows than parts, the last columns are NaN.
    """
    split_of = {column.key: column.split for column in columns}
    parts_of_runs = []
    judged = chosen[chosen["judges"]].dropna(subset=["value"]).drop_duplicates("run")
    for row in judged.to_dict("records"):
        task, table = read_judged_predictions(store, row, split_of[row["column"]])
        parts_of_runs += score_parts(
            row["run"], make_masked_metric(task, row["metric"], table), table
        )
    return pd.DataFrame(parts_of_runs, columns=[*ROW_COLUMNS])


def read_judged_predictions(
    store: Path, row: Mapping[str, Any], split: str
) -> tuple[TaskSpec, pd.DataFrame]:
    """Return the task of a run, and its predictions on a split at the epochs that were chosen.

    ``row``: the run's row of a table of scores.
    """
    task, tables = read_epoch_predictions(store, row["run"], split)
    return task, join_parts(tables, row["judged_at"])


def score_parts(
    run: str, score: Callable[[np.ndarray], float], table: pd.DataFrame
) -> list[list[Any]]:
    """Return a list with a run's row of `row_scores`, which is empty for a single scored row.

    Args:
        run: the run's id.
        score: from `make_masked_metric`.
        table: the predictions that are scored.
    """
    rows = table["idx"].nunique()
    if rows < 2:
        return []
    parts = min(intervals.JACKKNIFE_PARTS, rows)
    values = intervals.pseudo_values(score, part_of_rows(table, parts), parts)
    return [[run, rows, *values, *[np.nan] * (intervals.JACKKNIFE_PARTS - parts)]]


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
