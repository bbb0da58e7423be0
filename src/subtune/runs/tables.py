"""Tables of runs, and verdicts on their learning curves."""

import contextlib
import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout, path_of
from subtune.runs import records
from subtune.selections.methods import name_of, with_mask

# Meanings by pattern of column names, in the table's order.
_TEXT = path_of("subtune.runs", "columns.csv").read_text(encoding="utf-8")
COLUMNS = {row["column"]: row["meaning"] for row in csv.DictReader(_TEXT.splitlines())}
CONVERGED, STILL_RISING, FELL = "converged", "still rising", "fell"
FEWEST_SEEDS = 3
LEVEL = 0.95


def table_of_runs(store: Path, planned: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per planned run, in the order of the plan. `meanings` explains its columns.

    Args:
        store: the directory of run records.
        planned: one mapping per run and experiment, from `with_runs`, with ``experiment`` and
            ``flops``.

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


def with_runs(
    planned: Sequence[Mapping[str, Any]], sweeps: Iterable[Path], searches: Iterable[Path]
) -> list[dict[str, Any]]:
    """Return the planned runs that are in the tables of finished sweeps.

    Args:
        planned: one mapping per run: `subtune.planning.plan.Planned.facts`.
        sweeps: the tables of sweeps.
        searches: the files of the runs' searches.

    Returns:
        The mappings, with the ``run`` that each became. If a search found its ``learning_rate``,
        ``tried`` has each rate of the search.
    """
    runs = {key: run for sweep in sweeps for key, run in records.runs_of_sweep(sweep).items()}
    found = read_searches(searches)
    return [
        {**entry, "run": runs[entry["key"]], **found.get(entry["search"], {})}
        for entry in planned
        if entry["key"] in runs
    ]


def read_searches(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Return what each search found (`subtune.runs.search.outcome`), by id."""
    return {id: found for path in paths for id, found in json.loads(path.read_text()).items()}


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


def verdict(curves: Sequence[Sequence[float]], rows: int) -> str | None:
    """Return the verdict on the mean curve of a method's seeds, or None for a single epoch.

    *Still rising*: the last epoch is the best, and the score has risen over the last third of the
    epochs. *Fell*: the best epoch is before the last third, and the score has fallen since.
    *Converged*: neither. A change counts if it exceeds its noise. From `FEWEST_SEEDS` seeds on, its
    95 % interval (Student's, over seeds) must then exclude 0. With fewer seeds, noise is the
    standard error of an accuracy of 0.5 on ``rows`` rows.

    Args:
        curves: the score of each epoch, by seed. Curves of different lengths are aligned at their
            last epochs, and earlier epochs that a curve lacks are left out.
        rows: the number of rows that are scored.
    """
    epochs = min(map(len, curves))
    if epochs < 2:
        return None
    scores = np.array([curve[-epochs:] for curve in curves])
    third = max(1, epochs // 3)
    best, last = int(scores.mean(0).argmax()), scores[:, -1]
    if best == epochs - 1 and _exceeds_noise(last - scores[:, -1 - third], rows):
        return STILL_RISING
    if best < epochs - third and _exceeds_noise(scores[:, best] - last, rows):
        return FELL
    return CONVERGED


def _exceeds_noise(changes: np.ndarray, rows: int) -> bool:
    """Return whether the mean change is more than noise; ``changes`` has one number per seed."""
    noise = 0.5 / math.sqrt(rows)
    if len(changes) >= FEWEST_SEEDS:
        # Importing scipy takes long.
        from scipy import stats

        noise = stats.t.ppf((1 + LEVEL) / 2, len(changes) - 1) * stats.sem(changes)
    return bool(changes.mean() > noise)


def given_names(results: str) -> dict[str, tuple[str, str]]:
    """Return the names of model and method that configurations gave to each run in the results."""
    names: dict[str, tuple[str, str]] = {}
    layout = Layout(".")
    tables = [layout.data("*", "scores"), layout.refit(*"****")]
    for path in sorted(path for table in tables for path in Path(results).glob(table)):
        # Names only help readers, so a damaged file is skipped.
        with contextlib.suppress(OSError, ValueError, KeyError):
            scores = pd.read_csv(path, dtype={"run": str}, keep_default_na=False)
            for row in scores.to_dict("records"):
                method = with_mask(row["method"], float(row["fraction"]), row["scope"] or None)
                names.setdefault(row["run"], (row["model"], method))
    return names


def recorded_runs(
    store: Path, names: Mapping[str, tuple[str, str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per recorded run, and a line for each record that cannot be read.

    The columns are those of `row_of_record`; without records there are none. Rows are ordered by
    task, method, learning rate and seed. ``names`` come from `given_names`.
    """
    rows, problems, earlier = [], [], 0
    for run in records.all_runs(store):
        try:
            rows.append(row_of_record(store, run, names.get(run)))
        except records.EarlierVersionError:
            earlier += 1
        except SubtuneError as error:
            problems.append(str(error))
    if earlier:
        problems.append(f"{store}: {earlier:,} record(s) of an earlier version are left out")
    if not rows:
        return pd.DataFrame(), problems
    order = ["task", "method", "learning_rate", "seed"]
    integers = dict.fromkeys(("batch_size", "epochs", "best_epoch"), "Int64")
    return pd.DataFrame(rows).astype(integers).sort_values(order, ignore_index=True), problems


def row_of_record(store: Path, run: str, given: tuple[str, str] | None) -> dict[str, Any]:
    """Return a recorded run's row; ``given`` has its names of model and method, if any.

    ``train_rows`` is a number or "all"; ``score`` is the task's first metric on its first
    evaluation split, at the best epoch; a method without a name is shown as its selection.
    """
    spec = records.read_spec(store, run)
    model, method = given or (
        spec.model.repository or f"local {spec.model.version[:8]}",
        name_of(spec.selection) or spec.selection.in_words(),
    )
    outcome = records.read_outcome(store, run)
    task = spec.tokens.data.task
    return {
        "run": run,
        "model": model,
        "task": task.name,
        "method": method,
        "train_rows": str(spec.recipe.train_rows or "all"),
        "learning_rate": spec.recipe.learning_rate,
        # A regression on embeddings has neither steps nor epochs.
        **{name: spec.recipe.model_dump().get(name) for name in ("batch_size", "epochs")},
        "seed": spec.seed,
        "metric": task.metrics[0],
        "score": outcome["scores"].get(task.evaluation[0], {}).get(task.metrics[0]),
        "best_epoch": outcome["best_epoch"],
        "diverged": outcome["diverged"],
        "trained": outcome["trainable"],
        "delta_bytes": records.delta_bytes(store, run),
    }
