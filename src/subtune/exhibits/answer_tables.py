"""Answers as a table and on a terminal, and the scores and costs of each method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.answer import (
    ALL_TASKS,
    describe_answer,
    find_answers,
    format_chance,
    format_share,
)
from subtune.analysis.candidates import FULL_TITLE, remarks, sort_methods
from subtune.analysis.chosen_runs import title_with_mask
from subtune.analysis.tables import columns_of, read_table, set_types
from subtune.exhibits.output import (
    DIVERGED,
    EMPTY,
    ExperimentResults,
    Styled,
    escape_markdown,
    format_interval,
    format_number,
    wrap_text,
)
from subtune.methods import method_title

APART = "Each row is judged at an epoch that other rows have chosen."
ON_SAME_ROWS = "The dev rows that give these scores also chose epochs and learning rates."
CHOSEN_ON_DEV = "Dev rows chose epochs and learning rates; these scores are from test rows."


def answers_table(results: ExperimentResults) -> Styled:
    """Return the method to train, and below it every method's loss against the reference.

    The CSV file has a row per model and task, and one for all tasks of a model that has several.
    `columns.csv` explains its columns.
    """
    chosen = results["chosen"]
    found = find_answers(chosen, results["row_scores"], results.unfinished)
    titles = {**results.task_titles, ALL_TASKS: ALL_TASKS}
    rows, sentences = [], []
    for answer in found:
        title, sentence = titles[answer.task], describe_answer(answer)
        sentences.append(f"* {escape_markdown(f'{answer.model}, {title}')}: {sentence}")
        row = vars(answer) | {"answer": sentence}
        if candidate := answer.candidate:
            row |= candidate._asdict() | candidate.difference._asdict()
            row |= {"difference": candidate.difference.mean, "seeds": len(candidate.seeds)}
            row["method"] = candidate.title
        # A candidate has a title too; the column has the task's.
        rows.append(row | {"title": title})
    judged = chosen[chosen["judges"]]
    by_dev_rows = ON_SAME_ROWS if judged["decides"].any() else CHOSEN_ON_DEV
    methods = sort_methods(results.summary, ["trained", "score"])
    return Styled(
        set_types(pd.DataFrame(rows, columns=[*columns_of("answers")["column"]]), "answers"),
        loss_table(methods, titles),
        bold=pd.DataFrame({"method": methods["sure"]}),
        before="\n".join(sentences),
        note=APART if judged["judged_apart"].all() else by_dev_rows,
    )


def loss_table(methods: pd.DataFrame, task_titles: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return each method's score and loss as text, from rows of `summary`.

    Model and task are shown only if the tasks' titles are given. The column ``against`` names the
    references unless all are full.
    """
    rows = []
    for row in methods.to_dict("records"):
        question = {"model": row["model"], "task": task_titles[row["task"]]} if task_titles else {}
        rows.append(
            {
                **question,
                "method": title_with_mask(row),
                "parameters": f"{row['trained']:,}",
                "score": format_number(row["score"], missing=DIVERGED),
                **_against(row, methods),
                # Adding 0.0 turns -0.0 into 0.0.
                "loss": format_number(0.0 - round(row["difference"], 4)),
                "at most": format_number(row["most_lost"]),
                f"within {row['margin']:g}": (
                    EMPTY if pd.isna(row["chance"]) else format_chance(row["chance"])
                ),
            }
        )
    # Each margin has its own column.
    return pd.DataFrame(rows).fillna(EMPTY)


def _against(row: Mapping[str, Any], methods: pd.DataFrame) -> dict[str, str]:
    """Return the column that names a method's reference, unless all references are full."""
    if set(methods["reference"].dropna()) <= {FULL_TITLE, ""}:
        return {}
    is_compared = not pd.isna(row["difference"])
    return {"against": row["reference"] if is_compared else EMPTY}


def summarise_answers(answers: pd.DataFrame) -> str:
    """Return a single answer, or the method to train on each task, from rows of `answers_table`."""
    if len(answers) == 1:
        return answers["answer"].item()
    beginnings = {"train": "Train", "probably": "Probably", "everything": "Train"}
    names = answers["method"].replace(method_title("embeddings"), "nothing")
    names = names.mask(answers["decision"] == "everything", "everything")
    sentences = []
    for decision, beginning in beginnings.items():
        titles_by_method = answers.loc[answers["decision"] == decision, "title"].groupby(names)
        named = [f"{name} on {', '.join(titles)}" for name, titles in titles_by_method]
        sentences += [f"{beginning} {'; '.join(named)}."] if named else []
    # There is no decision if full fine-tuning has no score.
    undecided = answers.loc[answers["decision"].isna(), "title"].groupby(answers["answer"])
    are_some = bool(sentences)
    sentences += [
        f"On {', '.join(titles)}: {answer}" if are_some else answer for answer, titles in undecided
    ]
    if (answers["seeds"] == 1).all():
        sentences.append(
            "Only one seed was trained, so differences between seeds are not included."
        )
    return " ".join(sentences)


def format_answers(path: Path) -> str:
    """Return the answers of a CSV file as lines wrapped to the terminal's width.

    If there is a single answer, the table `summary` from the same folder follows.
    """
    table = read_table(path, "answers")
    lines = ["", "Which few parameters are worth fine-tuning?", ""]
    for model, rows in table[table["task"] != ALL_TASKS].groupby("model", sort=False):
        title = f"{rows['title'].item()}: " if len(rows) == 1 else ""
        lines += [f"{model}:", *wrap_text(f"  {title}{summarise_answers(rows)}"), ""]
    methods = path.with_name(f"summary{path.suffix}")
    if len(table) == 1 and methods.is_file():
        smallest_first = sort_methods(read_table(methods, "summary"), ["trained", "score"])
        losses = loss_table(smallest_first)
        lines += [*losses.to_string(index=False).splitlines(), ""]
    names = ["report.html", "answers.md", "front.png", "summary.md"]
    shown = [name for name in names if path.with_name(name).exists()]
    return "\n".join([*lines, f"More in {path.parent}: {', '.join(shown)}."])


def summary_table(results: ExperimentResults) -> Styled:
    """Return a row per model, task and method; the highest score of a task is first.

    Methods on the Pareto front of score and parameters are bold.
    """
    rows = results.summary
    shown = []
    for row in rows.to_dict("records"):
        task, against = results.tasks[row["task"]], _against(row, rows)
        shown.append(
            {
                "model": row["model"],
                "task": task["title"],
                "metric": task["metrics"][row["metric"]],
                "method": title_with_mask(row),
                "score": _format_score(row),
                **against,
                "difference" if against else "minus full": format_number(row["difference"], "+.4f"),
                "95 % interval": format_interval(row["low"], row["high"]),
                "parameters": f"{row['trained']:,}",
                "share of full": EMPTY if pd.isna(row["share"]) else format_share(row["share"]),
                "on disk": format_size(row["delta_bytes"]),
                "seconds": f"{row['seconds']:,.0f}",
                "best epoch": format_number(row["epoch"], "g"),
                "remarks": remarks(row) or EMPTY,
            }
        )
    return Styled(rows, pd.DataFrame(shown), bold=pd.DataFrame({"method": rows["on_front"]}))


def _format_score(row: Mapping[str, Any]) -> str:
    """Return the mean and its spread, with *one answer* if runs predict the same for every row."""
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


def format_size(count: float) -> str:
    """Return a number of bytes with a unit: ``43 kB``, ``91 MB``."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
