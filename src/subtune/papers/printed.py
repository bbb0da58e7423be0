"""Numbers that the papers print: a CSV file per table, in ``printed`` of the paper's folder."""

import hashlib
from pathlib import Path

import pandas as pd

from subtune.analysis.comparisons import AVERAGE
from subtune.papers.paper import Paper

# Columns of the tables that every paper has, even if they are empty.
COUNTS = ["model", "method", "printed"]
COLUMNS = {
    "scores":
        ["exhibit", "model", "split", "method", "params", "task", "metric", "value", "scale"],
    "parameter_counts": COUNTS,
}  # fmt: skip


def folder_of(paper: str) -> Path:
    """Return the folder of a paper's printed numbers."""
    return Path(__file__).parent / paper / "printed"


def version(paper: str) -> str:
    """Return a hash of all numbers that a paper prints."""
    digest = hashlib.sha256()
    for path in sorted(folder_of(paper).glob("*.csv")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def table(paper: str, name: str) -> pd.DataFrame:
    """Return one of a paper's tables; scores as `scores`, numbers of parameters as text.

    Raises:
        FileNotFoundError: the paper has no such table.
    """
    return scores(paper) if name == "scores" else _read(paper, name)


def _read(paper: str, name: str) -> pd.DataFrame:
    path = folder_of(paper) / f"{name}.csv"
    if name in COLUMNS and not path.is_file():
        return pd.DataFrame(columns=COLUMNS[name])
    return pd.read_csv(path)


def scores(paper: str) -> pd.DataFrame:
    """Return the scores of a paper on the scale 0–1.

    Returns:
        ``exhibit``, ``model``, ``split``, ``method`` (its name in `METHODS`, if any),
        ``params``, ``task`` (``mnli_matched`` and ``mnli_mismatched`` apart), ``metric``,
        ``value`` and ``is_average`` (a mean over the paper's tasks).
    """
    rows = _read(paper, "scores")
    return rows.assign(
        value=rows["value"] / rows["scale"],
        # Papers print additions with a plus sign; here names have a comma.
        method=rows["method"].astype(str).str.replace(" + ", ",", regex=False),
        is_average=rows["metric"] == AVERAGE,
    ).drop(columns="scale")


def trained_parameters(paper: str) -> pd.DataFrame:
    """Return numbers of trained parameters: ``model``, ``method``, ``trainable``.

    Without printed counts they are shares of the model.
    """
    table = _read(paper, "parameter_counts")
    table = table[~table["printed"].astype(str).str.endswith("%")]
    if table.empty:
        rows = _read(paper, "scores").rename(columns={"params": "printed"})
        table = rows[COUNTS].dropna().drop_duplicates(["model", "method"])
    return table.assign(trainable=table["printed"].map(_as_number)).drop(columns="printed")


def _as_number(text: str) -> float:
    if text.endswith("%"):
        return float(text[:-1]) / 100
    number = text.replace(",", "")
    return float(number[:-1]) * 1e6 if number.endswith("M") else float(number)


def tables_like_ours(paper: Paper, *, averages: bool) -> dict[str, pd.DataFrame]:
    """Return a paper's numbers in the form of ours, by the names of our tables.

    Args:
        averages: return averages over tasks, not scores of single tasks.
    """
    scores = scores_like_ours(paper)
    wanted = scores[scores["is_average"] == averages]
    wanted = wanted.drop_duplicates(["split", "model", "method", "column"])
    return {
        "chosen": wanted[wanted["split"] == "validation"],
        "test_scores": wanted[wanted["split"] == "test"],
        "printed": scores,
        **{data: data_like_ours(paper, name) for data, name in paper.printed_data.items()},
    }


def scores_like_ours(paper: Paper) -> pd.DataFrame:
    """Return a paper's scores in the form of chosen runs, with their ``exhibit`` and ``split``."""
    rows = scores(paper.name).rename(columns={"task": "column"})
    name = rows["column"].str
    rows = rows.assign(
        task=name.split("_").str[0], decides=~name.endswith("_mismatched").astype(bool)
    ).assign(scope=None, fraction=1.0, seed=0)
    keys = ["model", "method"]
    rows = rows.merge(trained_parameters(paper.name), on=keys, how="left")
    rates = [
        table(paper.name, name)
        .melt("task", var_name="model", value_name="learning_rate")
        .assign(method=method)
        for method, name in paper.printed_learning_rates.items()
    ]
    if not rates:
        return rows
    printed_rates = pd.concat(rates).astype({"learning_rate": float})
    return rows.merge(printed_rates, on=[*keys, "task"], how="left")


def data_like_ours(paper: Paper, name: str) -> pd.DataFrame:
    """Return a printed table with each ``value`` as a ``share`` of the task's sum.

    Layers with a missing value are left out.
    """
    rows = table(paper.name, name)
    if "value" in rows:
        known = rows["value"].notna().groupby([rows["task"], rows["layer"]]).transform("all")
        rows = rows[known].rename(columns={"value": "share"})
        rows["share"] /= rows.groupby("task")["share"].transform("sum")
    return rows
