"""Read the scores of an experiment's runs from their records, or compute them from predictions."""

import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.chosen_runs import SETTING, drop_runs_with_mask
from subtune.analysis.judged_epochs import (
    make_masked_metric,
    part_indices,
    read_scored_predictions,
    rescore_at_judged_epochs,
)
from subtune.analysis.tables import order_columns, read_table, set_types
from subtune.core.errors import SubtuneError
from subtune.core.files import hash_bytes
from subtune.methods import FULL
from subtune.methods.roles import is_classifier
from subtune.runs import records
from subtune.tasks import metrics
from subtune.tasks.metrics import MODULE, is_scorer
from subtune.tasks.task import ScoreColumn

# A learning rate is on the plateau of a search if its score is at most this much below the best
# score.
PLATEAU = 0.01
# The columns of pseudo-values from `tabulate_pseudo_values`, one for each part of the examples.
PART_COLUMNS = [str(part) for part in range(intervals.JACKKNIFE_PARTS)]
# All columns of the table from `tabulate_pseudo_values`.
ROW_COLUMNS = ("run", "rows", "rows_hash", *PART_COLUMNS)
# Recomputed scores may differ by rounding, because processors sum in different orders. One wrong
# prediction changes a score by far more than this.
SCORE_TOLERANCE = 1e-9
# Values for a user's external predictions in the columns that describe a run.
NO_RUN: dict[str, Any] = {
    **dict.fromkeys(("learning_rate", "smallest_rate", "largest_rate", "share_read"), np.nan),
    **dict.fromkeys(("encoder_size", "plateau", "best_epoch", "judged_at", "curve"), None),
    **dict.fromkeys(("trainable", "classifier", "seconds", "delta_bytes"), 0),
    **dict.fromkeys(("searched", "at_edge"), False),
}


def collect_scores(
    finished: Sequence[Mapping[str, Any]],
    store: Path,
    columns: Sequence[ScoreColumn],
    apart: bool = False,
) -> pd.DataFrame:
    """Build the table of scores, with one row for each run and each score column of its task.

    Scores are from the best epoch: the first epoch with the highest score in the column by which
    epochs are chosen. A diverged run has no best epoch and no score. With ``apart``, dev examples
    are scored at other epochs (`subtune.analysis.judged_epochs`). ``finished`` is from
    `subtune.runs.learning_rates.join_recorded_runs`.
    """
    rows = []
    for entry in finished:
        task_columns = [column for column in columns if column.task == entry["task"]]
        run = entry["run"]
        outcome, history = records.read_outcome(store, run), records.read_epochs(store, run)
        best: Mapping[str, float] = {}
        if not outcome["diverged"]:
            [deciding] = [column.history_column for column in task_columns if column.decides]
            scored = [epoch for epoch in history if not math.isnan(epoch[deciding])]
            best = max(scored, key=lambda epoch: epoch[deciding])
        sizes = records.read_sizes(store, run)
        predicted = records.read_recorded_predictions(store, run)
        description = {
            **{name: entry[name] for name in entry if name not in ("key", "search", "tried")},
            **_describe_tried_rates(entry, outcome["diverged"]),
            "best_epoch": best.get("epoch"),
            "trainable": outcome["trainable"],
            "share_read": outcome.get("share_read"),
            "seconds": records.total_seconds(history),
            "one_answer": records.has_constant_predictions(predicted),
            "delta_bytes": records.delta_bytes(store, run),
            "classifier": sum(size for name, size in sizes.items() if is_classifier(name)),
            "judged_apart": False,
            "judged_at": [best["epoch"]] if best else None,
        }
        for column in task_columns:
            score = {"column": column.key, "value": best.get(column.history_column, math.nan)}
            score |= {name: getattr(column, name) for name in ("metric", "decides", "judges")}
            rows.append(description | score)
    table = set_types(order_columns(pd.DataFrame(rows), "scores"), "scores")
    table["fraction"] = table["fraction"].fillna(1.0)
    # A diverged run has no delta, so the classifier's size is read from another seed or fold.
    of_setting = table.groupby(SETTING, dropna=False)["classifier"]
    table["classifier"] = of_setting.transform("max")
    if apart:
        rescore_at_judged_epochs(table, store)
    return table


