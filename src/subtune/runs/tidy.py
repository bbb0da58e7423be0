"""Every planned run as one row of a table, with all that is known of it, and what columns mean."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.runs import records

COLUMNS = {
    "run": "id: a hash of everything under `spec`",
    "experiments": "the experiments that use it",
    "model": "the model's name in the configuration",
    "task": "the task's name",
    "method": "the method's name; of a run of a fraction, the selection that it is a fraction of",
    "fraction": "the share of that selection that trains; empty for a whole method",
    "scope": "where the fraction's mask is from: individual, global or cv (all other tasks)",
    "learning_rate": "the highest that the schedule reaches",
    "seed": "of the classifier's weights, the order of rows, dropout and random selections",
    "score": "the task's first metric on its first evaluation split, at the best epoch",
    "metric": "the metric of `score`",
    "best_epoch": "the first epoch with the highest score, from 1",
    "epochs_trained": "how many epochs it trained",
    "diverged": "whether it ended early, with a loss that is not finite",
    "trainable": "how many parameters train, the classifier's with them",
    "train_loss": "mean over the examples of the last epoch",
    "seconds": "of training and evaluation: the run's share, where others trained beside it",
    "flops": "floating-point operations of training and evaluation, estimated (`subtune plan`)",
    "joules": "energy that the job used since it last recorded a run; empty where not readable. "
    "Of the whole device, so that sums over runs mean more than single runs",
    "device": "what it was trained on; empty for records that do not say so",
    "threads": "of the processor that trained it",
    "recorded": "when, in UTC",
    "commit": "of subtune's repository, with `-dirty` where files were changed",
    "delta_bytes": "size of the values that changed",
    "record": "the run's directory: learning curve, predictions, changes, values",
    "scores.*.*": "a score at the best epoch, by split and metric",
    "versions.*": "of Python and of the packages that trained it",
    "spec.model.*": "the pretrained model: where it is from, and which version",
    "spec.tokens.tokenizer": "id of the model that the tokenizer is of",
    "spec.tokens.max_length": "tokens at which a row is cut",
    "spec.tokens.data.source": "where the rows are from: hub, tsv, files or builtin",
    "spec.tokens.data.version": "of the rows: the hub's revision, or a hash of the files",
    "spec.tokens.data.task.*": "the task's definition: columns, labels, metrics, splits",
    "spec.selection": "which parameters train, as JSON",
    "spec.recipe.learning_rate": "as `learning_rate`",
    "spec.recipe.batch_size": "examples of a step",
    "spec.recipe.epochs": "epochs that were asked for",
    "spec.recipe.schedule": "constant, or linear to 0",
    "spec.recipe.warmup": "the share of steps over which the learning rate rises from 0",
    "spec.recipe.weight_decay": "of AdamW",
    "spec.recipe.max_grad_norm": "at which the gradient is clipped",
    "spec.recipe.precision": "fp32 or bf16",
    "spec.recipe.train_rows": "the first so many of the shuffled training rows; empty for all",
    "spec.seed": "as `seed`",
    "spec.recipe_version": "of the training code: the same spec gives the same numbers within one",
}


def table(store: Path, planned: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per run, in the order of the plan. `meaning` explains its columns.

    Args:
        store: where the run records are.
        planned: per run and experiment ``run``, ``experiment``, ``model``, ``task``, ``method``,
            ``fraction``, ``scope``, ``flops``.

    Raises:
        SubtuneError: a record is missing or cannot be read.
    """
    users: dict[str, list[Mapping[str, Any]]] = {}
    for entry in planned:
        users.setdefault(entry["run"], []).append(entry)
    rows = pd.json_normalize([_row(store, run, entries) for run, entries in users.items()])
    ordered = [column for pattern in COLUMNS for column in rows if fnmatch(column, pattern)]
    return rows[ordered]


def meaning(columns: Sequence[str]) -> pd.DataFrame:
    """The data dictionary of a table: ``column`` and ``meaning``."""
    rows = [(c, text) for c in columns for pattern, text in COLUMNS.items() if fnmatch(c, pattern)]
    return pd.DataFrame(rows, columns=["column", "meaning"])


def _row(store: Path, run: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    spec = records.read_spec(store, run)
    scores = records.read_scores(store, run)
    history = records.read_history(store, run)
    task = spec.tokens.data.task
    first = {name: value for name, value in entries[0].items() if name != "experiment"}
    return (
        first
        | {"experiments": " ".join(dict.fromkeys(entry["experiment"] for entry in entries))}
        | {"learning_rate": spec.recipe.learning_rate, "seed": spec.seed}
        | {"score": scores["scores"][task.evaluation[0]][task.metrics[0]]}
        | {"metric": task.metrics[0], "epochs_trained": len(history)}
        | {"train_loss": history["train_loss"].iloc[-1], "seconds": history["seconds"].sum()}
        | scores
        | records.read_provenance(store, run)
        | {"delta_bytes": records.delta_path(store, run).stat().st_size}
        | {"record": str(store / run)}
        | {"spec": _plain(spec.model_dump(mode="json") | {"selection": spec.selection.canonical()})}
    )


def _plain(value: Any) -> Any:
    """Lists as JSON: a cell of a table holds one value."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
