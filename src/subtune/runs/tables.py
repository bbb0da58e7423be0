"""Runs that were planned, and what they became; the list of all records."""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.methods.names import builtin_name, masked_name
from subtune.runs import records
from subtune.runs.spec import RunSpec


def with_runs(
    planned: Sequence[Mapping[str, Any]], sweeps: Iterable[Path], searches: Iterable[Path]
) -> list[dict[str, Any]]:
    """Return the planned runs that are in the tables of finished sweeps.

    Args:
        planned: one mapping per run: `PlannedRun.columns`.
        sweeps: the tables of sweeps.
        searches: the files of the runs' searches.

    Returns:
        The mappings of these runs from ``planned``, with the run's id as ``run``. If a search found
        the run's ``learning_rate``, ``tried`` has each rate of the search.
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


def given_names(results: str) -> dict[str, tuple[str, str]]:
    """Return the names of model and method that configurations gave to each run in the results."""
    names: dict[str, tuple[str, str]] = {}
    for path in sorted(Path(results).glob(Layout(".").data("*", "scores"))):
        # Names only help readers, so a damaged file is skipped.
        with contextlib.suppress(OSError, ValueError, KeyError):
            scores = pd.read_csv(path, dtype={"run": str}, keep_default_na=False)
            for row in scores.to_dict("records"):
                method = masked_name(row["method"], float(row["fraction"]), row["scope"] or None)
                names.setdefault(row["run"], (row["model"], method))
    return names


def recorded_runs(
    store: Path, names: Mapping[str, tuple[str, str]]
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row per recorded run, and a line for each record that cannot be read.

    The columns are those of `row_of_record`. Rows are ordered by task, method, learning rate and
    seed.

    Args:
        store: the directory of run records.
        names: names of model and method by run, from `given_names`.
    """
    rows, problems, earlier = [], [], 0
    for run in records.all_runs(store):
        try:
            rows.append(row_of_record(store, run, names))
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


def row_of_record(store: Path, run: str, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the settings, score and size of a recorded run.

    ``score`` is the task's first metric on its first evaluation split, at the best epoch.

    Args:
        store: the directory of run records.
        run: the run's id.
        names: names of model and method by run, from `given_names`. A method without a name is
            shown as its selection.
    """
    spec = records.read_spec(store, run)
    model, method = _given_names_of(store, spec, names) or (
        spec.model.repository or f"local {spec.model.version[:8]}",
        builtin_name(spec.selection) or spec.selection.describe(),
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


def _given_names_of(
    store: Path, spec: RunSpec, names: Mapping[str, tuple[str, str]]
) -> tuple[str, str] | None:
    """Return a run's names of model and method; a refit has those of the folds' runs."""
    if (epochs := spec.recipe.refit) is None:
        return names.get(spec.id)
    for run, given in names.items():
        with contextlib.suppress(SubtuneError):
            other = records.read_spec(store, run)
            if other.recipe.fold and other.replaced(seed=spec.seed).refitted(epochs) == spec:
                return given
    return None
