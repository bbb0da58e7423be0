"""Table of all planned runs, a row per run, and the meaning of its columns."""

import csv
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.layout import path_of
from subtune.runs import curves, records

# Pattern of columns to their meaning, in the table's order.
_TEXT = path_of("subtune.runs", "columns.csv").read_text(encoding="utf-8")
COLUMNS = {row["column"]: row["meaning"] for row in csv.DictReader(_TEXT.splitlines())}


def table_of_runs(store: Path, planned: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per run, in the order of the plan. `meanings` explains its columns.

    Args:
        store: where the run records are.
        planned: per run and experiment ``run``, ``experiment``, ``model``, ``task``, ``method``,
            ``fraction``, ``scope``, ``train_rows``, ``fold``, ``flops``.

    Raises:
        SubtuneError: a record is missing or cannot be read, or a column has no meaning.
    """
    users: dict[str, list[Mapping[str, Any]]] = {}
    for entry in planned:
        users.setdefault(entry["run"], []).append(entry)
    rows = pd.json_normalize([_row(store, run, entries) for run, entries in users.items()])
    ordered = [column for pattern in COLUMNS for column in rows if fnmatch(column, pattern)]
    if unexplained := sorted(set(rows) - set(ordered)):
        raise SubtuneError(
            f"runs/columns.csv: found no meaning of {', '.join(unexplained)}; add a row for each"
        )
    return rows[ordered].astype({"best_epoch": "Int64", "fold": "Int64"})


def meanings(columns: Sequence[str]) -> pd.DataFrame:
    """Return the data dictionary of a table: ``column`` and ``meaning``."""
    rows = [(c, text) for c in columns for pattern, text in COLUMNS.items() if fnmatch(c, pattern)]
    return pd.DataFrame(rows, columns=["column", "meaning"])


def _row(store: Path, run: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    spec = records.read_spec(store, run)
    outcome = records.read_outcome(store, run)
    history = records.read_epochs(store, run)
    task = spec.tokens.data.task
    split, metric = task.evaluation[0], task.metrics[0]
    predicted, curve = records.read_predictions(store, run), None
    if not outcome["diverged"]:
        rows = records.number_of_rows(predicted, split)
        curve = curves.verdict([[epoch[f"{split}/{metric}"] for epoch in history]], rows)
    first = {name: value for name, value in entries[0].items() if name != "experiment"}
    of_spec = spec.model_dump(mode="json") | {"selection": spec.selection.canonical()}
    if spec.recipe.searched:
        # A column of a Parquet file has one type.
        of_spec["recipe"]["searched"] = of_spec["recipe"].pop("learning_rate")
    return {
        **first,
        "experiments": " ".join(dict.fromkeys(entry["experiment"] for entry in entries)),
        "learning_rate": outcome.get("learning_rate", spec.recipe.learning_rate),
        "seed": spec.seed,
        "score": outcome["scores"][split][metric],
        "metric": metric,
        "curve": curve,
        "epochs_trained": len(history),
        "train_loss": history[-1]["train_loss"],
        "seconds": records.seconds_of(history),
        **outcome,
        "one_answer": records.gives_one_answer(predicted),
        **records.read_provenance(store, run),
        "delta_bytes": records.delta_bytes(store, run),
        "record": str(store / run),
        "spec": _with_lists_as_json(of_spec),
    }


def _with_lists_as_json(value: Any) -> Any:
    """Return the value with each list as JSON, since a cell of a table holds one value."""
    if isinstance(value, Mapping):
        return {name: _with_lists_as_json(inner) for name, inner in value.items()}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
