"""The scores that the papers print, as data."""

from importlib import resources

import pandas as pd

from subtune.errors import SubtuneError

SCORES = "scores.csv"
# The task under which papers print the mean over their tasks.
AVERAGE = "average"


def table(name: str) -> pd.DataFrame:
    """One of the files in ``resources/reported``, as text and numbers."""
    path = resources.files("subtune") / "resources" / "reported" / name
    if not path.is_file():
        raise SubtuneError(f"no printed scores {name!r} in this package")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


def scores(source: str, exhibit: str | None = None) -> pd.DataFrame:
    """Printed scores of a paper, or of one of its exhibits, on the scale 0–1.

    Columns: ``exhibit``, ``model``, ``split``, ``method`` (as `subtune.methods` names it, where it
    knows it), ``params``, ``task`` (``mnli_matched`` and ``mnli_mismatched`` apart; ``average``),
    ``metric``, ``value``.
    """
    rows = table(SCORES)
    rows = rows[rows["source"] == source]
    if exhibit is not None:
        rows = rows[rows["exhibit"] == exhibit]
    rows = rows.assign(
        value=rows["value"] / rows["scale"],
        # Additions are printed with a plus sign, and named here with a comma.
        method=rows["method"].str.replace(" + ", ",", regex=False),
    )
    columns = ["exhibit", "model", "split", "method", "params", "task", "metric", "value"]
    return rows[columns].reset_index(drop=True)


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """The tasks that a paper's averages are over; none where it prints no average."""
    tasks = list(printed["task"].unique())
    return [task for task in tasks if task != AVERAGE] if AVERAGE in tasks else []
