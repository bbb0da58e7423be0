"""Answers as a table and on a terminal, and the scores and costs of each method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.answer import (
    ALL_TASKS,
    find_answers,
    format_chance,
    format_share,
    next_step,
    short_answer,
)
from subtune.analysis.candidates import remarks, sort_methods
from subtune.analysis.chosen_runs import FELL, STILL_RISING, title_with_mask
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


# The texts of marks, by the verdict on a learning curve.
CURVES = {
    STILL_RISING: "still rising in the last epoch, so more epochs may help",
    FELL: "the score fell after the best epoch",
}
# A larger share of the texts needs no mark.
MOST_READ = 0.95


def answers_table(results: ExperimentResults) -> Styled:
    """Return the method to train, and below it every method's loss against the reference.

    The CSV file has a row per task, and one for all tasks if there are several; in a paper's
    experiment, for each model. ``columns.csv`` explains its columns.
    """
    chosen = results["chosen"]
    titles = {**results.task_titles, ALL_TASKS: ALL_TASKS}
    rows = []
    for answer in find_answers(chosen, results["row_scores"]):
        row = vars(answer) | {"answer": short_answer(answer), "next": next_step(answer)}
        row["model"] = answer.models
        if candidate := answer.candidate:
            row |= candidate._asdict() | candidate.difference._asdict()
            row |= {"difference": candidate.difference.mean, "seeds": len(candidate.seeds)}
            row["method"] = candidate.title
        # A candidate has a title too; the column has the task's.
        rows.append(row | {"title": titles[answer.task]})
    answers = pd.DataFrame(rows, columns=[*columns_of("answers")["column"]])
    judged = chosen[chosen["judges"]]
    by_dev_rows = ON_SAME_ROWS if judged["decides"].any() else CHOSEN_ON_DEV
    methods = sort_methods(results.summary)
    shown, marks = loss_table(methods, titles)
    return Styled(
        set_types(answers, "answers"),
        shown,
        bold=pd.DataFrame({"method": methods["sure"]}),
        before="\n".join(
            f"* {escape_markdown(answer)} {step}" for answer, step in list_answers(answers)
        ),
        note=f"{marks} {APART if judged['judged_apart'].all() else by_dev_rows}".strip(),
    )


def list_answers(answers: pd.DataFrame) -> list[tuple[str, str]]:
    """Return each answer with its place, and what to do next, from rows of `answers_table`.

    The place is the task, and the models if they differ. A single answer needs no place.
    """
    # Tables of earlier versions lack two columns.
    models, steps = answers.get("models", answers["model"]), answers.get("next")
    steps = [""] * len(answers) if steps is None else steps
    places = answers["title"] + (", " + models if models.nunique() > 1 else "") + ": "
    places = places if len(answers) > 1 else ""
    return [*zip(places + answers["answer"], steps, strict=True)]


def loss_table(
    methods: pd.DataFrame, task_titles: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, str]:
    """Return each method's score and loss as text, from rows of `summary`, and a line about marks.

    The task is shown only if the tasks' titles are given, models only if there are several. The
    column ``against`` names the references unless all are full, and ``marks`` is there if some
    method has a mark.
    """
    rows, letters = [], dict[str, str]()
    several = methods["model"].nunique() > 1
    # TF-IDF and brought predictions have no model.
    has_model = methods["encoder_size"].fillna(0) > 0
    methods = methods.assign(model=methods["model"].where(has_model, EMPTY))
    for row in methods.to_dict("records"):
        texts = _marks(row)
        for text in texts:
            letters.setdefault(text, _letter(len(letters)))
        rows.append(
            {
                **({"model": row["model"]} if several else {}),
                **({"task": task_titles[row["task"]]} if task_titles else {}),
                "method": title_with_mask(row),
                # Brought predictions have no model.
                "parameters": EMPTY if pd.isna(row["encoder_size"]) else f"{row['trained']:,}",
                "score": format_number(row["score"], ".3f", missing=DIVERGED),
                **_against(row, methods),
                # Adding 0.0 turns -0.0 into 0.0.
                "loss": format_number(0.0 - round(row["difference"], 3), ".3f"),
                "at most": format_number(row["most_lost"], ".3f"),
                f"within {row['margin']:g}": (
                    EMPTY if pd.isna(row["chance"]) else format_chance(row["chance"])
                ),
                "marks": " ".join(letters[text] for text in texts),
            }
        )
    # Each margin has its own column.
    table = pd.DataFrame(rows).fillna(EMPTY)
    line = "; ".join(f"({letter}) {text}" for text, letter in letters.items())
    return (table, f"Marks: {line}.") if letters else (table.drop(columns="marks"), "")


def _letter(number: int) -> str:
    """Return the letters of a mark by its number, from 0: a, …, z, aa, …"""
    return chr(ord("a") + number % 26) * (1 + number // 26)


def _marks(row: Mapping[str, Any]) -> list[str]:
    """Return what a reader should know of a method's score, from a row of `summary`."""
    if pd.isna(row["score"]):
        return []
    found, unit = [], row["unit"]
    if row["seeds"] < row["planned"]:
        paired = f"compared on the {unit}s that the reference has too"
        found.append(f"{row['seeds']} of {row['planned']} {unit}s, {paired}")
    if row["seeds"] == 1:
        found.append(f"one {unit}, so differences between {unit}s are not included")
    if row["at_edge"]:
        found.append("the best learning rate is the smallest or largest of those tried")
    if row["curve"] in CURVES:
        found.append(CURVES[row["curve"]])
    if row["one_answer"]:
        runs = f"{row['one_answer']} of {row['seeds']} runs"
        found.append(f"predicts the same for every row in {runs}")
    if row["share_read"] < MOST_READ:
        read = f"{row['share_read']:.0%} of the texts' tokens are read"
        found.append(f"{read}, and a larger `max_length` reads more")
    return found


def _against(row: Mapping[str, Any], methods: pd.DataFrame) -> dict[str, str]:
    """Return the column that names a method's reference, unless all references are full."""
    names = {str(name).partition(" of ")[0] for name in methods["reference"].dropna()}
    if names <= {method_title("full"), ""}:
        return {}
    is_compared = not pd.isna(row["difference"])
    return {"against": row["reference"] if is_compared else EMPTY}


def format_answers(path: Path) -> str:
    """Return the answers of a CSV file as lines wrapped to the terminal's width.

    If there is a single answer, the table `summary` from the same folder follows.
    """
    answers, lines = read_table(path, "answers"), [""]
    for sentences in list_answers(answers):
        # Sentences about one of several tasks stay together.
        for text in sentences if len(answers) == 1 else [" ".join(sentences)]:
            lines += wrap_text(text)
    lines.append("")
    methods = path.with_name(f"summary{path.suffix}")
    if len(answers) == 1 and methods.is_file():
        table, marks = loss_table(sort_methods(read_table(methods, "summary")))
        lines += [*map(str.rstrip, table.to_string(index=False).splitlines()), ""]
        lines += [*wrap_text(marks), ""] if marks else []
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
