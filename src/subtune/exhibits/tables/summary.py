"""A table of what each method scores and what it costs."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from subtune.analysis.row_scores import NO_ROWS
from subtune.analysis.summary import METHOD, remarks, summary, title_with_mask
from subtune.exhibits.tables.writing import DIVERGED, EMPTY, Styled, interval, share, signed
from subtune.tasks.metrics import TITLES


def methods_by_score(
    chosen: pd.DataFrame, task_titles: Mapping[str, str], row_scores: pd.DataFrame = NO_ROWS
) -> Styled:
    """Return a row per model, task and method; a task's methods stand from the highest score.

    Methods on the front of score against parameters are bold.
    """
    rows = summary(chosen, row_scores)
    shown = pd.DataFrame([_shown(row, task_titles) for row in rows.to_dict("records")])
    return Styled(rows, shown, bold=pd.DataFrame({"method": rows["on_front"]}))


def _shown(row: Mapping[str, Any], task_titles: Mapping[str, str]) -> dict[str, str]:
    return {
        "model": row["model"],
        "task": task_titles[row["task"]],
        "metric": TITLES[row["metric"]],
        "method": title_with_mask(*(row[name] for name in METHOD)),
        "score": _score(row),
        "minus full": signed(row["difference"]),
        "95 % interval": interval(row["low"], row["high"]),
        "parameters": f"{row['trained']:,}",
        "share of full": EMPTY if pd.isna(row["share"]) else share(row["share"]),
        "on disk": file_size(row["delta_bytes"]),
        "seconds": f"{row['seconds']:,.0f}",
        "best epoch": EMPTY if pd.isna(row["epoch"]) else f"{row['epoch']:g}",
        "remarks": remarks(row) or EMPTY,
    }


def _score(row: Mapping[str, Any]) -> str:
    """Return the mean and its spread; *one answer* if runs predict the same for every row."""
    if pd.isna(row["score"]):
        return DIVERGED
    text = f"{row['score']:.4f}"
    if not pd.isna(row["spread"]):
        text += f" ± {row['spread']:.4f}"
    if row["one_answer"] == row["seeds"]:
        text += " (one answer)"
    elif row["one_answer"]:
        text += f" (one answer in {row['one_answer']} of {row['seeds']})"
    return text


def file_size(count: float) -> str:
    """Return a number of bytes with a unit: ``43 kB``, ``91 MB``."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
