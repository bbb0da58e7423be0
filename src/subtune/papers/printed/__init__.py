"""The numbers that the papers print: a folder for each paper, with a CSV file per table."""

from collections.abc import Collection
from importlib import resources

import pandas as pd

# The metric of a mean over tasks.
AVERAGE = "average"
SCORES = ["exhibit", "model", "split", "method", "params", "task", "metric", "value", "scale"]
COUNTS = ["model", "method", "printed"]


def table(paper: str, name: str) -> pd.DataFrame:
    """One of a paper's tables, as text and numbers.

    Raises:
        FileNotFoundError: the paper has no such table.
    """
    path = resources.files(__name__) / paper / f"{name}.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


def _table_if_there(paper: str, name: str, columns: Collection[str]) -> pd.DataFrame:
    there = (resources.files(__name__) / paper / f"{name}.csv").is_file()
    return table(paper, name) if paper and there else pd.DataFrame(columns=list(columns))


def scores(paper: str, exhibits: Collection[str] | None = None) -> pd.DataFrame:
    """Printed scores of a paper, or of some of its exhibits, on the scale 0–1.

    Returns:
        ``exhibit``, ``model``, ``split``, ``method`` (its name in `METHODS`, if any),
        ``params``, ``task`` (``mnli_matched`` and ``mnli_mismatched`` apart), ``metric``,
        ``value`` and ``is_average``, true of means over the paper's tasks.
    """
    rows = _table_if_there(paper, "scores", SCORES)
    if exhibits is not None:
        order = {exhibit: number for number, exhibit in enumerate(exhibits)}
        rows = rows[rows["exhibit"].isin(order)]
        rows = rows.sort_values("exhibit", key=lambda names: names.map(order), kind="stable")
    rows = rows.assign(
        value=rows["value"] / rows["scale"],
        # Additions are printed with a plus sign, and named here with a comma.
        method=rows["method"].astype(str).str.replace(" + ", ",", regex=False),
        is_average=rows["metric"] == AVERAGE,
    )
    return rows.drop(columns="scale").reset_index(drop=True)


def counts(paper: str) -> pd.DataFrame:
    """Printed numbers of trained parameters, as text: ``model``, ``method``, ``printed``."""
    return _table_if_there(paper, "parameter_counts", COUNTS)


def trained_parameters(paper: str) -> pd.DataFrame:
    """Printed numbers of trained parameters as numbers: ``model``, ``method``, ``trainable``.

    They are counts, or shares of the model where a paper prints no counts.
    """
    table = counts(paper)
    table = table[~table["printed"].astype(str).str.endswith("%")]
    if table.empty:
        rows = _table_if_there(paper, "scores", SCORES).rename(columns={"params": "printed"})
        table = rows[COUNTS].dropna().drop_duplicates(["model", "method"])
    return table.assign(trainable=table["printed"].map(_as_number)).drop(columns="printed")


def _as_number(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    number = text.replace(",", "")
    return float(number[:-1]) * 1e6 if number.endswith("M") else float(number)


def learning_rates(paper: str, name: str) -> pd.DataFrame:
    """A printed table of learning rates, a row each: ``task``, ``model``, ``learning_rate``."""
    wide = table(paper, name)
    rates = wide.melt(id_vars="task", var_name="model", value_name="learning_rate")
    return rates.astype({"learning_rate": float})


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """The tasks that a paper's averages are over; none where it prints no average."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())
