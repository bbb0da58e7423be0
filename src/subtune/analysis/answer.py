"""Chooses the method to train for each task; formats the answer and the recommended next step."""

import itertools
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import (
    QUESTION,
    Candidate,
    Compared,
    are_scored_on_folds,
    compare_with_reference,
    scored_runs,
)
from subtune.analysis.intervals import Study
from subtune.analysis.run_scores import empty_row_scores
from subtune.methods import method_title

ALL_TASKS = "all tasks"
# For the decision ``probably``, a method must be within the margin with at least this probability.
LIKELY = 0.5
TUNE = "try other learning rates or more epochs"
Decision = Literal["train", "probably", "undecided", "everything"]


@dataclass(frozen=True)
class Answer:
    """The answer for one task, or for all tasks of a model.

    Attributes:
        models: the names of the compared models.
        margin: the largest acceptable loss of score against the reference.
        reference: the title of the reference; empty if no method has a score.
        full: the title of full fine-tuning; empty if it has no score.
        decision: from `_choose_method`.
        candidate: the chosen method, compared with the reference or, if the reference is chosen,
            with full fine-tuning. If the decision is *everything*, the candidate is the smaller
            method with the highest score.
        better: the best method that surely scores higher than full fine-tuning, if there is one.
        full_diverged: whether full fine-tuning was run but has no score.
        full_learnt_nothing: whether a run of full fine-tuning gives the same prediction for all
            examples.
        more_seeds: the number of additional seeds with which the candidate would surely be within
            the margin; None if unknown, as with a single seed.
        more_rows: the number of additional examples with which the candidate would surely be within
            the margin, with the same seeds; None if unknown, and for all tasks together.
        unit: the unit in which runs are counted: *fold* in cross-validation, otherwise *seed*.
        is_finished: whether all planned runs of all methods are recorded.
    """

    models: str
    task: str
    metric: str
    margin: float
    reference: str
    full: str
    decision: Decision | None
    candidate: Candidate | None
    better: Candidate | None
    full_diverged: bool
    full_learnt_nothing: bool
    more_seeds: int | None
    more_rows: int | None
    unit: str
    is_finished: bool


def find_answers(chosen: pd.DataFrame, row_scores: pd.DataFrame | None = None) -> list[Answer]:
    """Find the method to train for each task, and for all tasks together if there are several.

    In an experiment that reproduces a paper, each model has separate answers. If the runs come from
    experiments with different margins, the smallest margin applies.
    """
    row_scores = empty_row_scores() if row_scores is None else row_scores
    pseudo_values, found = row_scores.set_index("run"), []
    for models, runs_of_models in scored_runs(chosen).groupby("models", sort=False):
        questions = [*runs_of_models.groupby(QUESTION, sort=False)]
        found += [_build_answer(question, runs, pseudo_values) for question, runs in questions]
        if len(questions) > 1:
            together = _build_answer((models, ALL_TASKS, "mean"), runs_of_models, pseudo_values)
            found += [together] if together.candidate else []
    return found


def _build_answer(
    question: tuple[str, str, str], runs: pd.DataFrame, pseudo_values: pd.DataFrame
) -> Answer:
    margin, compared = float(runs["margin"].min()), compare_with_reference(runs, pseudo_values)
    done = runs.groupby(["title", "task"]).agg({"run": "size", "planned": "max"})
    is_finished = bool((done["run"] >= done["planned"]).all())
    decision, candidate = _choose_method(compared, margin)
    studies: tuple[Study, ...] = ()
    is_open = decision in ("probably", "undecided") and compared.full and is_finished
    if candidate and is_open and len(candidate.seeds) > 1:
        studies = candidate.studies
    with_full = compared.with_full
    better = [c for c in with_full.values() if c.difference.low > 0 and c.encoder_size >= 0]
    models, task, metric = question
    return Answer(
        models,
        task,
        metric,
        margin,
        compared.reference,
        compared.full,
        decision,
        candidate,
        better=max(better, key=lambda candidate: candidate.difference.mean, default=None),
        full_diverged=bool(runs["is_full"].any()) and not compared.full,
        full_learnt_nothing=bool(runs.loc[runs["is_full"], "one_answer"].any()),
        more_seeds=intervals.additional_seeds_needed(studies, margin),
        more_rows=(
            intervals.additional_rows_needed(studies[0], margin) if len(studies) == 1 else None
        ),
        unit="fold" if are_scored_on_folds(runs) else "seed",
        is_finished=is_finished,
    )


