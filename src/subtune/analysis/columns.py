"""Declarations of the columns of tables: type, unit and meaning.

`columns.csv` has a row per column of these tables, in the table's order:

* ``runs``: the table of all runs, from `subtune.analysis.runs`
* ``scores``: the scores of an experiment's runs, from `subtune.analysis.scores`; exhibits call such
  tables ``scores``, ``chosen``, ``sizes`` and ``test_scores``
* ``summary``: from `subtune.analysis.summary.summary`
* ``answers``: from `subtune.exhibits.answer_tables.answers_table`

A column's name may be a pattern, such as ``versions.*``.
"""

import csv
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.core.files import Layout, package_file

TableName = Literal["runs", "scores", "summary", "answers"]
# The columns of the scores whose values together are one setting: all of it but the learning rate,
# the seed and the fold.
SETTING = ["model", "task", "method", "fraction", "scope", "train_rows"]
# The type of pandas for each type in the file.
DTYPES = {
    "text": "str",
    "boolean": "bool",
    "integer": "int64",
    "optional integer": "Int64",
    "number": "float64",
    "list of integers": "object",
}


class Column(NamedTuple):
    """A row of `columns.csv`."""

    table: str
    column: str
    type: str
    unit: str
    meaning: str


_TEXT = package_file("subtune.analysis", "columns.csv").read_text(encoding="utf-8")
COLUMNS = [Column(**row) for row in csv.DictReader(_TEXT.splitlines())]


def columns_of(name: TableName) -> list[Column]:
    """Return the declarations of a table's columns, in the table's order."""
    return [column for column in COLUMNS if column.table == name]


def declared(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Return a table with its columns in the order of the declarations.

    Raises:
        SubtuneError: a column is not declared.
    """
    patterns = [column.column for column in columns_of(name)]
    ordered = [column for pattern in patterns for column in table if fnmatch(column, pattern)]
    if unknown := sorted(set(table) - set(ordered)):
        raise SubtuneError(
            f"analysis/columns.csv: found no row of {name} for {', '.join(unknown)}, expected a "
            "row with type, unit and meaning for each column"
        )
    return table[ordered]


def set_types(table: pd.DataFrame, name: TableName) -> pd.DataFrame:
    """Return a table whose numbers, which may all be missing, have the declared types."""
    types = {column.column: DTYPES[column.type] for column in columns_of(name)}
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
    types = {column.column: DTYPES[column.type] for column in columns_of(name)} if name else {}
    dtypes = {"run": "str"} | types
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=dtypes)


def find_numbers(results: str | Path, name: str) -> list[Path]:
    """Return the file of a table of numbers of each experiment in the results."""
    own = sorted(Path(results).glob(Layout(".").data("*", name)))
    # Version 0.1.0 wrote CSV beside the exhibits.
    return own or sorted(Path(results).glob(f"experiments/*/data/{name}.csv"))
