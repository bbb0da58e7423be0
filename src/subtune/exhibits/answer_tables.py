"""Format answers for tables and the terminal, and tabulate the score and cost of each method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.analysis.answer import (
    ALL_TASKS,
    find_answers,
    format_probability,
    format_share,
    next_step,
    short_answer,
)
from subtune.analysis.candidates import SURE, describe_curves, sort_methods
from subtune.analysis.chosen_runs import FELL, STILL_RISING, title_with_mask
from subtune.analysis.tables import column_declarations, read_table, set_types
from subtune.exhibits.output import (
    DIVERGED,
    DIVERGED_CAPTION,
    EMPTY,
    ExperimentResults,
    StyledTable,
    Table,
    escape_markdown,
    format_interval,
    format_number,
    format_with_unit,
    wrap_text,
)
from subtune.methods import FULL, method_title
from subtune.methods.baselines import CONSTANT
from subtune.tasks.metrics import metric_title

CHOSEN_BY_OTHERS = "Each example is scored at an epoch that was chosen on other examples."
ON_SAME_EXAMPLES = "Epochs and learning rates were chosen on the dev examples that are scored here."
CHOSEN_ON_DEV = (
    "Epochs and learning rates were chosen on the dev set; these scores are from the test set."
)
# Maps each verdict on a learning curve to a remark for the reader.
CURVES = {
    STILL_RISING: "still rising in the last epoch, so more epochs may help",
    FELL: "the score fell after the best epoch",
}
REMARKS = (
    "The remark 'at the edge' means that the best learning rate is the smallest or the largest "
    "that was tried, so a better one may lie outside this range. 'Still rising' means that the "
    "last epoch is the best and the score rose over the last third of the epochs, so more epochs "
    "may help. 'Fell' means that the best epoch is before the last third of the epochs and the "
    "score has decreased since then. Changes within the noise are ignored."
)
BYTES = ("bytes", "kB", "MB", "GB")
# A method gets a remark if the model reads less than this share of the texts' tokens.
MOST_READ = 0.95


def answers_table(results: ExperimentResults) -> StyledTable:
    """List the answers, and tabulate the loss of each method relative to the reference.

    The CSV file has one row per task and one for all tasks; with a paper, these rows for each
    model.
    """
    chosen = results["chosen"]
    titles = {**results.task_titles, ALL_TASKS: ALL_TASKS}
    rows = []
    for answer in find_answers(chosen, results["row_scores"]):
        row = vars(answer) | {"answer": short_answer(answer), "next": next_step(answer)}
        row |= {"model": answer.models, "reference": answer.compared.reference}
        if candidate := answer.candidate:
            row |= candidate._asdict() | candidate.difference._asdict()
            row |= {"difference": candidate.difference.mean, "seeds": len(candidate.seeds)}
            row["method"] = candidate.title
        # In this table, ``title`` is the task's title, not the candidate's.
        rows.append(row | {"title": titles[answer.task]})
    answers = pd.DataFrame(rows, columns=[*column_declarations("answers")["column"]])
    judged = chosen[chosen["judges"]]
    how_chosen = ON_SAME_EXAMPLES if judged["decides"].any() else CHOSEN_ON_DEV
    if judged["judged_apart"].all():
        how_chosen = CHOSEN_BY_OTHERS
    methods = sort_methods(results.summary)
    shown, marks = loss_table(methods, titles)
    return StyledTable(
        set_types(answers, "answers"),
        shown,
        bold=pd.DataFrame({"method": methods["sure"]}),
        before="\n".join(
            f"* {escape_markdown(answer)} {step}" for answer, step in list_answers(answers)
        ),
        note=f"{marks} {how_chosen}".strip(),
    )


ANSWERS = Table(
    "answers",
    "What to train",
    "Each answer names the smallest method that scores at most the margin below the reference, on "
    "one task or on average over all tasks. Methods are ordered by encoder size, then by the "
    "number of trained parameters. The reference is the fully fine-tuned model with the highest "
    "score, unless a method beats it by at least the margin with a probability of at least 95 %, "
    "over several seeds. In that case, the best such method is the reference. A method is "
    "*enough* if it is within the margin of each other method with a probability of at least "
    "95 %, over several seeds. It is *probably enough* if it is within the margin of the reference "
    "with a probability of at least 80 %, over several seeds. Full fine-tuning is *worth it* if "
    "the probabilities of all smaller methods sum to less than 5 %, and *probably worth it* if "
    "they sum to less than 20 %. Otherwise, or if a score still rises in the last epoch, the "
    "answer is *undecided*, as it is instead of *worth it* if methods were left out to save time. "
    "The table lists all methods, smallest first. The "
    "loss is the drop in score relative to the reference; 'at most' is its 95 % upper confidence "
    "bound, and 'within' is the probability that it is within the margin. Methods that are enough "
    "are bold, as are references that beat full fine-tuning. Both scores are averaged over the "
    "seeds and folds that the method and the reference share. Probabilities are computed over "
    "paired seeds and evaluation examples (with a single seed, over examples alone). They are not "
    "corrected for multiple comparisons. Parameters are counted without the classifier.",
    make=answers_table,
)


def list_answers(answers: pd.DataFrame) -> list[tuple[str, str]]:
    """Pair each answer with its next step. Several answers begin with their task and models."""
    several = answers["models"].nunique() > 1
    places = answers["title"] + (", " + answers["models"] if several else "") + ": "
    places = places if len(answers) > 1 else ""
    return [*zip(places + answers["answer"], answers["next"], strict=True)]


def loss_table(
    methods: pd.DataFrame, task_titles: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, str]:
    """Format each method's score and loss, from `subtune.analysis.candidates.summarise_methods`.

    Without ``task_titles``, there is no column ``task``. The returned string explains the marks in
    one line. There is a column ``model`` if there are several models, ``against`` if the
    reference is not always full fine-tuning, and ``marks`` if a method has a mark.
    """
    rows, letters = [], dict[str, str]()
    several = methods["model"].nunique() > 1
    # TF-IDF and external predictions have no model.
    has_model = methods["encoder_size"].fillna(0) > 0
    methods = methods.assign(model=methods["model"].where(has_model, EMPTY))
    for row in methods.to_dict("records"):
        texts = _list_marks(row)
        for text in texts:
            # The marks are a, …, z, aa, bb, …
            number = len(letters)
            letters.setdefault(text, chr(ord("a") + number % 26) * (1 + number // 26))
        rows.append(
            {
                **({"model": row["model"]} if several else {}),
                **({"task": task_titles[row["task"]]} if task_titles else {}),
                "method": title_with_mask(row),
                **({} if task_titles else {"name": row["method"]}),
                # The number of parameters of external predictions is unknown.
                "parameters": EMPTY if pd.isna(row["encoder_size"]) else f"{row['trained']:,}",
                "score": format_number(row["score"], ".3f", missing=DIVERGED),
                f"{row['unit']}s": f"{row['compared']}/{row['planned']}",
                **_reference_column(row, methods),
                # With the option z, -0.000 becomes 0.000.
                "loss": format_number(-row["difference"], "z.3f"),
                "at most": format_number(row["most_lost"], ".3f"),
                f"within {row['margin']:g}": (
                    EMPTY if pd.isna(row["chance"]) else format_probability(row["chance"])
                ),
                "marks": " ".join(sorted(letters[text] for text in texts)),
            }
        )
    # There is one column per margin and unit. It is empty for methods with another margin or unit.
    table = pd.DataFrame(rows).fillna(EMPTY)
    line = "; ".join(f"({letter}) {text}" for text, letter in letters.items())
    notes = [f"Marks: {line}."] if letters else []
    if methods["metric"].nunique() == 1:
        notes.insert(0, f"Score: {metric_title(methods['metric'].iloc[0])}.")
    return (table if letters else table.drop(columns="marks")), " ".join(notes)


def _list_marks(row: Mapping[str, Any]) -> list[str]:
    if pd.isna(row["score"]):
        return []
    found, unit = [], row["unit"]
    if row["chance"] >= SURE > row["least_chance"]:
        found.append(f"may score more than {row['margin']:g} lower than {row['rival']}")
    if row["seeds"] == 1:
        found.append(f"one {unit}, so differences between {unit}s are unknown")
    if row["at_edge"]:
        found.append("the best learning rate is the smallest or largest of those tried")
    if row["curve"] in CURVES:
        found.append(CURVES[row["curve"]])
    if row["one_answer"] and row["method"] != CONSTANT:
        runs = f"{row['one_answer']} of {row['seeds']} runs"
        found.append(f"gives the same prediction for every example in {runs}")
    if row["share_read"] < MOST_READ:
        read = f"{row['share_read']:.0%} of the texts' tokens are read"
        found.append(f"{read}; a larger `max_length` includes more of them")
    return found


def _reference_column(row: Mapping[str, Any], methods: pd.DataFrame) -> dict[str, str]:
    """Format the cell ``against``, or no cell if all references are full fine-tuning."""
    names = {str(name).partition(" of ")[0] for name in methods["reference"].dropna()}
    if names <= {method_title(FULL), ""}:
        return {}
    is_compared = not pd.isna(row["difference"])
    return {"against": row["reference"] if is_compared else EMPTY}


def format_answers(path: Path) -> str:
    """Format the answers in a CSV file for the terminal. A single answer is followed by a table."""
    answers, lines = read_table(path, "answers"), [""]
    for sentences in list_answers(answers):
        # With several tasks, the answer and the next step of each task form one paragraph.
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


def summary_table(results: ExperimentResults) -> StyledTable:
    """Tabulate each method's score, size and cost, the highest score of each task first.

    Methods on the Pareto front of score and parameters are bold.
    """
    rows = results.summary
    shown = []
    for row in rows.to_dict("records"):
        task, against = results.tasks[row["task"]], _reference_column(row, rows)
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
                "on disk": format_with_unit(row["delta_bytes"], BYTES),
                "seconds": f"{row['seconds']:,.0f}",
                "best epoch": format_number(row["epoch"], "g"),
                "remarks": describe_curves(row) or EMPTY,
            }
        )
    return StyledTable(rows, pd.DataFrame(shown), bold=pd.DataFrame({"method": rows["on_front"]}))


SUMMARY = Table(
    "summary",
    "Score and cost of each method",
    "The table lists the dev score of each method at its best learning rate (mean ± standard "
    "deviation over seeds), highest score first. If the experiment reproduces a paper, scores are "
    "from the best epoch. Otherwise, if there are enough examples, each one is scored at an epoch "
    "that was chosen on others; an exported model may be from another epoch. The difference from "
    "the reference is paired by seed. Its 95 % interval is computed over seeds and dev examples "
    "(with a single seed, over examples alone). Trained parameters are counted without the "
    "classifier. The size on disk includes all changed values and the classifier. The column "
    "'seconds' is the wall time to train and evaluate one run; runs that are trained side by side "
    "share their time equally. Seconds and the best epoch are medians over seeds. A method is bold "
    "if no smaller method scores as high and no method of the same size scores higher (Pareto "
    f"front). 'One answer' means that a run gives the same prediction for every example. "
    f"{DIVERGED_CAPTION} {REMARKS}",
    make=summary_table,
)


def _format_score(row: Mapping[str, Any]) -> str:
    """Format the mean score, its standard deviation, and the remark ``one answer``."""
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
