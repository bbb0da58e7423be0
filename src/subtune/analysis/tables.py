"""Tables of runs: their files, the declarations of their columns, and the table of all runs.

`columns.csv` has a row per column of these tables, in the table's order:

* ``runs``: the table of all runs, which is `runs.csv`; `subtune runs` lists some of its columns
* ``scores``: the scores of an experiment's runs, from `subtune.analysis.run_scores`; exhibits call
  such tables ``scores``, ``chosen``, ``sizes`` and ``test_scores``
* ``summary``: from `subtune.analysis.candidates.summary`
* ``answers``: from `subtune.exhibits.answer_tables.answers_table`

A column's name may be a pattern, such as ``versions.*``.
"""

import contextlib
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from subtune.analysis.chosen_runs import verdict
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, read_package_text
from subtune.methods import builtin_names, masked_name
from subtune.runs import records
from subtune.runs.learning_rates import read_searches
from subtune.runs.spec import RunSpec

TableName = Literal["runs", "scores", "summary", "answers"]
# The type of pandas for each type in the file.
DTYPES = {
    "text": "str",
    "boolean": "bool",
    "integer": "int64",
    "optional integer": "Int64",
    "number": "float64",
    "list of integers": "object",
    "list of numbers": "object",
}


@cache
def _read_columns() -> pd.DataFrame:
    text = read_package_text("subtune.analysis", "columns.csv")
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def columns_of(name: TableName) -> pd.DataFrame:
    """Return the declarations of a table's columns, in the table's order: rows of `columns.csv`."""
    columns = _read_columns()
    return columns[columns["table"] == name]


def _types_of(name: TableName) -> dict[str, str]:
    """Return the type of pandas of each of a table's columns."""
    declarations = columns_of(name)
    return dict(zip(declarations["column"], declarations["type"].map(DTYPES), strict=True))


def order_columns(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Return a table with its columns in the order of the declarations.

    Raises:
        SubtuneError: a column is not declared.
    """
    patterns = columns_of(name)["column"]
    ordered = [column for pattern in patterns for column in table if fnmatch(column, pattern)]
    if unknown := sorted(set(table) - set(ordered)):
        raise SubtuneError(
            f"analysis/columns.csv: found no row of {name} for {', '.join(unknown)}, expected a "
            "row with type, unit and meaning for each column"
        )
    return table[ordered]


def set_types(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Return a table whose numbers, which may all be missing, have the declared types."""
    types = _types_of(name)
    numbers = [column for column in table if types.get(column) in ("Int64", "float64")]
    return table.astype({column: types[column] for column in numbers})


def read_table(path: str | Path, name: TableName | None = None) -> pd.DataFrame:
    """Return a table from its file: Parquet, or a CSV file that people open.

    Args:
        path: the file. A model or task in it may be called ``NA``.
        name: the declared table, if it is one. Parquet needs no declared types.
    """
    if Path(path).suffix == ".parquet":
        return pd.read_parquet(path)
    dtypes = {"run": "str"} | (_types_of(name) if name else {})
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dtypes)


def find_numbers(results: str | Path, name: str) -> list[Path]:
    """Return the file of a table of numbers of each experiment in the results."""
    own = sorted(Path(results).glob(Layout(".").data("*", name)))
    # Version 0.1.0 wrote CSV beside the exhibits.
    return own or sorted(Path(results).glob(f"experiments/*/data/{name}.csv"))


# The columns that `subtune runs` lists, and their headings.
LISTED = {
    **{name: name for name in ("run", "model", "task", "method", "train_rows", "learning_rate")},
    "spec.recipe.batch_size": "batch_size",
    "spec.recipe.epochs": "epochs",
    **{name: name for name in ("seed", "metric", "score", "best_epoch", "diverged")},
    "trainable": "trained",
    "delta_bytes": "delta_bytes",
}


def join_run_ids(
    planned: Sequence[Mapping[str, Any]],
    sweeps: Iterable[str | Path],
    searches: Iterable[str | Path],
) -> list[dict[str, Any]]:
    """Return the planned runs that are in the tables of finished sweeps.

    Args:
        planned: one mapping per run: `subtune.runs.spec.PlannedRun.columns`.
        sweeps: the tables of sweeps.
        searches: the files of the runs' searches.

    Returns:
        The mappings of these runs from ``planned``, with the run's id as ``run``. If a search found
        the run's ``learning_rate``, ``tried`` has each rate of the search.
    """
    run_ids = {key: run for sweep in sweeps for key, run in records.read_sweep(sweep).items()}
    found = read_searches(searches)
    return [
        {**entry, "run": run_ids[entry["key"]], **found.get(entry["search"], {})}
        for entry in planned
        if entry["key"] in run_ids
    ]


