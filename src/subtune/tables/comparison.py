"""Scores of methods, task by task: ours, and below them the paper's."""

from collections.abc import Sequence

import pandas as pd

from subtune import reported
from subtune.analysis.scores import Column, averages, methods_only
from subtune.analysis.significance import wilcoxon
from subtune.reported import AVERAGE, averaged_tasks
from subtune.tables.writing import EMPTY, MARK, cell, title_of
from subtune.tasks import TASKS

DIFFERS = 0.05
NOTE = (
    f"{MARK} differs from Full over the tasks (Wilcoxon signed-rank test, p < {DIFFERS}, "
    "uncorrected). Best scores are bold."
)
# Methods that do not compete for the best score.
NOT_COMPETING = {"spafit": ["full"]}
# Rows that a paper prints from another one.
QUOTED = {("bitfit_plus", "full"): "Full (of the BitFit paper)"}


def comparison(
    chosen: pd.DataFrame,
    printed: pd.DataFrame,
    columns: Sequence[Column],
    source: str,
    data: str,
) -> pd.DataFrame:
    """One row per model and method, one column per task, and the average where the paper has one.

    Ours are the methods that the paper's exhibit has, of its models; where no model of ours is one
    of the paper's, of all our models. Methods that the paper has not are ours too. Where the
    paper's average is over tasks that we have not run, ours has a column of its own.

    Args:
        chosen: the runs of the best learning rates.
        printed: the exhibit, from `subtune.reported.scores`.
        columns: the tasks' columns.
        source: the paper.
        data: of which rows our scores are.
    """
    keys = [column.key for column in columns]
    averaged = averaged_tasks(printed)
    means = _means(averaged, keys)
    table = methods_only(chosen)
    known = set(printed["model"]) & set(table["model"])
    table = table[table["model"].isin(known or set(table["model"]))]
    table = table[table["method"].isin(_methods_of(printed, table, source))]
    rows = []
    for model, own in table.groupby("model", sort=False):
        counts = parameter_counts(own)
        for method in own["method"].drop_duplicates():
            scores = own[own["method"] == method]
            values = [scores.loc[scores["column"] == key, "value"] for key in keys]
            values += [averages(scores, over)["value"] for over in means.values()]
            rows.append(
                [f"this run: {model}, {data}", title_of(method), f"{counts[method]:,}"]
                + [f"{counts[method] / counts['full']:.3%}" if "full" in counts else EMPTY]
                + [cell(value) for value in values]
            )
    counts = reported.table("parameter_counts.csv")
    counts = counts[counts["source"] == source].set_index(["model", "method"])["printed"]
    several = printed["exhibit"].nunique() > 1
    groups = printed.groupby(["exhibit", "model", "split", "method"], sort=False)
    for (exhibit, model, split, method), own in groups:
        value = own.set_index("task")["value"]
        shown = keys + [AVERAGE if over == averaged else "" for over in means.values()]
        count = counts.get((model, method), EMPTY)
        share = own["params"].iloc[0]
        rows.append(
            [_paper(model, split, exhibit if several else "")]
            + [QUOTED.get((source, method), title_of(method))]
            + [EMPTY if count.endswith("%") else count]
            + [share if str(share).endswith("%") else EMPTY]
            + [f"{value[key]:.4f}" if key in value else EMPTY for key in shown]
        )
    heading = ["scores of", "method", "parameters", "% of full", *(c.title for c in columns)]
    return pd.DataFrame(rows, columns=[*heading, *means])


def best_scores(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Where a comparison's best scores are: of each block of rows, per column, ties included.

    Args:
        table: from `comparison`.
        source: the paper.

    Returns:
        True and False, in the shape of ``table``.
    """
    scores = _numbers(table.iloc[:, 4:])
    left_out = [title_of(method) for method in NOT_COMPETING.get(source, [])]
    scores[table["method"].isin(left_out)] = float("nan")
    best = scores.groupby(table["scores of"]).transform("max")
    return (scores == best).reindex(columns=table.columns, fill_value=False)


def differing(table: pd.DataFrame) -> pd.DataFrame:
    """Marks after the methods whose scores differ from full fine-tuning's of the same rows.

    Wilcoxon's signed-rank test over the tasks' columns, two-sided, p < `DIFFERS`, uncorrected. It
    takes six columns to find any difference.

    Args:
        table: from `comparison`.

    Returns:
        Text, in the shape of ``table``.
    """
    tasks = [column for column in table.columns[4:] if not column.startswith("average")]
    scores = _numbers(table[tasks])
    marks = pd.DataFrame("", index=table.index, columns=table.columns)
    for _, block in scores.groupby(table["scores of"]):
        full = block[table.loc[block.index, "method"] == title_of("full")]
        for row, own in block.iterrows():
            difference = (own - full.iloc[0]).dropna() if len(full) else pd.Series(dtype=float)
            p_value = wilcoxon(difference)
            if p_value is not None and p_value < DIFFERS:
                marks.loc[row, "method"] = f" {MARK}"
    return marks


def _numbers(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores that cells show, without their spread."""
    return scores.apply(lambda column: pd.to_numeric(column.str.partition(" ")[0], errors="coerce"))


def parameter_counts(table: pd.DataFrame) -> dict[str, int]:
    """Trained parameters per method, on the task with the most usual classifier.

    A two-label classifier is counted where a task has one, as the papers do.
    """
    usual = table.groupby("task")["trainable"].max()
    task = usual[usual == usual.mode().iloc[-1]].index[0]
    rows = table[table["task"] == task]
    return dict(zip(rows["method"], rows["trainable"], strict=True))


def _methods_of(printed: pd.DataFrame, table: pd.DataFrame, source: str) -> set[str]:
    """The exhibit's methods, and those of ours that none of the paper's exhibits has."""
    elsewhere = set(reported.scores(source)["method"]) - set(printed["method"])
    return set(table["method"]) - elsewhere


def _means(averaged: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Heading to columns: the paper's average, and this run's own where it is another one."""
    if not averaged:
        return {}
    means = {f"average of {', '.join(TASKS[task].title for task in averaged)}": averaged}
    return means if set(averaged) <= set(keys) else means | {"average of this run": keys}


def _paper(model: str, split: str, exhibit: str) -> str:
    parts = [f"paper: {model}", "" if split == "validation" else split, exhibit]
    return ", ".join(part for part in parts if part)
