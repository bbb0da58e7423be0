"""The smallest method that is good enough: as a table, in sentences, on a terminal."""

import itertools
import math
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from subtune.analysis.answers import ALL_TASKS, MARGIN, Answer, answers
from subtune.analysis.crossed import MOST_SEEDS
from subtune.analysis.row_scores import NO_ROWS
from subtune.analysis.summary import Candidate
from subtune.analysis.verdicts import FEWEST_UNITS, SUPPORTED, UNDECIDED
from subtune.exhibits.tables.writing import EMPTY, Styled, escaped, interval, share, signed

CONFIDENT = "smallest with 95 % confidence"
HEADINGS = [
    "model", "task", f"smallest within {MARGIN}", "parameters", "share of full", "score", "full",
    "minus full", "95 % interval", CONFIDENT, "still needed",
]  # fmt: skip
# Columns of whole numbers, of which some are missing.
WHOLE = ["trained", "seeds", "more_seeds", "more_rows"]
MISSING = {
    "full": "Full fine-tuning is not among the methods: add `full`.",
    "score of full": "Full fine-tuning diverged: give it smaller learning rates.",
    "smaller method": "No method that trains less than full has a score.",
}
ON_SAME_ROWS = "The dev rows that judge here have also chosen epochs and learning rates."
CHOSEN_ON_DEV = "Dev rows have chosen epochs and learning rates; these scores are of test rows."
LONGER = {"dev": "validation", "test": "test"}
QUESTION = "Which few parameters are worth fine-tuning?"
WIDEST = 100


def smallest_methods(
    chosen: pd.DataFrame, task_titles: Mapping[str, str], row_scores: pd.DataFrame = NO_ROWS
) -> Styled:
    """Return a table of the smallest methods that are good enough.

    It has a row per model and task, and one for all tasks of a model that has several. The CSV file
    has ``model``, ``task``, ``title``, ``metric``; of the smallest method within the margin
    ``method``, ``trained``, ``share``, ``score``, ``full`` (full's score), ``difference``, ``low``,
    ``high``, ``over`` (what the interval is over), ``seeds`` and ``verdict``, or of the nearest
    method if ``is_within`` is false; ``surely``, the smallest method whose whole interval is within
    the margin, which is bold; ``more_seeds`` or ``more_rows`` that would decide; and ``answer``, in
    sentences.
    """
    found = answers(chosen, row_scores)
    titles = {**task_titles, ALL_TASKS: ALL_TASKS}
    rows = [_numbers(answer, titles[answer.task]) for answer in found]
    shown = [_shown(answer, titles[answer.task]) for answer in found]
    is_sure = [answer.confident is not None for answer in found]
    sentences = [f"* {escaped(f'{a.model}, {titles[a.task]}')}: {in_words(a)}" for a in found]
    judged_by = [a.candidate.judged_by if a.candidate else "dev" for a in found]
    return Styled(
        pd.DataFrame(rows).astype(dict.fromkeys(WHOLE, "Int64")),
        pd.DataFrame(shown, columns=HEADINGS),
        bold=pd.DataFrame({CONFIDENT: is_sure}),
        before="\n".join(sentences),
        note=ON_SAME_ROWS if "dev" in judged_by else CHOSEN_ON_DEV,
    )


def _numbers(answer: Answer, title: str) -> dict[str, object]:
    candidate, confident = answer.candidate, answer.confident
    mean, low, high = candidate.difference if candidate else [math.nan] * 3
    return {
        "model": answer.model,
        "task": answer.task,
        "title": title,
        "metric": answer.metric,
        "method": candidate and candidate.title,
        "trained": candidate.trained if candidate else pd.NA,
        "share": candidate.share if candidate else math.nan,
        "score": candidate.score if candidate else math.nan,
        "full": candidate.full_score if candidate else math.nan,
        "difference": mean,
        "low": low,
        "high": high,
        "over": candidate and candidate.over,
        "seeds": len(candidate.seeds) if candidate else pd.NA,
        "verdict": answer.verdict,
        "more_seeds": pd.NA if answer.more_seeds is None else answer.more_seeds,
        "more_rows": pd.NA if answer.more_rows is None else answer.more_rows,
        "is_within": answer.is_within if candidate else None,
        "surely": confident and confident.title,
        "answer": in_words(answer),
    }


