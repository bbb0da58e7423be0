"""The scores that the papers print, as data."""

from importlib import resources

import pandas as pd

from subtune.errors import SubtuneError

SCORES = "scores.csv"


def table(name: str) -> pd.DataFrame:
    """One of the files in ``resources/reported``, as text and numbers."""
    path = resources.files("subtune") / "resources" / "reported" / name
    if not path.is_file():
        raise SubtuneError(f"no printed scores {name!r} in this package")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


def scores(source: str, exhibit: str) -> pd.DataFrame:
    """Printed scores of one table, on the scale 0–1.

    Columns: ``method``, ``params``, ``task`` (``mnli_matched`` and ``mnli_mismatched`` apart),
    ``metric``, ``value``.
    """
    rows = table(SCORES)
    rows = rows[(rows["source"] == source) & (rows["exhibit"] == exhibit)].copy()
    rows["value"] = rows["value"] / rows["scale"]
    return rows[["method", "params", "task", "metric", "value"]].reset_index(drop=True)
