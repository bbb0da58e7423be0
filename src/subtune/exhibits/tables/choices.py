"""Tables of the learning rates and epochs that were chosen by dev score."""

from collections.abc import Mapping

import pandas as pd

from subtune.analysis.scores import whole_methods
from subtune.exhibits.tables.writing import DIVERGED
from subtune.selections.methods import title_of


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
            "run": table["run"],
        }
    )


def best_learning_rates(
    chosen: pd.DataFrame, printed: pd.DataFrame, task_titles: Mapping[str, str], method: str
) -> pd.DataFrame:
    """Return the best learning rate of one method, task by task, ours beside the paper's.

    Args:
        chosen: the runs of the best learning rates.
        printed: ``task``, and one column per model of the paper.
        task_titles: the rows: task name to title.
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
    if learning_rate is None:
        return None
    mantissa, _, exponent = f"{learning_rate:.3e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