def _shown(answer: Answer, title: str) -> dict[str, str]:
    """Return the cells below `HEADINGS`; only the first three if there is no method to name."""
    candidate = answer.candidate
    if not candidate:
        return dict(zip(HEADINGS, [answer.model, title, in_words(answer)], strict=False))
    cells = [
        answer.model,
        title,
        ("" if answer.is_within else "none; nearest is ") + candidate.title,
        f"{candidate.trained:,}",
        share(candidate.share),
        f"{candidate.score:.4f}",
        f"{candidate.full_score:.4f}",
        signed(candidate.difference.mean),
        interval(candidate.difference.low, candidate.difference.high),
        answer.confident.title if answer.confident else EMPTY,
        _needed(answer) or EMPTY,
    ]
    return dict(zip(HEADINGS, cells, strict=True))


def in_words(answer: Answer) -> str:
    """Return an answer in sentences."""
    candidate, confident, better = answer.candidate, answer.confident, answer.better
    if not candidate:
        return MISSING[answer.missing or "smaller method"]
    is_open = answer.verdict == UNDECIDED
    verdict = "Yes" if answer.verdict == SUPPORTED else "Undecided" if is_open else "No"
    none = "" if answer.is_within else f"none is within {MARGIN} of full. The nearest: "
    sentences = [f"{verdict}: {none}{_described(candidate)}."]
    if is_open:
        sentences.append(_what_settles(answer))
        if confident:
            sentences.append(f"With 95 % confidence: {_described(confident)}.")
    if candidate.full_with_one_answer:
        runs = f"{candidate.full_with_one_answer} run" + "s" * (candidate.full_with_one_answer > 1)
        sentences.append(f"{runs} of full predict the same for every row: full has learnt nothing.")
    where = " on some tasks" if answer.task == ALL_TASKS else ""
    for title in candidate.at_edge:
        sentences.append(f"{title}'s learning rate is at the edge of those tried{where}.")
    for title in candidate.still_rising:
        rising = f"{title} was still rising in its last epoch{where}"
        sentences.append(f"{rising}: give it more epochs.")
    if better:
        less = f"Full scores {better.difference.mean:.3f} less than {better.title}"
        sentences.append(f"{less}: try other learning rates for full.")
    return " ".join(sentences)


def _described(candidate: Candidate) -> str:
    """Return a method with its size and its scores."""
    size = "nothing of the model trains"
    if candidate.trained:
        size = f"{candidate.trained:,} parameters, {share(candidate.share)} of full's"
    mean, low, high = candidate.difference
    scores = f"scores {candidate.score:.4f}, full {candidate.full_score:.4f}"
    text = f"{candidate.title} ({size}) {scores}"
    if math.isnan(low):
        return text
    return f"{text}: {signed(mean)} (95 % interval {interval(low, high)}, {candidate.over})"


def _what_settles(answer: Answer) -> str:
    """Return a sentence about the seeds or the rows that would decide."""
    assert answer.candidate
    needed = _needed(answer)
    if not needed:
        return f"More than {MOST_SEEDS} seeds would be needed."
    unused = (number for number in itertools.count() if number not in answer.candidate.seeds)
    enough = [*answer.candidate.seeds, *itertools.islice(unused, answer.more_seeds or 0)]
    changes = [
        f"write `seeds: {enough}`" if answer.more_seeds else "",
        f"name a longer `{LONGER[answer.candidate.judged_by]}` file" if answer.more_rows else "",
    ]
    change = " or ".join(filter(None, changes))
    if len(answer.candidate.seeds) < FEWEST_UNITS:
        return f"An interval needs {needed}: {change}."
    return f"About {needed} would settle it: {change}."


def _needed(answer: Answer) -> str:
    """Return the seeds or the rows that would decide, or nothing if neither is known."""
    assert answer.candidate
    judged_by = answer.candidate.judged_by
    plural = "" if answer.more_seeds == 1 else "s"
    seeds = f"{answer.more_seeds} more seed{plural}" if answer.more_seeds else ""
    rows = f"{answer.more_rows:,} more {judged_by} rows" if answer.more_rows else ""
    return " or ".join(filter(None, [seeds, rows]))


def answers_in_lines(path: Path) -> str:
    """Return the answers of a CSV file as lines, as wide as the terminal."""
    table = pd.read_csv(path, keep_default_na=False)
    width = min(WIDEST, shutil.get_terminal_size().columns)
    heading = f"The smallest method that scores at most {MARGIN} below full fine-tuning:"
    lines = ["", QUESTION, heading, ""]
    for model, rows in table.groupby("model", sort=False):
        lines.append(f"{model}:")
        for row in rows.to_dict("records"):
            text = f"{row['title']}: {row['answer']}"
            lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
        lines.append("")
    return "\n".join([*lines, f"More in {path.parent}: front.png, summary.md."])
