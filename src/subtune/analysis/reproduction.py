"""Every score that a paper prints, beside ours."""

import pandas as pd

from subtune.analysis.scores import averages, whole_methods
from subtune.papers.printed import AVERAGE, averaged_tasks


def reproduction(chosen: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Printed scores with ours and the difference; empty where we have not run the cell, or it
    diverged.

    Where none of our models is the paper's, and we have a single one, its scores stand there.

    Args:
        chosen: the runs of the best learning rates.
        printed: a paper's scores, from `subtune.papers.printed.scores`.

    Returns:
        The columns of ``printed`` with ``value`` as ``reported``, and ``our_model``, ``seeds``,
        ``ours`` (mean over seeds), ``standard_deviation`` (of several seeds), ``difference``
        (ours minus reported). Scores of test sets and of other papers' methods have none of ours;
        an average has one where we have run all the tasks that it is over.
    """
    whole = whole_methods(chosen).dropna(subset=["value"])
    means = averages(whole, averaged_tasks(printed)).assign(column=AVERAGE, is_average=True)
    keys = ["model", "method", "column", "is_average"]
    groups = pd.concat([whole.assign(is_average=False), means]).groupby(keys)["value"]
    ours = groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
    models = list(whole["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known.where(table["split"] == "validation"))
    table = table.merge(
        ours.rename(columns={"model": "our_model", "column": "task"}),
        on=["our_model", "method", "task", "is_average"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.drop(columns="is_average").astype({"seeds": "Int64"})
