"""The LayerNorm paper's tables."""

from collections.abc import Sequence

import pandas as pd

from subtune import reported
from subtune.analysis.scores import Column, methods_only
from subtune.tables.writing import EMPTY, METRIC_TITLES, cell, title_of
from subtune.tasks import Task


def table1(ranking: pd.DataFrame) -> pd.DataFrame:
    """Components by summed normalised Fisher information, beside the paper's ranks."""
    return pd.DataFrame(
        {
            "rank": ranking["rank"],
            "component": ranking["component"],
            "information": ranking["information"].map("{:.4f}".format),
            "paper's rank": ranking["reported_rank"],
        }
    )


def table2(chosen: pd.DataFrame, columns: Sequence[Column], model: str) -> pd.DataFrame:
    """Dev scores of every method, ours and below them the paper's.

    ``parameters`` counts a two-label classifier where a task has one, as the paper does.
    """
    table = methods_only(chosen)
    binary = _counts(table)
    full = binary.get("full")
    rows = []
    for method in table["method"].drop_duplicates():
        own = table[table["method"] == method]
        share = f"{binary[method] / full:.3%}" if full else EMPTY
        cells = [cell(own.loc[own["column"] == c.key, "value"]) for c in columns]
        rows.append([model, title_of(method), f"{binary[method]:,}", share, *cells])
    printed = reported.scores("layernorm", "table2")
    counts = reported.table("parameter_counts.csv")
    counts = counts[counts["source"] == "layernorm"].set_index("method")["printed"]
    for method in printed["method"].drop_duplicates():
        own = printed[printed["method"] == method]
        value = own.set_index("task")["value"]
        cells = [f"{value[c.key]:.4f}" if c.key in value else EMPTY for c in columns]
        rows.append(
            [
                "paper: bert-large-cased, GLUE",
                title_of(method),
                counts.get(method, EMPTY),
                own["params"].iloc[0],
                *cells,
            ]
        )
    heading = ["scores of", "method", "parameters", "% of full", *(c.title for c in columns)]
    return pd.DataFrame(rows, columns=heading)


def choices(chosen: pd.DataFrame, tasks: Sequence[Task]) -> pd.DataFrame:
    """The learning rate and epoch behind every cell of Table 2."""
    table = methods_only(chosen)
    table = table[table["decides"]]
    titles = {task.name: task.title for task in tasks}
    return pd.DataFrame(
        {
            "task": table["task"].map(titles),
            "method": table["method"].map(title_of),
            "seed": table["seed"],
            "learning rate": table["learning_rate"],
            "epoch": table["best_epoch"],
            "trained parameters": table["trainable"],
            "metric": table["metric"],
            "dev score": table["value"].round(4),
            "run": table["run"],
        }
    )


def table4(tasks: Sequence[Task]) -> pd.DataFrame:
    """The metrics; where a task has several, the first decides and is the tables'."""
    return pd.DataFrame(
        {
            "task": [task.title for task in tasks],
            "metric": [_metric_title(task) for task in tasks],
            "also computed": [
                ", ".join(METRIC_TITLES[name] for name in task.metrics[1:]) or EMPTY
                for task in tasks
            ],
        }
    )


def _metric_title(task: Task) -> str:
    name = METRIC_TITLES[task.metrics[0]]
    kinds = [split.removeprefix("validation_") for split in task.evaluation]
    return name if len(kinds) == 1 else " / ".join(f"{kind} {name}" for kind in kinds)


def _counts(table: pd.DataFrame) -> dict[str, int]:
    """Trained parameters per method, on the task with the most usual classifier."""
    usual = table.groupby("task")["trainable"].max()
    task = usual[usual == usual.mode().iloc[-1]].index[0]
    rows = table[table["task"] == task]
    return dict(zip(rows["method"], rows["trainable"], strict=True))
