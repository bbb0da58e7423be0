"""Read tables of runs, declare their columns, and build the table of all runs.

``columns.csv`` declares the columns of the tables ``runs``, ``scores`` (also of ``chosen``,
``sizes`` and ``test_scores``), ``summary`` and ``answers``, in the order in which they are written.
A declared name may be a pattern, such as ``versions.*``.
"""

import contextlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from subtune.analysis.chosen_runs import curve_verdict
from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, read_package_text
from subtune.methods import builtin_names, masked_name
from subtune.runs import records
from subtune.runs.spec import RunSpec
from subtune.tasks.metrics import is_scorer

TableName = Literal["runs", "scores", "summary", "answers"]
# Maps each type in `columns.csv` to a dtype of pandas.
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
def column_declarations(name: TableName) -> pd.DataFrame:
    """Return the rows of ``columns.csv`` for one table."""
    text = read_package_text("subtune.analysis", "columns.csv")
    columns = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    return columns[columns["table"] == name]


def _column_dtypes(name: TableName) -> dict[str, str]:
    declarations = column_declarations(name)
    return dict(zip(declarations["column"], declarations["type"].map(DTYPES), strict=True))


def order_columns(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Order columns as in ``columns.csv``. An undeclared column raises a `SubtuneError`."""
    patterns = column_declarations(name)["column"]
    ordered = [column for pattern in patterns for column in table if fnmatch(column, pattern)]
    if unknown := sorted(set(table) - set(ordered)):
        raise SubtuneError(
            f"analysis/columns.csv: no row declares {', '.join(unknown)} of the table {name}, "
            "expected one row per column, with its type, unit and meaning"
        )
    return table[ordered]


def set_types(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Convert numeric columns to their declared types; pandas infers types only from values."""
    types = _column_dtypes(name)
    numbers = [column for column in table if types.get(column) in ("Int64", "float64")]
    return table.astype({column: types[column] for column in numbers})


def read_table(path: str | Path, name: TableName | None = None) -> pd.DataFrame:
    """Read a table from a Parquet or CSV file.

    The string ``NA`` is not read as a missing value, because it may be the name of a model or task.
    For a CSV file, ``columns.csv`` declares the types of the table ``name``; otherwise pandas
    infers them.
    """
    if Path(path).suffix == ".parquet":
        return pd.read_parquet(path)
    dtypes = {"run": "str"} | (_column_dtypes(name) if name else {})
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dtypes)


def find_table_files(results: str | Path, name: str) -> list[Path]:
    """Find the files of a table in the results directory, one per experiment."""
    return sorted(Path(results).glob(Layout(".").data("*", name)))


# Values of planned runs that the table of runs does not contain.
NOT_IN_ROWS = {"experiment", "key", "tried", "planned", "partition"}
# Maps the columns that `subtune runs` lists to their headings.
LISTED = {
    **{name: name for name in ("run", "model", "task", "method", "train_rows", "learning_rate")},
    "spec.recipe.batch_size": "batch_size",
    "spec.recipe.epochs": "epochs",
    "spec.recipe.fold.number": "fold",
    **{name: name for name in ("seed", "metric", "score", "best_epoch", "diverged")},
    "trainable": "trained",
    "delta_bytes": "delta_bytes",
}


