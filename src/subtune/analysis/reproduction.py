"""Every score that a paper prints, beside ours."""

from collections.abc import Collection

import pandas as pd

from subtune.analysis.scores import averages, whole_methods

# The metric of a mean over tasks.
AVERAGE = "average"


def reproduction(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return printed scores with ours and the difference.

    Ours are empty where we have not run the cell, or the run diverged. If none of our models is the
    paper's and we have a single one, its scores are used.

    Args:
        printed: a paper's scores, from `subtune.papers.printed.scores`.
        test_scores: as ``chosen``, with the scores that the GLUE server returned.

    Returns:
        The columns of ``printed`` with ``value`` as ``reported``, and ``our_model``, ``seeds``,
        ``ours`` (mean over seeds), ``standard_deviation`` (of several seeds), ``difference``
        (ours minus reported). An average has one of ours if we have run all its tasks.
    """
    splits = {"validation": chosen} | ({} if test_scores is None else {"test": test_scores})
    ours = pd.concat(
        [_means(scores, printed).assign(split=split) for split, scores in splits.items()]
    )
    models = list(whole_methods(chosen)["model"].unique())
    table = printed.rename(columns={"value": "reported"})
    known = table["model"].where(table["model"].isin(models))
    if known.isna().all() and len(models) == 1:
        known = pd.Series(models[0], index=table.index)
    table = table.assign(our_model=known).merge(
        ours.rename(columns={"model": "our_model", "column": "task"}),
        on=["split", "our_model", "method", "task", "is_average"],
        how="left",
    )
    table["our_model"] = table["our_model"].where(table["ours"].notna())
    table["difference"] = table["ours"] - table["reported"]
    return table.drop(columns="is_average").astype({"seeds": "Int64"})


def _means(scores: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return our scores by model, method and column, and their averages over a paper's tasks."""
    whole = whole_methods(scores).dropna(subset=["value"])
    of_split = averages(whole, averaged_tasks(printed)).assign(column=AVERAGE, is_average=True)
    groups = pd.concat([whole.assign(is_average=False), of_split])
    groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
    return groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """Return the tasks of a paper's averages; none if it prints no average."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def of_exhibits(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Return the printed scores of some of a paper's exhibits, in the order of these."""
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)