def _choose_method(compared: Compared, margin: float) -> tuple[Decision | None, Candidate | None]:
    """Choose the method to train, by the first of these rules that applies.

    1. *Train* the smallest method that is surely within the margin of the reference. This rule does
       not apply if full fine-tuning has no score.
    2. *Probably* train the smallest method that is within the margin with a probability of at least
       `LIKELY`. If there is no such method, and full fine-tuning has no score, *probably* train
       the reference.
    3. *Train* the reference, if it surely scores higher than full fine-tuning.
    4. *Undecided*: the recorded score of a smaller method is within the margin, but the probability
       that the method is within the margin is lower than `LIKELY` or unknown, for instance because
       there are few examples. The smallest method with such a score is returned.
    5. *Everything* should be trained: no smaller method is good enough. The returned candidate is
       the smaller method with the highest score.

    Rules 1, 2, 4 and 5 consider only methods that are smaller than the reference.
    """
    scored = compared.methods.get(compared.reference)
    smaller = [c for c in compared.methods.values() if scored and c.sort_key < scored.sort_key]
    sure = [c for c in smaller if c.is_sure and compared.full]
    likely = [c for c in smaller if c.chance >= LIKELY]
    near = [c for c in smaller if c.difference.mean >= -margin]
    if sure:
        return "train", sure[0]
    if likely or not compared.full:
        # There is no reference if no method has a score.
        return ("probably" if scored else None), next(iter(likely), scored)
    if compared.reference != compared.full:
        return "train", compared.with_full.get(compared.reference)
    if near:
        return "undecided", near[0]
    nearest = max(smaller, key=lambda c: c.difference.mean, default=None)
    return ("everything" if nearest else None), nearest


def format_share(value: float) -> str:
    """Format a share as a percentage with two significant digits, such as ``0.095 %``."""
    percent = 100 * value
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def format_probability(chance: float) -> str:
    """Format a probability in whole per cent; extreme values become ``< 1 %`` or ``> 99 %``."""
    percent = round(100 * chance)
    return "< 1 %" if percent < 1 else "> 99 %" if percent > 99 else f"{percent} %"


def short_answer(answer: Answer) -> str:
    """Format an answer as one sentence of at most twenty words.

    An example is ``LayerNorm is enough: 0.821 against 0.835 (64 %).``
    """
    candidate, reference = answer.candidate, _name_in_sentence(answer.reference)
    if not candidate:
        return f"{reference} is the only method with a score." if reference else "No score yet."
    title, embeddings = candidate.title, method_title("embeddings")
    scores = f"{title} score{'' if title.startswith(embeddings) else 's'}"
    if title == answer.reference and not answer.full:
        return f"{scores} best so far: {candidate.score:.3f}."
    if answer.decision == "everything":
        return f"{reference} is worth it: no smaller method scores within {answer.margin:g} of it."
    against = f"{candidate.score:.3f} against {candidate.reference_score:.3f}"
    if answer.reference not in (answer.full, title):
        against += f" of {answer.reference}"
    if not pd.isna(candidate.chance):
        against += f" ({format_probability(candidate.chance)})"
    if answer.decision == "undecided":
        return f"Undecided: {_lower_first_letter(scores)} {against}."
    if title.startswith((embeddings, method_title("tf-idf"))):
        return f"No fine-tuning is needed: {_lower_first_letter(scores)} {against}."
    if title == answer.reference:
        return f"{title} beats {_lower_first_letter(_name_in_sentence(answer.full))}: {against}."
    return f"{title} is enough: {against}."


def _name_in_sentence(title: str) -> str:
    """Return a method's title for use in a sentence: ``Full`` becomes ``Full fine-tuning``."""
    method, of, model = title.partition(" of ")
    return f"{method} fine-tuning{of}{model}" if method == method_title("full") else title


def _lower_first_letter(words: str) -> str:
    """Convert the first letter to lower case, unless it begins a name such as ``LoRA``."""
    is_word = words.startswith(("Full fine-tuning", "Embeddings"))
    return words[0].lower() + words[1:] if is_word else words


def next_step(answer: Answer) -> str:
    """Format the recommended next step as one sentence."""
    candidate, full = answer.candidate, _name_in_sentence(answer.full)
    if not (answer.full or answer.is_finished):
        return "Full fine-tuning has no score yet: run the same command with more minutes."
    if not answer.full:
        how = "try smaller learning rates" if answer.full_diverged else "add `full`"
        return f"Full fine-tuning has no score: {how}, or more minutes."
    if not candidate:
        return "Add a method that trains fewer parameters, such as `layernorm`."
    if answer.full_learnt_nothing:
        return f"{full} gives the same prediction for every example: {TUNE}."
    if answer.better:
        return f"{full} scores lower than {answer.better.title}: {TUNE}."
    if not answer.is_finished:
        return f"Some {answer.unit}s are missing: run the same command with more minutes."
    if answer.decision == "train":
        return "No more runs are needed."
    if len(candidate.seeds) == 1:
        return f"One {answer.unit} is not enough: use more, such as `seeds: [0, 1, 2]`."
    more = [f"{answer.more_rows:,} more {candidate.judged_by}"] if answer.more_rows else []
    if answer.more_seeds:
        unused = (seed for seed in itertools.count() if seed not in candidate.seeds)
        seeds = [*candidate.seeds, *itertools.islice(unused, answer.more_seeds)]
        more.append(f"`seeds: {seeds}`")
    if more:
        return f"For a certain answer, use about {' or '.join(more)}."
    if answer.decision == "everything":
        numbers = f"{candidate.score:.3f} against {candidate.reference_score:.3f}"
        return f"The nearest smaller method is {candidate.title}: {numbers}."
    return "For a certain answer, label more examples."