def table_of_runs(store: Path, finished: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Build the table of all finished runs, in the order of the plan.

    ``finished`` has one mapping per run and experiment, from
    `subtune.runs.learning_rates.join_recorded_runs`, with ``experiment`` and ``flops``. A
    `SubtuneError` is raised for damaged records and undeclared columns.
    """
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for entry in finished:
        by_run.setdefault(entry["run"], []).append(entry)
    rows = []
    for run_id, entries in by_run.items():
        first = {name: cell for name, cell in entries[0].items() if name not in NOT_IN_ROWS}
        experiments = " ".join(dict.fromkeys(entry["experiment"] for entry in entries))
        rows.append({**first, "experiments": experiments, **read_row(store, run_id)})
    table = order_columns(write_lists_as_json(pd.json_normalize(rows)), "runs")
    return table.astype({"best_epoch": "Int64", "fold": "Int64"})


def write_lists_as_json(table: pd.DataFrame) -> pd.DataFrame:
    """Convert lists and dicts to JSON, because a cell of a CSV file has one value."""
    return table.map(
        lambda cell: json.dumps(cell, ensure_ascii=False) if isinstance(cell, list | dict) else cell
    )


def column_meanings(names: Sequence[str]) -> pd.DataFrame:
    """Look up the ``meaning`` of each ``column`` of the table of runs."""
    declarations = column_declarations("runs")
    meanings = dict(zip(declarations["column"], declarations["meaning"], strict=True))
    rows = [(name, meanings[p]) for name in names for p in meanings if fnmatch(name, p)]
    return pd.DataFrame(rows, columns=["column", "meaning"])


def list_runs(layout: Layout) -> tuple[pd.DataFrame, list[str]]:
    """List all recorded runs for ``subtune runs``, and an error message for each damaged record.

    Runs are sorted by task, method, learning rate, seed and fold. If learning rates were chosen,
    runs with a rate that was not chosen come last.
    """
    names, chosen, rows, problems = read_model_and_method_names(layout.results), set(), [], []
    for path in find_table_files(layout.results, "chosen"):
        # A damaged file is skipped, because it only determines the order.
        with contextlib.suppress(OSError, ValueError, KeyError):
            chosen |= {*read_table(path)["run"]}
    store = Path(layout.records())
    for run_id in records.list_run_ids(store):
        try:
            spec = records.read_spec(store, run_id)
            row = {"train_rows": str(spec.recipe.train_rows or "all")}
            tried = bool(chosen) and run_id not in chosen and not find_folds(store, spec, chosen)
            row |= run_names(store, spec, names) | _read_short_row(store, spec)
            rows.append(row | {"tried": tried})
        except SubtuneError as error:
            problems.append(str(error))
    if not rows:
        return pd.DataFrame(), problems
    # A regression on embeddings has no batch size and no epochs.
    table = pd.json_normalize(rows).reindex(columns=[*LISTED, "tried"]).rename(columns=LISTED)
    table = table.astype(dict.fromkeys(("batch_size", "epochs", "fold", "best_epoch"), "Int64"))
    order = ["tried", "task", "method", "learning_rate", "seed", "fold"]
    return table.sort_values(order, ignore_index=True).drop(columns="tried"), problems


def read_row(store: Path, run_id: str) -> dict[str, Any]:
    """Read a run's row for the table of runs. The values may be nested mappings."""
    spec = records.read_spec(store, run_id)
    row, split = _read_short_row(store, spec), spec.tokens.data.task.evaluation[0]
    history = records.read_epochs(store, run_id)
    predicted = records.read_recorded_predictions(store, run_id)
    curve = None
    # A scorer has a unit of its own, in which the noise of one seed is unknown.
    if not row["diverged"] and not is_scorer(row["metric"]):
        rows = records.count_examples(predicted, split)
        scores = [epoch[f"{split}/{row['metric']}"] for epoch in history]
        curve = curve_verdict([scores], rows)
    return {
        **row,
        "curve": curve,
        "epochs_trained": len(history),
        "train_loss": history[-1]["train_loss"],
        "seconds": records.total_seconds(history),
        "one_answer": records.has_constant_predictions(predicted),
        **records.read_provenance(store, run_id),
    }


def _read_short_row(store: Path, spec: RunSpec) -> dict[str, Any]:
    """Read the part of a run's row that is fast to read: the run's spec and scores."""
    outcome, task = records.read_outcome(store, spec.id), spec.tokens.data.task
    fields = spec.model_dump(mode="json") | {"selection": spec.selection.canonical()}
    return {
        "run": spec.id,
        "learning_rate": spec.recipe.learning_rate,
        "seed": spec.seed,
        "score": records.first_score(outcome, task),
        "metric": task.metrics[0],
        **outcome,
        "delta_bytes": records.delta_bytes(store, spec.id),
        "record": str(store / spec.id),
        "spec": fields,
    }


def read_model_and_method_names(results: str) -> dict[str, tuple[str, str]]:
    """Map each run's id to the names that its model and method have in the configuration."""
    names: dict[str, tuple[str, str]] = {}
    for path in find_table_files(results, "scores"):
        # A damaged file is skipped, because names only make the list easier to read.
        with contextlib.suppress(OSError, ValueError, KeyError):
            scores = read_table(path).drop_duplicates("run")
            for row in scores.to_dict("records"):
                scope = None if pd.isna(row["scope"]) else row["scope"]
                method = masked_name(row["method"], float(row["fraction"]), scope)
                names.setdefault(row["run"], (row["model"], method))
    return names


def run_names(store: Path, spec: RunSpec, names: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a run's ``model``, ``task`` and ``method``, from `read_model_and_method_names`.

    A refit has the names of the cross-validation runs that it repeats. If ``names`` lacks the run,
    the model's repository and a description of the selection are returned.
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
    """Find the cross-validation runs that a refit repeats on the whole training set.

    If none of them was trained on folds of the refit's training set, runs on folds of a sample of
    it are returned. With several samples, these are the runs of the sample with the most runs.
    """
    found = defaultdict[str, list[str]](list)
    if epochs := refit.recipe.refit:
        data = refit.tokens.data
        for run_id in run_ids:
            # A damaged record is skipped.
            with contextlib.suppress(SubtuneError):
                fold = records.read_spec(store, run_id).replace(seed=refit.seed)
                sample = fold.tokens.data
                same = sample.replace(version=data.version, splits=data.splits)
                made = fold.make_refit(epochs).replace(tokens=fold.tokens.replace(data=same))
                if fold.recipe.fold and made == refit:
                    found[sample.version].append(run_id)
    return found[refit.tokens.data.version] or max(found.values(), key=len)
