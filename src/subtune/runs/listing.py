"""Table of recorded runs: settings, scores and sizes."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.runs import records
from subtune.selections.methods import name_of, with_mask


def given_names(results: str) -> dict[str, tuple[str, str]]:
    """Return the names of model and method that configurations gave to each run in the results."""
    names: dict[str, tuple[str, str]] = {}
    layout = Layout(".")
    tables = [layout.data("*", "scores"), layout.refit(*"****")]
    for path in sorted(path for table in tables for path in Path(results).glob(table)):
        # Names only help readers: a damaged file is skipped.
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

    A run that a search found is left out, since the record of the search has the same. Rows are
    ordered by task, method, learning rate and seed.
    Columns: ``run``, ``model``, ``task``, ``method``, ``train_rows`` (a number or "all"),
    ``learning_rate``, ``batch_size``, ``epochs``, ``seed``, ``metric``, ``score`` (the task's first
    metric on its first evaluation split, at the best epoch), ``best_epoch``, ``diverged``,
    ``trained``, ``delta_bytes``. Without records the table has no columns. A method without a name
    is shown as its selection. ``names`` are those of `given_names`.
    """
    rows, problems = [], []
    runs = records.all_runs(store)
    found = {searched for run in runs if (searched := _run_found(store, run))}
    for run in [run for run in runs if run not in found]:
        try:
            rows.append(row(store, run, names.get(run)))
        except SubtuneError as error:
            problems.append(str(error))
    if not rows:
        return pd.DataFrame(), problems
    order = ["task", "method", "learning_rate", "seed"]
    table = pd.DataFrame(rows).astype(
        dict.fromkeys(("batch_size", "epochs", "best_epoch"), "Int64")
    )
    return table.sort_values(order, ignore_index=True), problems


def _run_found(store: Path, run: str) -> str | None:
    """Return the run that a search found; None if the run searched nothing."""
    with contextlib.suppress(SubtuneError):
        if (store / run / "search.csv").is_file():
            rate = records.read_outcome(store, run)["learning_rate"]
            return records.read_spec(store, run).at(rate).id
    return None


def row(store: Path, run: str, given: tuple[str, str] | None) -> dict[str, Any]:
    """Return a recorded run's row; ``given`` are its names of model and method, if it has some."""
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
        "learning_rate": outcome.get("learning_rate", spec.recipe.learning_rate),
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