def _describe_tried_rates(entry: Mapping[str, Any], diverged: bool) -> dict[str, Any]:
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


def score_in_all_metrics(
    chosen: pd.DataFrame, store: Path, columns: Sequence[ScoreColumn]
) -> pd.DataFrame:
    """Score runs without masks in all metrics of their tasks, at the epochs in ``judged_at``.

    ``decides`` is False in rows whose metric is not the run's metric in ``chosen``.
    """
    split_of = {column.key: column.split for column in columns}
    rows = []
    for row in drop_runs_with_mask(chosen).to_dict("records"):
        split, task = split_of[row["column"]], records.read_spec(store, row["run"]).tokens.data.task
        scores = dict.fromkeys(task.metrics, math.nan)
        if not pd.isna(row["value"]):
            epochs = row["judged_at"]
            if len(epochs) > 1:
                scores = task.of_kind.score(task, read_scored_predictions(store, row)[1])
            else:
                best = records.read_epochs(store, row["run"])[epochs[0] - 1]
                scores = {metric: best[f"{split}/{metric}"] for metric in task.metrics}
        for metric, value in scores.items():
            decides = row["decides"] and metric == row["metric"]
            rows.append(row | {"metric": metric, "value": value, "decides": decides})
    return pd.DataFrame(rows, columns=list(chosen)).astype(chosen.dtypes)


def train_and_dev_scores(
    chosen: pd.DataFrame, store: Path, methods: Collection[str]
) -> pd.DataFrame:
    """Tabulate ``train`` scores (NaN if not recorded), ``dev`` scores and their ``gap``."""
    both = drop_runs_with_mask(chosen).rename(columns={"value": "dev"})
    both = both[both["method"].isin(methods)]
    train = [
        records.read_outcome(store, run)["scores"].get(records.TRAIN, {}).get(metric)
        for run, metric in zip(both["run"], both["metric"], strict=True)
    ]
    both["train"] = pd.Series(train, both.index, dtype=float)
    both["gap"] = both["train"] - both["dev"]
    return both[["model", "task", "method", "column", "metric", "seed", "train", "dev", "gap"]]


