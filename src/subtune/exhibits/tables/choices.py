"""Tables of what was chosen: metrics, learning rates, epochs, and the runs sent to a server."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from subtune.analysis.scores import whole_methods
from subtune.analysis.summary import remarks
from subtune.exhibits.tables.writing import DIVERGED, EMPTY
from subtune.selections.methods import title_of
from subtune.tasks.metrics import TITLES


def metrics(tasks: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the tasks' metrics; the first of a task decides and is shown in the tables."""
    rows = []
    for task in tasks:
        first, *others = [TITLES[name] for name in task["metrics"]]
        kinds = [split.removeprefix("validation_") for split in task["evaluation"]]
        if len(kinds) > 1:
            first = " / ".join(f"{kind} {first}" for kind in kinds)
        rows.append([task["title"], first, ", ".join(others) or EMPTY])
    return pd.DataFrame(rows, columns=["task", "metric", "also computed"])


def choices(chosen: pd.DataFrame, task_titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the learning rate and epoch behind every score of a table."""
    table = whole_methods(chosen)
    table = table[table["decides"]]
    return pd.DataFrame(
        {
            "model": table["model"],
            "task": table["task"].map(task_titles),
            "method": table["method"].map(title_of),
            "seed": table["seed"],
            "learning rate": table["learning_rate"],
            "epoch": table["best_epoch"],
            "trained parameters": table["trainable"],
            "metric": table["metric"],
            "dev score": table["value"].round(4).astype(object).fillna(DIVERGED),
            "remarks": [remarks(row) for row in table.to_dict("records")],
            "run": table["run"],
        }
    )


def best_learning_rates(
    chosen: pd.DataFrame, printed: pd.DataFrame, task_titles: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Return the best learning rate of one method, task by task, ours beside the paper's.

    Args:
        printed: ``task``, and one column per model of the paper.
        method: whose learning rates the paper prints.
    """
    runs = whole_methods(chosen)
    runs = runs[runs["method"] == method].drop_duplicates(["model", "task"])
    table = pd.DataFrame({"task": [*task_titles.values()]})
    for model in runs["model"].unique():
        of_model = runs[runs["model"] == model].set_index("task")
        rates = of_model["learning_rate"].map(short).where(of_model["value"].notna(), DIVERGED)
        table[f"this run: {model}"] = [rates.get(task) for task in task_titles]
    papers = printed.set_index("task")
    for model in papers:
        table[f"paper: {model}"] = [short(papers[model].get(task)) for task in task_titles]
    return table


def short(learning_rate: float | None) -> str | None:
    """Return a learning rate as the papers write it: 7e-4."""
    if pd.isna(learning_rate):
        return None
    mantissa, _, exponent = f"{learning_rate:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def contents(parts: pd.DataFrame) -> pd.DataFrame:
    """Return a row per file: the run that predicted it, or why it holds a constant.

    Args:
        parts: ``submission``, and the columns of `subtune.glue_server.CONTENTS`.
    """
    return pd.DataFrame(
        {
            "submission": parts["submission"],
            "file": parts["file"],
            "made of": parts["made_of"],
            "learning rate": [short(rate) or EMPTY for rate in parts["learning_rate"]],
            "seed": [EMPTY if pd.isna(seed) else f"{seed:g}" for seed in parts["seed"]],
            "dev score": [EMPTY if pd.isna(v) else f"{v:.4f}" for v in parts["dev_score"]],
        }
    )
