"""Answers: the method to train, for each model and task, and the sentences that say so."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import (
    FULL_TITLE,
    Candidate,
    compare_with_reference,
    folds_judge,
    judged_runs,
)
from subtune.analysis.chosen_runs import QUESTION
from subtune.analysis.intervals import Study
from subtune.analysis.run_scores import NO_ROWS
from subtune.methods import method_title

ALL_TASKS = "all tasks"
Decision = Literal["train", "probably", "everything"]
Missing = Literal["full", "score of full", "smaller method"]
# By method: how many seeds or folds are done, and how many are planned.
Unfinished = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Answer:
    """The answer for one model and task, or for all tasks of a model.

    Attributes:
        margin: the largest acceptable loss of score against the reference.
        reference: the reference's title, or empty
            (`subtune.analysis.candidates.compare_with_reference`).
        decision: from `_decide`.
        candidate: the method of the decision; if everything trains, the method nearest to full. Its
            numbers are against the reference, or if it is the reference, against full.
        better: the best method whose whole interval is above full's score.
        missing: why there is no candidate, or why full is not the reference.
        full_with_one_answer: the number of full fine-tuning's runs that predict the same answer for
            all rows.
        more_seeds: how many further seeds would make a probable method sure, if it is known. It is
            unknown with a single seed.
        more_rows: how many further rows would do so, with the same seeds; unknown for all tasks.
        unit: *fold* or *seed*, in which methods are planned.
        unfinished: the methods that lack some of their seeds or folds.
    """

    model: str
    task: str
    metric: str
    margin: float
    reference: str
    decision: Decision | None
    candidate: Candidate | None
    better: Candidate | None
    missing: Missing | None
    full_with_one_answer: int
    more_seeds: int | None
    more_rows: int | None
    unit: str
    unfinished: Unfinished


def find_answers(
    chosen: pd.DataFrame,
    row_scores: pd.DataFrame = NO_ROWS,
    unfinished: Unfinished = MappingProxyType({}),
) -> list[Answer]:
    """Return an answer per model and task, and one for all tasks of a model that has several.

    If experiments have different margins, the smallest counts.
    """
    pseudo_values, found = row_scores.set_index("run"), []
    for model, runs_of_model in judged_runs(chosen).groupby("model", sort=False):
        questions = [*runs_of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            question = str(model), str(task), str(metric)
            found.append(_answer(question, runs, pseudo_values, unfinished))
        if len(questions) > 1:
            question = str(model), ALL_TASKS, "mean"
            together = _answer(question, runs_of_model, pseudo_values, unfinished)
            found += [together] if together.candidate else []
    return found


def _answer(
    question: tuple[str, str, str],
    runs: pd.DataFrame,
    pseudo_values: pd.DataFrame,
    unfinished: Unfinished,
) -> Answer:
    """Return the answer from the runs of one model on one or all tasks."""
    margin, full = float(runs["margin"].min()), runs[runs["title"] == FULL_TITLE]
    reference, compared, with_full = compare_with_reference(runs, pseudo_values)
    missing: Missing | None = None
    if reference not in with_full:
        missing = "full" if full.empty else "score of full"
    decision, candidate = _decide(reference, margin, compared, with_full, missing)
    better: list[Candidate] = []
    studies: tuple[Study, ...] = ()
    if candidate:
        size = full["trained"].median()
        better = [c for c in with_full.values() if c.difference.low > 0 and c.trained < size]
        if decision == "probably" and not (missing or unfinished) and len(candidate.seeds) > 1:
            studies = candidate.studies
    return Answer(
        *question,
        margin,
        reference,
        decision=decision if candidate else None,
        candidate=candidate,
        better=max(better, key=lambda candidate: candidate.difference.mean, default=None),
        missing=missing if missing or candidate else "smaller method",
        full_with_one_answer=int(full["one_answer"].sum()),
        more_seeds=intervals.additional_seeds_needed(studies, margin),
        more_rows=(
            intervals.additional_rows_needed(studies[0], margin) if len(studies) == 1 else None
        ),
        unit="fold" if folds_judge(runs) else "seed",
        unfinished=unfinished,
    )


def _decide(
    reference: str,
    margin: float,
    compared: Mapping[str, Candidate],
    with_full: Mapping[str, Candidate],
    missing: Missing | None,
) -> tuple[Decision, Candidate | None]:
    """Return the decision, and the method that it names. The first rule that applies decides:

    1. *Train* the smallest method that is sure to be within the margin of the reference. Without a
       score of full, no method is sure.
    2. *Probably* the smallest method within the margin of the reference with a chance of at least a
       half. If there is none, and full has no score, *probably* the reference.
    3. *Train* the reference, if it beats full.
    4. *Everything*, which is full fine-tuning; the method nearest to full is named.

    Only methods that are smaller than the reference are named in rules 1, 2 and 4. There is no such
    method if the reference has no score.

    Args:
        reference: the reference's title, or empty.
        margin: the largest acceptable loss of score against the reference.
        compared: the comparison of each method with the reference, from the smallest method, by
            title.
        with_full: the comparison of each method with full fine-tuning.
        missing: why full is not the reference, if it lacks a score.
    """
    scored = compared.get(reference)
    smaller = [c for c in compared.values() if scored and c.trained < scored.trained]
    if not missing:
        for candidate in smaller:
            if candidate.is_sure:
                return "train", candidate
    for candidate in smaller:
        # The distribution is symmetric: the chance is at least a half if the mean is within.
        if candidate.difference.mean >= -margin:
            return "probably", candidate
    if missing:
        return "probably", scored
    if reference != FULL_TITLE:
        return "train", with_full.get(reference)
    return "everything", max(smaller, key=lambda c: c.difference.mean, default=None)


MISSING = {
    "full": "Full fine-tuning is not among the methods: add `full`.",
    "score of full": "Full has no score: if it diverged, give it smaller learning rates.",
    "smaller method": "No method that trains less than full has a score.",
}
# A larger share of the texts needs no remark.
MOST_READ = 0.95


def format_share(value: float) -> str:
    """Return a share with two significant digits: ``0.095 %``, ``13 %``."""
    percent = 100 * value
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def format_chance(chance: float) -> str:
    """Return a chance in whole per cent, but never 0 % or 100 %."""
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
        sentences = [_describe_decision(answer, candidate), *_about_reference(answer, candidate)]
        if answer.decision == "probably" and not answer.missing:
            sentences.append(_what_would_decide(answer, candidate))
        sentences += _doubts(answer, candidate)
    if answer.unfinished:
        counts = [
            f"{method_title(name)} {done} of {all}"
            for name, (done, all) in answer.unfinished.items()
        ]
        counts[0] += f" {answer.unit}s"
        shared = f"each loss is over the {answer.unit}s that both methods have"
        goes_on = "the same command with more minutes goes on"
        sentences.append(f"Not finished: {', '.join(counts)}; {shared}; {goes_on}.")
    return " ".join(sentences)


def _about_reference(answer: Answer, candidate: Candidate) -> list[str]:
    """Return a sentence about the reference, unless it is full."""
    reference, margin = answer.reference, f"{answer.margin:g}"
    if answer.missing:
        tried = f"Methods are compared with {reference}, the best of those with the most runs."
        is_planned = FULL_TITLE in map(method_title, answer.unfinished)
        return [tried] if is_planned else [tried, MISSING[answer.missing]]
    if reference == FULL_TITLE:
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


def _describe_decision(answer: Answer, candidate: Candidate) -> str:
    """Return the sentence that names what to train."""
    named = candidate.title
    if named == method_title("embeddings"):
        named = "nothing (a regression on frozen embeddings)"
    elif named == method_title("frozen"):
        named += " (the classifier alone)"
    else:
        # Full's parameters are unknown if it has no run.
        of_all = "" if pd.isna(candidate.share) else f", {format_share(candidate.share)} of all"
        named += f" ({candidate.trained:,} parameters{of_all})"
    reference = "full" if candidate.reference == FULL_TITLE else candidate.reference
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
        within = ""
        if candidate.studies:
            chance = format_chance(candidate.chance)
            within = f"; it is within {answer.margin:g} of {reference} with {chance} chance"
        return f"Probably {named}: {scores}{within}{caveat}."
    loss = -candidate.difference.mean
    at_most = f", at most {most:.4f}" if candidate.studies else ""
    return f"Train everything: the nearest method, {named}, loses {loss:.4f}{at_most}{caveat}."


def _what_would_decide(answer: Answer, candidate: Candidate) -> str:
    """Return a sentence about the safe choice, and the number of seeds or rows that would
    decide."""
    reference = "Full fine-tuning" if answer.reference == FULL_TITLE else answer.reference
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