def read_row_scores(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Read the pseudo-values of several experiments into one table, with one row per run."""
    return pd.concat(map(read_table, paths)).drop_duplicates("run")


def tabulate_pseudo_values(chosen: pd.DataFrame, store: Path) -> pd.DataFrame:
    """Tabulate jackknife pseudo-values of the scores by which methods are compared, by ``run``.

    ``rows`` is the number of scored examples, and ``rows_hash`` a hash of their indices.
    `PART_COLUMNS` has a pseudo-value for each part; with fewer examples than parts, the remaining
    columns are NaN. Diverged runs and runs that are scored on a single example are left out.
    """
    parts_of_runs = []
    judged = chosen[chosen["judges"]].dropna(subset=["value"]).drop_duplicates("run")
    for row in judged.to_dict("records"):
        task, table = read_scored_predictions(store, row)
        score = make_masked_metric(task, row["metric"], table)
        parts_of_runs += build_pseudo_value_row(row["run"], score, table)
    return pd.DataFrame(parts_of_runs, columns=[*ROW_COLUMNS])


def build_pseudo_value_row(
    run: str, score: Callable[[np.ndarray], float], table: pd.DataFrame
) -> list[list[Any]]:
    """Build a run's row for `tabulate_pseudo_values`, or none if only one example is scored."""
    scored = np.unique(table["idx"].to_numpy(np.int64))
    rows = len(scored)
    if rows < 2:
        return []
    parts = min(intervals.JACKKNIFE_PARTS, rows)
    values = intervals.compute_pseudo_values(score, part_indices(table, parts), parts)
    if np.isnan(values).any():
        # A scorer is undefined without some part, so the variance between examples is unknown.
        return []
    about = [run, rows, hash_bytes(scored.tobytes())]
    return [[*about, *values, *[np.nan] * (intervals.JACKKNIFE_PARTS - parts)]]


def score_external_predictions(
    chosen: pd.DataFrame, store: Path, external: Mapping[str, Mapping[str, np.ndarray]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score external predictions, with one row for each run of full fine-tuning.

    Without such runs, the method with the most runs is used. The rows describe the system like a
    method. ``run`` is the run's id, a colon and the system's name; there is no record with this id.
    ``external[task][system]`` are logits ``[n, o]`` for the ``n`` dev or test examples of a task.
    The tables have the columns of ``chosen`` and of `tabulate_pseudo_values`.
    """
    judged = drop_runs_with_mask(chosen[chosen["judges"]]).dropna(subset=["value"])
    judged = judged[judged["task"].isin([*external])]
    rows, parts = [], list[list[Any]]()
    for (_, task_name), runs in judged.groupby(["model", "task"], sort=False):
        names = runs["method"]
        method = FULL if names.eq(FULL).any() else names.mode()[0]
        for row in runs[names == method].to_dict("records"):
            task, table = read_scored_predictions(store, row)
            table = table.drop(columns=[*table.filter(like="logit_")])
            for system, logits in external[str(task_name)].items():
                own = {f"logit_{n}": logits[table["idx"], n] for n in range(logits.shape[1])}
                predicted = table.assign(**own)
                score = make_masked_metric(task, row["metric"], predicted)
                run = f"{row['run']}:{system}"
                about = {"method": system, "run": run, "value": score()}
                columns_of = {name: values.to_numpy() for name, values in predicted.items()}
                about["one_answer"] = records.has_constant_predictions(columns_of)
                rows.append(row | NO_RUN | about)
                parts += build_pseudo_value_row(run, score, predicted)
    table = pd.DataFrame(rows, columns=[*chosen]).astype(chosen.dtypes)
    return set_types(table, "scores"), pd.DataFrame(parts, columns=[*ROW_COLUMNS])


def require_same_rows(run: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise a `SubtuneError` if two compared runs are known to be scored on different rows.

    The runs are rows of `subtune.analysis.candidates.select_scored_runs`.
    """
    if len({run["rows_hash"], other["rows_hash"]} - {""}) > 1:
        raise SubtuneError(
            f"runs {run['run']} and {other['run']} are scored on different rows, so their scores "
            "cannot be compared; train both with this version of subtune, in a new results "
            "directory"
        )


def compute_with_evaluate(
    value_type: str, names: Iterable[str], predictions: Sequence, references: Sequence
) -> dict[str, float]:
    """Compute several metrics like `compute_metrics`, but with the library ``evaluate``."""
    scores: dict[str, float] = {}
    for name in names:
        metric = _load_metric(f"{value_type}.{name}")
        scores |= metric.compute(predictions=predictions, references=references)
    return scores


@cache
def _load_metric(name: str) -> Any:
    # The metric's module is a local file, so nothing has to be downloaded from the hub.
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    # Evaluate's pipelines are not used. Importing those of transformers would take five seconds.
    is_absent = sys.modules.setdefault("transformers", None) is None  # type: ignore[arg-type]
    import evaluate

    if is_absent:
        del sys.modules["transformers"]
    return evaluate.load(
        str(MODULE), config_name=name, keep_in_memory=True, experiment_id=str(os.getpid())
    )


def require_scores_of_predictions(
    runs: Iterable[str],
    store: Path,
    compute: Callable[..., dict[str, float]] = metrics.compute_metrics,
) -> None:
    """Raise a `SubtuneError` if recorded scores do not match the recorded predictions."""
    for run in dict.fromkeys(runs):
        outcome = records.read_outcome(store, run)
        if outcome["diverged"]:
            continue
        task = records.read_spec(store, run).tokens.data.task
        predictions = pd.DataFrame(records.read_recorded_predictions(store, run))
        recorded = records.read_epochs(store, run)[outcome["best_epoch"] - 1]
        for split in task.evaluation:
            of_split = predictions[predictions["split"] == split]
            kind, inputs = task.of_kind, task.of_kind.metric_inputs(of_split)
            built_in = [name for name in task.metrics if not is_scorer(name)]
            scores = kind.score(task, of_split) | compute(kind.value_type, built_in, *inputs)
            for name, again in scores.items():
                on_record = recorded[f"{split}/{name}"]
                if not math.isclose(on_record, again, rel_tol=1e-9, abs_tol=SCORE_TOLERANCE):
                    raise SubtuneError(
                        f"run {run}: {task.name}: found a recorded {name} of {on_record} on "
                        f"{split}, expected {again}, the {name} of the recorded predictions; run "
                        f"`subtune verify --results {store.parent}`"
                    )