def table_of_runs(store: Path, finished: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per finished run, in the order of the plan.

    Args:
        store: the directory of run records.
        finished: one mapping per run and experiment, from `join_run_ids`, with ``experiment`` and
            ``flops``.

    Raises:
        SubtuneError: a record is missing or cannot be read, or a column is not declared.
    """
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for entry in finished:
        by_run.setdefault(entry["run"], []).append(entry)
    rows = []
    for run_id, entries in by_run.items():
        first = {name: entries[0][name] for name in {*entries[0]} - {"experiment", "key", "tried"}}
        experiments = " ".join(dict.fromkeys(entry["experiment"] for entry in entries))
        rows.append({**first, "experiments": experiments, **read_row(store, run_id)})
    # A table's cell has one value, so a list is written as JSON.
    table = pd.json_normalize(rows).map(
        lambda cell: json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell
    )
    table = order_columns(table, "runs")
    return table.astype({"best_epoch": "Int64", "fold": "Int64"})


def column_meanings(names: Sequence[str]) -> pd.DataFrame:
    """Return ``column`` and ``meaning`` for each of these columns of the table of runs."""
    declarations = columns_of("runs")
    rows = [
        (name, meaning)
        for name in names
        for pattern, meaning in zip(declarations["column"], declarations["meaning"], strict=True)
        if fnmatch(name, pattern)
    ]
    return pd.DataFrame(rows, columns=["column", "meaning"])


def list_runs(
    store: Path, names: Mapping[str, tuple[str, str]], chosen: Collection[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns `LISTED` of all records, and a line for each one that cannot be read.

    Rows are ordered by task, method, learning rate and seed. With ``chosen``, runs that only tried
    another learning rate come last.

    Args:
        store: the directory of run records.
        names: from `read_given_names`.
        chosen: from `read_chosen_ids`.
    """
    rows, problems, earlier = [], [], 0
    for run_id in records.list_run_ids(store):
        try:
            spec = records.read_spec(store, run_id)
            about = {"train_rows": str(spec.recipe.train_rows or "all")}
            tried = bool(chosen) and run_id not in chosen and not find_folds(store, spec, chosen)
            about |= names_of_run(store, spec, names) | _short_row(store, spec)
            rows.append(about | {"tried": tried})
        except records.EarlierVersionError:
            earlier += 1
        except SubtuneError as error:
            problems.append(str(error))
    if earlier:
        problems.append(f"{store}: {earlier:,} record(s) of an earlier version are left out")
    if not rows:
        return pd.DataFrame(), problems
    # A regression on embeddings has neither steps nor epochs.
    table = pd.json_normalize(rows).reindex(columns=[*LISTED, "tried"]).rename(columns=LISTED)
    table = table.astype(dict.fromkeys(("batch_size", "epochs", "best_epoch"), "Int64"))
    order = ["tried", "task", "method", "learning_rate", "seed"]
    return table.sort_values(order, ignore_index=True).drop(columns="tried"), problems


def read_row(store: Path, run_id: str) -> dict[str, Any]:
    """Return the columns of a run's row that its record gives; nested names are joined by dots."""
    spec = records.read_spec(store, run_id)
    row, split = _short_row(store, spec), spec.tokens.data.task.evaluation[0]
    history, predicted = records.read_epochs(store, run_id), records.read_predictions(store, run_id)
    curve = None
    if not row["diverged"]:
        rows = records.count_rows(predicted, split)
        curve = verdict([[epoch[f"{split}/{row['metric']}"] for epoch in history]], rows)
    return {
        **row,
        "curve": curve,
        "epochs_trained": len(history),
        "train_loss": history[-1]["train_loss"],
        "seconds": records.total_seconds(history),
        "one_answer": records.gives_one_answer(predicted),
        **records.read_provenance(store, run_id),
    }


def _short_row(store: Path, spec: RunSpec) -> dict[str, Any]:
    """Return the columns that a run's spec and scores give; they are read in a millisecond."""
    outcome, task = records.read_outcome(store, spec.id), spec.tokens.data.task
    metric, scores = task.metrics[0], outcome["scores"].get(task.evaluation[0], {})
    fields = spec.model_dump(mode="json") | {"selection": spec.selection.canonical()}
    return {
        "run": spec.id,
        "learning_rate": spec.recipe.learning_rate,
        "seed": spec.seed,
        "score": scores.get(metric, math.nan),
        "metric": metric,
        **outcome,
        "delta_bytes": records.delta_bytes(store, spec.id),
        "record": str(store / spec.id),
        "spec": fields,
    }


def read_given_names(results: str) -> dict[str, tuple[str, str]]:
    """Return the names of model and method that configurations gave to each run in the results."""
    names: dict[str, tuple[str, str]] = {}
    for path in find_numbers(results, "scores"):
        # Names only help readers, so a damaged file is skipped.
        with contextlib.suppress(OSError, ValueError, KeyError):
            scores = read_table(path).drop_duplicates("run")
            for row in scores.to_dict("records"):
                scope = None if pd.isna(row["scope"]) else row["scope"]
                method = masked_name(row["method"], float(row["fraction"]), scope)
                names.setdefault(row["run"], (row["model"], method))
    return names


def read_chosen_ids(results: str) -> set[str]:
    """Return the ids of the runs whose learning rate was chosen, in all finished experiments."""
    found = set()
    for path in find_numbers(results, "chosen"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found |= {*read_table(path)["run"]}
    return found


def names_of_run(
    store: Path, spec: RunSpec, names: Mapping[str, tuple[str, str]]
) -> dict[str, str]:
    """Return a run's ``model``, ``task`` and ``method``.

    Without given names, the method is shown as its selection. A refit has the names of its folds'
    runs.
    """
    given = names.get(spec.id)
    for run_id in find_folds(store, spec, names):
        given = names[run_id]
    model, method = given or (
        spec.model.repository or f"local {spec.model.version[:8]}",
        builtin_names().get(spec.selection) or spec.selection.describe(),
    )
    return {"model": model, "task": spec.tokens.data.task.name, "method": method}


def find_folds(store: Path, refit: RunSpec, run_ids: Iterable[str]) -> list[str]:
    """Return the runs on folds whose method a refit trains on all rows; other runs have none."""
    found: list[str] = []
    if epochs := refit.recipe.refit:
        for run_id in run_ids:
            # A damaged record is skipped.
            with contextlib.suppress(SubtuneError):
                fold = records.read_spec(store, run_id).replaced(seed=refit.seed)
                if fold.recipe.fold and fold.make_refit(epochs) == refit:
                    found.append(run_id)
    return found
