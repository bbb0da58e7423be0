"""Every score that a paper prints, beside ours."""

import pandas as pd

from subtune.analysis.scores import methods_only
from subtune.reported import AVERAGE


def reproduction(chosen: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Printed scores with ours and the difference; empty where we have not run the cell.

    Where none of our models is the paper's, and we have a single one, its scores stand there.

    Args:
        chosen: the runs of the best learning rates.
        printed: a paper's scores, from `subtune.reported.scores`.

    Returns:
        The columns of ``printed`` with ``value`` as ``reported``, and ``our_model``, ``seeds``,
        ``ours`` (mean over seeds), ``standard_deviation`` (of several seeds), ``difference``
        (ours minus reported). Scores of test sets and of other papers' methods have none of ours.
    """
    own = methods_only(chosen)
    groups = own.groupby(["model", "method", "column"])["value"]
    ours = groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
    ours = pd.concat([ours, _averages(ours)], ignore_index=True)
    models = list(own["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known.where(table["split"] == "validation"))
    table = table.merge(
        ours.rename(columns={"model": "our_model", "column": "task"}),
        on=["our_model", "method", "task"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.astype({"seeds": "Int64"})


def _averages(ours: pd.DataFrame) -> pd.DataFrame:
    """A method's mean over all columns, where it has been run on all of them."""
    every = ours["column"].nunique()
    rows = []
    for (model, method), own in ours.groupby(["model", "method"]):
        if len(own) == every:
            rows.append((model, method, AVERAGE, own["ours"].mean(), own["seeds"].min()))
    return pd.DataFrame(rows, columns=["model", "method", "column", "ours", "seeds"])
