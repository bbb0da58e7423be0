"""Answers as a table, in sentences and on a terminal, and the costs of each method."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.answer import (
    ALL_TASKS,
    FULL,
    Answer,
    Candidate,
    find_answers,
    title_with_mask,
)
from subtune.analysis.columns import columns_of, read_table, set_types
from subtune.analysis.summary import from_the_smallest, remarks
from subtune.exhibits.output import (
    DIVERGED,
    EMPTY,
    ExperimentResults,
    Styled,
    escape_markdown,
    format_interval,
    format_number,
    format_share,
    wrap_text,
)
from subtune.methods import method_title

MISSING = {
    "full": "Full fine-tuning is not among the methods: add `full`.",
    "score of full": "Full has no score: if it diverged, give it smaller learning rates.",
    "smaller method": "No method that trains less than full has a score.",
}
APART = "Each row is judged at an epoch that other rows have chosen."
ON_SAME_ROWS = "The dev rows that give these scores also chose epochs and learning rates."
CHOSEN_ON_DEV = "Dev rows chose epochs and learning rates; these scores are from test rows."
# A larger share of the texts needs no remark.
MOST_READ = 0.95
QUESTION = "Which few parameters are worth fine-tuning?"


def answers_table(results: ExperimentResults) -> Styled:
    """Return the method to train, and below it every method's loss against the reference.

    The CSV file has a row per model and task, and one for all tasks of a model that has several.
    `columns.csv` explains its columns.
    """
    chosen = results["chosen"]
    found = find_answers(chosen, results["row_scores"], results.unfinished)
    titles = {**results.task_titles, ALL_TASKS: ALL_TASKS}
    rows = [_answer_row(answer, titles[answer.task]) for answer in found]
    columns = [column.column for column in columns_of("answers")]
    sentences = [
        f"* {escape_markdown(f'{a.model}, {titles[a.task]}')}: {describe_answer(a)}" for a in found
    ]
    judged = chosen[chosen["judges"]]
    by_dev_rows = ON_SAME_ROWS if judged["decides"].any() else CHOSEN_ON_DEV
    methods = from_the_smallest(results.summary)
    return Styled(
        set_types(pd.DataFrame(rows, columns=columns), "answers"),
        loss_table(methods, titles),
        bold=pd.DataFrame({"method": methods["sure"]}),
        before="\n".join(sentences),
        note=APART if judged["judged_apart"].all() else by_dev_rows,
    )


def _answer_row(answer: Answer, title: str) -> dict[str, Any]:
    """Return an answer's numbers by name, and those of its candidate, if it has one."""
    numbers = vars(answer) | {"title": title, "answer": describe_answer(answer)}
    if candidate := answer.candidate:
        mean, low, high = candidate.difference
        numbers |= candidate._asdict() | {"difference": mean, "low": low, "high": high}
        # A candidate has a title too; the column has the task's.
        numbers |= {"title": title, "method": candidate.title, "seeds": len(candidate.seeds)}
    return numbers


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
                f"within {row['margin']:g}": format_chance(row["chance"]),
            }
        )
    # Each margin has its own column.
    return pd.DataFrame(rows).fillna(EMPTY)


def _against(row: Mapping[str, Any], methods: pd.DataFrame) -> dict[str, str]:
    """Return the column that names a method's reference, unless all references are full."""
    if set(methods["reference"].dropna()) <= {FULL, ""}:
        return {}
    is_compared = not pd.isna(row["difference"])
    return {"against": row["reference"] if is_compared else EMPTY}


def format_chance(chance: float) -> str:
    """Return a chance in whole per cent, but never 0 % or 100 %."""
    if pd.isna(chance):
        return EMPTY
    percent = round(100 * chance)
    return "< 1 %" if percent < 1 else "> 99 %" if percent > 99 else f"{percent} %"


def short_answer(answer: Answer) -> str:
    """Return an answer in one short line: ``Probably BitFit, 71 %``."""
    if not answer.candidate:
        return "No answer yet"
    if answer.decision == "everything":
        return "Train everything (full)"
    title, chance = answer.candidate.title, answer.candidate.chance
    method = "nothing (embeddings)" if title == method_title("embeddings") else title
    words = f"{'Train' if answer.decision == 'train' else 'Probably'} {method}"
    return words if pd.isna(chance) else f"{words}, {format_chance(chance)}"


def describe_answer(answer: Answer) -> str:
    """Return an answer in sentences."""
    candidate = answer.candidate
    if not candidate:
        sentences = [MISSING[answer.missing or "smaller method"]]
    else:
        sentences = [_decision(answer, candidate), *_about_reference(answer, candidate)]
        if answer.decision == "probably" and not answer.missing:
            sentences.append(_what_would_decide(answer, candidate))
        sentences += _doubts(answer, candidate)
    if answer.unfinished:
        sentences.append(_unfinished(answer))
    return " ".join(sentences)


def _about_reference(answer: Answer, candidate: Candidate) -> list[str]:
    """Return a sentence about the reference, unless it is full."""
    reference, margin = answer.reference, f"{answer.margin:g}"
    if answer.missing:
        tried = f"Methods are compared with {reference}, the best of those with the most runs."
        is_planned = FULL in map(method_title, answer.unfinished)
        return [tried] if is_planned else [tried, MISSING[answer.missing]]
    if reference == FULL:
        return []
    if candidate.title == reference:
        smaller = f"No smaller method has a chance of 50 % to be within {margin} of it."
        return [smaller] if candidate.trained else []
    return [f"{reference} is the reference: with 95 % chance it beats full by more than {margin}."]


