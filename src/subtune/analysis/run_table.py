"""The table of all runs, `runs.csv`, and the meanings of its columns."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.columns import columns_of, declared
from subtune.analysis.curves import verdict
from subtune.runs import records


def table_of_runs(store: Path, planned: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per planned run, in the order of the plan.

    `columns.csv` declares the columns, and has their order.

    Args:
        store: the directory of run records.
        planned: one mapping per run and experiment, from `subtune.runs.tables.with_runs`, with
            ``experiment`` and ``flops``.

    Raises:
        SubtuneError: a record is missing or cannot be read, or a column is not declared.
    """
    users: dict[str, list[Mapping[str, Any]]] = {}
    for entry in planned:
        users.setdefault(entry["run"], []).append(entry)
    rows = [_row(store, run, entries) for run, entries in users.items()]
    table = declared(pd.json_normalize(rows), "runs")
    return table.astype({"best_epoch": "Int64", "fold": "Int64"})


def meanings(names: Sequence[str]) -> pd.DataFrame:
    """Return ``column`` and ``meaning`` for each of these columns of the table of all runs."""
    rows = [
        (name, column.meaning)
        for name in names
        for column in columns_of("runs")
        if fnmatch(name, column.column)
    ]
    return pd.DataFrame(rows, columns=["column", "meaning"])


def _row(store: Path, run: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one run's row; ``entries`` are the experiments' mappings of the run."""
    spec = records.read_spec(store, run)
    outcome = records.read_outcome(store, run)
    history = records.read_epochs(store, run)
    task = spec.tokens.data.task
    split, metric = task.evaluation[0], task.metrics[0]
    predicted, curve = records.read_predictions(store, run), None
    if not outcome["diverged"]:
        rows = records.number_of_rows(predicted, split)
        curve = verdict([[epoch[f"{split}/{metric}"] for epoch in history]], rows)
    others = ("experiment", "key", "tried")
    first = {name: value for name, value in entries[0].items() if name not in others}
    fields = spec.model_dump(mode="json") | {"selection": spec.selection.canonical()}
    return {
        **first,
        "experiments": " ".join(dict.fromkeys(entry["experiment"] for entry in entries)),
        "learning_rate": spec.recipe.learning_rate,
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
        "spec": _with_lists_as_json(fields),
    }


def _with_lists_as_json(value: Any) -> Any:
    """Return a value with lists as JSON, because a table's cell has one value."""
    if isinstance(value, Mapping):
        return {name: _with_lists_as_json(inner) for name, inner in value.items()}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
