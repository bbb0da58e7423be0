"""What each method scores and what it costs, and what follows, as tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from subtune.analysis import summary
from subtune.analysis.answers import ALL_TASKS, answers, share_in_words
from subtune.exhibits.tables.writing import DIVERGED, EMPTY, METRIC_TITLES, Emphasis, Styled
from subtune.selections.methods import title_with_mask

NUMBERS_OF_ANSWER = (
    "parameters", "share of full", "score", "full", "minus full", "95 % interval", "surely",
    "to be sure",
)  # fmt: skip


def methods_by_score(chosen: pd.DataFrame, task_titles: Mapping[str, str]) -> Styled:
    """A row per model, task and method, those of a task from the highest score to the lowest.

    Methods on the front of score against parameters are bold.

    Args:
        chosen: the runs of the best learning rates.
        task_titles: task name to title.
    """
    rows = summary.summary(chosen)
    shown = pd.DataFrame([_in_words(row, task_titles) for row in rows.to_dict("records")])
    bold = pd.DataFrame(False, index=shown.index, columns=shown.columns)
    bold["method"] = rows["on_front"]
    return Styled(rows, Emphasis(bold=bold), shown)


def _in_words(row: Mapping[str, Any], task_titles: Mapping[str, str]) -> dict[str, str]:
    return {
        "model": row["model"],
        "task": task_titles[row["task"]],
        "metric": METRIC_TITLES[row["metric"]],
        "method": method_of(row),
        "score": _score(row),
        "minus full": _signed(row["difference"]),
        "95 % interval": _interval(row),
        "parameters": f"{row['trained']:,}",
        "share of full": EMPTY if pd.isna(row["share"]) else share_in_words(row["share"]),
        "on disk": bytes_in_words(row["delta_bytes"]),
        "seconds": f"{row['seconds']:,.0f}",
        "best epoch": EMPTY if pd.isna(row["epoch"]) else f"{row['epoch']:g}",
    }


def smallest_methods(chosen: pd.DataFrame, task_titles: Mapping[str, str]) -> Styled:
    """A row per model and task, and of all its tasks: the smallest method that is good enough.

    Methods that runs are enough for are bold.

    Args:
        chosen: the runs of the best learning rates.
        task_titles: task name to title.
    """
    rows = answers(chosen)
    titles = {**task_titles, ALL_TASKS: ALL_TASKS}
    rows.insert(2, "title", rows["task"].map(titles))
    shown = pd.DataFrame([_answer(row) for row in rows.to_dict("records")])
    bold = pd.DataFrame(False, index=shown.index, columns=shown.columns)
    bold["surely"] = rows["surely"].notna()
    return Styled(rows, Emphasis(bold=bold), shown)


def _answer(row: Mapping[str, Any]) -> dict[str, str]:
    about = {"model": row["model"], "task": row["title"]}
    if pd.isna(row["method"]):
        nothing = dict.fromkeys(NUMBERS_OF_ANSWER, EMPTY)
        return about | {"by the mean": row["answer"]} | nothing
    nearest = "" if row["is_within"] else "none; nearest is "
    more = row["more_seeds"]
    return about | {
        "by the mean": f"{nearest}{row['method']}",
        "parameters": f"{row['trained']:,}",
        "share of full": share_in_words(row["share"]),
        "score": f"{row['score']:.4f}",
        "full": f"{row['full']:.4f}",
        "minus full": _signed(row["difference"]),
        "95 % interval": _interval(row),
        "surely": row["surely"] or EMPTY,
        "to be sure": EMPTY if pd.isna(more) else f"{more} more seed{'s' if more > 1 else ''}",
    }


def method_of(row: Mapping[str, Any]) -> str:
    """The method of a row of scores in words, with its mask if it has one."""
    scope = None if pd.isna(row["scope"]) else row["scope"]
    return title_with_mask(row["method"], row["fraction"], scope)


def _score(row: Mapping[str, Any]) -> str:
    if pd.isna(row["score"]):
        return DIVERGED
    spread = "" if pd.isna(row["spread"]) else f" ± {row['spread']:.4f}"
    return f"{row['score']:.4f}{spread}{_one_answer(row)}"


def _one_answer(row: Mapping[str, Any]) -> str:
    """Says of a score that it is that of the same prediction for every row."""
    if not row["one_answer"]:
        return ""
    some = "" if row["one_answer"] == row["seeds"] else f" in {row['one_answer']} of {row['seeds']}"
    return f" (one answer{some})"


def _interval(row: Mapping[str, Any]) -> str:
    return EMPTY if pd.isna(row["low"]) else f"{_signed(row['low'])} to {_signed(row['high'])}"


def _signed(value: float) -> str:
    return EMPTY if pd.isna(value) else f"{value:+.4f}"


def bytes_in_words(count: float) -> str:
    """A file's size: ``43 kB``, ``91 MB``."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