def _doubts(answer: Answer, candidate: Candidate) -> list[str]:
    """Return sentences about methods that may score higher with other settings."""
    sentences = []
    if answer.full_with_one_answer:
        count = answer.full_with_one_answer
        runs = "1 run" if count == 1 else f"{count} runs"
        sentences.append(
            f"{runs} of full predict the same for every row: full may have learnt nothing."
        )
    where = " on some tasks" if answer.task == ALL_TASKS else ""
    for title in candidate.at_edge:
        sentences.append(f"{title}'s learning rate is at the edge of those tried{where}.")
    for title in candidate.still_rising:
        rising = f"{title} was still rising in its last epoch{where}"
        sentences.append(f"{rising}: give it more epochs.")
    if candidate.share_read < MOST_READ:
        read = f"Only {candidate.share_read:.0%} of the texts' tokens were read{where}"
        sentences.append(f"{read}: a larger `max_length` reads more.")
    if better := answer.better:
        less = f"Full scores {better.difference.mean:.3f} less than {better.title}"
        sentences.append(f"{less}: full may need more epochs or another learning rate.")
    return sentences


def _unfinished(answer: Answer) -> str:
    """Return a sentence with the methods that lack seeds or folds."""
    counts = [
        f"{method_title(name)} {done} of {all}" for name, (done, all) in answer.unfinished.items()
    ]
    counts[0] += f" {answer.unit}s"
    shared = f"each loss is over the {answer.unit}s that both methods have"
    goes_on = "the same command with more minutes goes on"
    return f"Not finished: {', '.join(counts)}; {shared}; {goes_on}."


def _decision(answer: Answer, candidate: Candidate) -> str:
    """Return the sentence that names what to train."""
    named, margin = _method_with_size(candidate), f"{answer.margin:g}"
    reference = "full" if candidate.reference == FULL else candidate.reference
    scores = f"it scores {candidate.score:.4f}, {reference} {candidate.reference_score:.4f}"
    most, is_alone = candidate.most_lost, len(candidate.seeds) == 1
    caveat = (
        f" (one {answer.unit}: differences between {answer.unit}s are not included)"
        if is_alone and candidate.studies
        else ""
    )
    if answer.decision == "train":
        worst = f"loses at most {most:.4f}" if most > 0 else f"gains at least {-most:.4f}"
        return f"Train {named}: {scores}; with 95 % chance it {worst}."
    if candidate.title == candidate.reference:
        return f"Probably {named}: it scores {candidate.score:.4f}."
    if answer.decision == "probably":
        chance = format_chance(candidate.chance)
        within = f"; it is within {margin} of {reference} with {chance} chance"
        return f"Probably {named}: {scores}{within if candidate.studies else ''}{caveat}."
    loss = -candidate.difference.mean
    at_most = f", at most {most:.4f}" if candidate.studies else ""
    return f"Train everything: the nearest method, {named}, loses {loss:.4f}{at_most}{caveat}."


def _method_with_size(candidate: Candidate) -> str:
    """Return a method with its size."""
    if candidate.title == method_title("embeddings"):
        return "nothing (a regression on frozen embeddings)"
    if candidate.title == method_title("frozen"):
        return f"{candidate.title} (the classifier alone)"
    # Full's parameters are unknown if it has no run.
    of_all = "" if pd.isna(candidate.share) else f", {format_share(candidate.share)} of all"
    return f"{candidate.title} ({candidate.trained:,} parameters{of_all})"


def _what_would_decide(answer: Answer, candidate: Candidate) -> str:
    """Return a sentence about the safe choice, and the number of seeds or rows that would
    decide."""
    reference = "Full fine-tuning" if answer.reference == FULL else answer.reference
    safe = f"{reference} is the safe choice"
    if answer.unfinished:
        return f"{safe}; the {answer.unit}s that are missing would tell more."
    if len(candidate.seeds) == 1:
        return f"{safe}; `seeds: [0, 1, 2]` would tell more."
    more = [f"{answer.more_rows:,} more {candidate.judged_by}"] if answer.more_rows else []
    if answer.more_seeds:
        unused = (seed for seed in itertools.count() if seed not in candidate.seeds)
        seeds = [*candidate.seeds, *itertools.islice(unused, answer.more_seeds)]
        more.append(f"`seeds: {seeds}`")
    return f"{safe}; about {' or '.join(more)} would tell." if more else f"{safe}."


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
    lines = ["", QUESTION, ""]
    for model, rows in table[table["task"] != ALL_TASKS].groupby("model", sort=False):
        title = f"{rows['title'].item()}: " if len(rows) == 1 else ""
        lines += [f"{model}:", *wrap_text(f"  {title}{summarise_answers(rows)}"), ""]
    methods = path.with_name(f"summary{path.suffix}")
    if len(table) == 1 and methods.is_file():
        losses = loss_table(from_the_smallest(read_table(methods, "summary")))
        lines += [*losses.to_string(index=False).splitlines(), ""]
    names = ["report.html", "answers.md", "front.png", "summary.md"]
    shown = [name for name in names if path.with_name(name).exists()]
    return "\n".join([*lines, f"More in {path.parent}: {', '.join(shown)}."])


def summary_table(results: ExperimentResults) -> Styled:
    """Return a row per model, task and method; the highest score of a task is first.

    Methods on the Pareto front of score and parameters are bold.
    """
    rows = results.summary
    records = rows.to_dict("records")
    shown = pd.DataFrame([_summary_row(row, results.tasks[row["task"]], rows) for row in records])
    return Styled(rows, shown, bold=pd.DataFrame({"method": rows["on_front"]}))


def _summary_row(
    row: Mapping[str, Any], task: Mapping[str, Any], methods: pd.DataFrame
) -> dict[str, str]:
    against = _against(row, methods)
    return {
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
