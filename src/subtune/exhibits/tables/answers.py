"""The smallest method that is good enough: as a table, in sentences, on a terminal."""

import math
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from subtune.analysis.answers import ALL_TASKS, MARGIN, MOST_SEEDS, Answer, answers
from subtune.analysis.summary import Candidate
from subtune.analysis.verdicts import NOT_SUPPORTED, SUPPORTED
from subtune.exhibits.tables.writing import EMPTY, Styled, interval, share, signed
from subtune.selections.methods import title_with_mask

CONFIDENT = "smallest with 95 % confidence"
HEADINGS = [
    "model", "task", f"smallest within {MARGIN}", "parameters", "share of full", "score", "full",
    "minus full", "95 % interval", CONFIDENT, "seeds still needed",
]  # fmt: skip
MISSING = {
    "full": "Full fine-tuning is not among the methods: add `full`.",
    "score of full": "Full fine-tuning diverged: give it smaller learning rates.",
    "smaller method": "No method that trains less than full has a score.",
}
QUESTION = "Which few parameters are worth fine-tuning?"
WIDEST = 100


def smallest_methods(chosen: pd.DataFrame, task_titles: Mapping[str, str]) -> Styled:
    """Return a table of the smallest methods that are good enough.

    It has a row per model and task, and one for all tasks of a model that has several. The CSV file
    has ``model``, ``task``, ``title``, ``metric``; of the smallest method within the margin
    ``method``, ``trained``, ``share``, ``score``, ``full`` (full's score), ``difference``, ``low``,
    ``high``, ``unit``, ``units`` (how many) and ``verdict``, or of the nearest method if
    ``is_within`` is false; ``surely``, the smallest method whose whole interval is within the
    margin, which is bold; ``more_seeds`` that would decide; and ``answer``, a sentence.

    Args:
        chosen: the runs of the best learning rates.
    """
    found = answers(chosen)
    titles = {**task_titles, ALL_TASKS: ALL_TASKS}
    rows = [_numbers(answer, titles[answer.task]) for answer in found]
    shown = [_shown(answer, titles[answer.task]) for answer in found]
    is_sure = [answer.confident is not None for answer in found]
    return Styled(
        pd.DataFrame(rows).astype({"trained": "Int64", "units": "Int64", "more_seeds": "Int64"}),
        pd.DataFrame(shown, columns=HEADINGS),
        bold=pd.DataFrame({CONFIDENT: is_sure}),
    )


def _numbers(answer: Answer, title: str) -> dict[str, object]:
    candidate, confident = answer.candidate, answer.confident
    mean, low, high = candidate.difference if candidate else [math.nan] * 3
    return {
        "model": answer.model,
        "task": answer.task,
        "title": title,
        "metric": answer.metric,
        "method": candidate and _title(candidate),
        "trained": candidate.trained if candidate else pd.NA,
        "share": candidate.share if candidate else math.nan,
        "score": candidate.score if candidate else math.nan,
        "full": candidate.full_score if candidate else math.nan,
        "difference": mean,
        "low": low,
        "high": high,
        "unit": candidate and candidate.unit,
        "units": len(candidate.units) if candidate else pd.NA,
        "verdict": answer.verdict,
        "more_seeds": pd.NA if answer.more_seeds is None else answer.more_seeds,
        "is_within": answer.is_within if candidate else None,
        "surely": confident and _title(confident),
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
        ("" if answer.is_within else "none; nearest is ") + _title(candidate),
        f"{candidate.trained:,}",
        share(candidate.share),
        f"{candidate.score:.4f}",
        f"{candidate.full_score:.4f}",
        signed(candidate.difference.mean),
        interval(candidate.difference.low, candidate.difference.high),
        _title(answer.confident) if answer.confident else EMPTY,
        EMPTY if answer.more_seeds is None else str(answer.more_seeds),
    ]
    return dict(zip(HEADINGS, cells, strict=True))


def in_words(answer: Answer) -> str:
    """Return an answer in sentences."""
    candidate, confident, better = answer.candidate, answer.confident, answer.better
    if not candidate:
        return MISSING[answer.missing or "smaller method"]
    if not answer.is_within:
        nearest = f"None is within {MARGIN} of full. The nearest is {_described(candidate)}."
        return nearest if answer.verdict == NOT_SUPPORTED else f"{nearest} {_needed(answer)}"
    sentences = [f"{_described(candidate)}."]
    if answer.verdict != SUPPORTED:
        sentences.append(_needed(answer))
        if confident:
            sentences.append(f"With 95 % confidence: {_described(confident)}.")
    if better:
        less = f"Full scores {better.difference.mean:.3f} less than {_title(better)}"
        sentences.append(f"{less}: try other learning rates for full.")
    return " ".join(sentences)


def _described(candidate: Candidate) -> str:
    """Return a method with its size and its scores."""
    size = "only the classifier"
    if candidate.trained:
        size = f"{candidate.trained:,} parameters, {share(candidate.share)} of full's"
    mean, low, high = candidate.difference
    text = f"{_title(candidate)} ({size}): {candidate.score:.4f} against {candidate.full_score:.4f}"
    if math.isnan(low):
        return text
    number = f"{len(candidate.units)} {candidate.unit}s"
    return f"{text}, {signed(mean)} (95 % interval {interval(low, high)}, {number})"


def _needed(answer: Answer) -> str:
    """Return a sentence about the seeds that would decide."""
    assert answer.candidate
    if answer.candidate.unit != "seed":
        return "Undecided: run at least 3 seeds."
    seeds = len(answer.candidate.units)
    undecided = f"Undecided with {seeds} seed{'s' if seeds > 1 else ''}"
    if answer.more_seeds is None:
        return f"{undecided}; more than {MOST_SEEDS} would be needed."
    about = "at least" if seeds < 3 else "about"
    return f"{undecided}; {about} {answer.more_seeds} more would settle it."


def _title(candidate: Candidate) -> str:
    return title_with_mask(candidate.method, candidate.fraction, candidate.scope)


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
