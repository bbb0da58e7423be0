"""Scores that a paper prints, and ours beside them."""

from collections.abc import Collection, Sequence

import pandas as pd

from subtune.analysis.scores import whole_methods

# The metric of a mean over tasks.
AVERAGE = "average"


def exhibit_scores(printed: pd.DataFrame, exhibits: Collection[str]) -> pd.DataFrame:
    """Return the printed scores of some exhibits of a paper, in the exhibits' order."""
    parts = [printed[printed["exhibit"] == exhibit] for exhibit in exhibits]
    return pd.concat([printed[:0], *parts], ignore_index=True)


def averaged_tasks(printed: pd.DataFrame) -> list[str]:
    """Return the tasks of a paper's averages; an empty list if it prints none."""
    if not printed["is_average"].any():
        return []
    return list(printed.loc[~printed["is_average"], "task"].unique())


def averages(scores: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return each seed's mean over columns, without models, methods and seeds that lack a column.

    Returns:
        ``model``, ``method``, ``seed``, ``value``, missing if the method diverged on a column.
    """
    seeds = scores[scores["column"].isin(columns)].groupby(["model", "method", "seed"])["value"]
    means = pd.DataFrame({"value": seeds.mean(skipna=False), "columns": seeds.size()})
    whole = means[means["columns"] == len(columns)]
    return whole.drop(columns="columns").reset_index()


def reproduction(
    chosen: pd.DataFrame, printed: pd.DataFrame, test_scores: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return printed scores with ours and the difference.

    Ours are missing if we have not run the cell, or the run diverged. If our only model is not one
    of the paper's, its scores are used for all of them.

    Args:
        test_scores: as ``chosen``, with the scores that the GLUE server returned.

    Returns:
        The columns of ``printed`` with ``value`` as ``reported``, and ``our_model``, ``seeds``,
        ``ours`` (mean over seeds), ``standard_deviation`` (of several seeds), ``difference`` (ours
        minus reported). A printed average has ours beside it if we have run all its tasks.
    """
    splits = {"validation": chosen} | ({} if test_scores is None else {"test": test_scores})
    ours = pd.concat(
        [_our_means(scores, printed).assign(split=split) for split, scores in splits.items()]
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


def _our_means(scores: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return our scores by model, method and column, and their averages over a paper's tasks."""
    whole = whole_methods(scores).dropna(subset=["value"])
    means = averages(whole, averaged_tasks(printed)).assign(column=AVERAGE, is_average=True)
    groups = pd.concat([whole.assign(is_average=False), means])
    groups = groups.groupby(["model", "method", "column", "is_average"])["value"]
    return groups.agg(ours="mean", standard_deviation="std", seeds="size").reset_index()
