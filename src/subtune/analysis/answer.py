"""Choose the method to train for each task, and format the answer and the next step."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from subtune.analysis import intervals
from subtune.analysis.candidates import (
    LIKELY,
    POSSIBLE,
    QUESTION,
    SURE,
    Candidate,
    MethodComparison,
    are_scored_on_folds,
    compare_with_reference,
    select_scored_runs,
)
from subtune.analysis.chosen_runs import STILL_RISING, have_same_unit
from subtune.analysis.intervals import Study
from subtune.methods import FULL, RANKED_BY, method_title
from subtune.methods.baselines import CONSTANT
from subtune.methods.rules import RANDOM
from subtune.tasks.metrics import is_scorer

ALL_TASKS = "all tasks"
TUNE = "try other learning rates or more epochs"
# The title of the baseline that learns nothing from the texts.
NOTHING_LEARNED = method_title(CONSTANT)
Decision = Literal["train", "probably", "undecided", "probably everything", "everything"]
# Maps the ratio of the sizes of two methods to words.
SIZE_WORDS = {1: "a little smaller", 2: "half its size", 3: "a third of its size"}
SIZE_WORDS |= {4: "a quarter of its size", 5: "a fifth of its size"}


@dataclass(frozen=True)
class Answer:
    """The answer for one task, or for all tasks of the compared models.

    Attributes:
        margin: the largest acceptable drop in score relative to the reference.
        candidate: the chosen method, compared with the reference or, if the reference is chosen,
            with full fine-tuning. If the decision is *undecided*, *everything* or *probably
            everything*, the candidate is the smaller method with the highest probability.
        runs: the scores of all compared runs, from `select_scored_runs`.
        is_finished: whether all planned runs of all methods are recorded.
        rising: those of full fine-tuning and the method that would be named whose scores still rise
            in the last epoch. If there are any, the decision is *undecided*.
        left_out: if *everything* would be the decision, the titles of the methods that were left
            out to save time. If there are any, the decision is *undecided*.
        share_of_rows: the share of the table's rows that were drawn as the training set.
        more_seeds: the number of additional seeds needed to be sure whether the candidate is within
            the margin, if known.
        more_rows: the number of additional examples needed, if it is known and there is only one
            task.
    """

    models: str
    task: str
    metric: str
    margin: float
    decision: Decision | None
    candidate: Candidate | None
    compared: MethodComparison
    runs: pd.DataFrame
    is_finished: bool
    rising: list[str]
    left_out: list[str]
    share_of_rows: float
    more_seeds: int | None
    more_rows: int | None


def find_answers(chosen: pd.DataFrame, row_scores: pd.DataFrame) -> list[Answer]:
    """Find the method to train for each task, and for all tasks together if there are several.

    There is no answer for all tasks if their scores have different units.
    In an experiment that reproduces a paper, each model has separate answers.
    """
    found, scored = [], select_scored_runs(chosen, row_scores)
    for models, runs_of_models in scored.groupby("models", sort=False):
        questions = [*runs_of_models.groupby(QUESTION, sort=False)]
        found += [build_answer(question, runs) for question, runs in questions]
        if len(questions) > 1 and have_same_unit(runs_of_models):
            together = build_answer((models, ALL_TASKS, "mean"), runs_of_models)
            found += [together] if together.candidate else []
    return found


def build_answer(question: tuple[str, str, str], runs: pd.DataFrame) -> Answer:
    """Find the answer to one question from the rows of `select_scored_runs` that belong to it.

    ``question`` has the values of the columns `subtune.analysis.candidates.QUESTION`.
    """
    margin, compared = float(runs["margin"].min()), compare_with_reference(runs)
    done = runs.groupby(["title", "task"]).agg({"run": "size", "planned": "max"})
    is_finished = bool((done["run"] >= done["planned"]).all())
    decision, candidate = choose_method(compared, margin)
    still_rising = {*runs.loc[runs["curve"] == STILL_RISING, "title"]}
    named = [compared.full, candidate.title] if candidate else []
    rising = [title for title in dict.fromkeys(named) if title in still_rising]
    # A method that was not tried may be enough.
    is_worth_it = decision in ("everything", "probably everything")
    left_out = list_left_out(runs) if is_worth_it else []
    # An answer must not depend on how long a method was trained.
    if left_out or (rising and decision != "undecided"):
        decision, candidate = _leave_undecided(_list_considered(compared), margin)
    studies: tuple[Study, ...] = ()
    is_open = decision not in ("train", "everything") and compared.full and is_finished
    if candidate and is_open and len(candidate.seeds) > 1:
        studies = candidate.studies
    return Answer(
        *question,
        margin,
        decision,
        candidate,
        compared,
        runs,
        is_finished,
        rising,
        left_out,
        share_of_rows=runs["share_of_rows"].min() if "share_of_rows" in runs else 1,
        more_seeds=intervals.additional_seeds_needed(studies, margin),
        more_rows=intervals.additional_rows_needed(studies, margin),
    )


def list_left_out(runs: pd.DataFrame) -> list[str]:
    """List the titles of the methods that were left out to save time, and that have no run."""
    if "left_out" not in runs:
        return []
    texts = runs["left_out"].dropna().unique()
    names = dict.fromkeys(name for text in texts for name in text.split(", ") if name)
    return [name for name in names if name not in {*map(method_title, runs["method"])}]


def choose_method(
    compared: MethodComparison, margin: float
) -> tuple[Decision | None, Candidate | None]:
    """Choose the method to train, by the first of these rules that applies.

    1. *Train* the smallest method that is surely within the margin of the best method. This rule
       does not apply if full fine-tuning has no score.
    2. *Probably* train the smallest method that is within the margin with a probability of at least
       `LIKELY`. Without a score of full fine-tuning, this is no constant prediction.
    3. *Everything* should be trained, or *probably everything*: full fine-tuning is the reference,
       and the probability that no smaller method is within the margin is at least `SURE` or
       `LIKELY`.
    4. *Undecided*. The candidate is the most probable method or, if no probability is known, the
       smallest method whose score is within the margin. Without a score of full fine-tuning, it is
       the reference.

    A method whose score is within the margin may have no probability, for example if its F1 is
    that of the reference with all seeds. Then larger methods are neither named nor *worth it*.

    The first three rules need two seeds or more, because probabilities from one seed are too high.
    The rules consider the methods that are smaller than the reference and, if it is not full
    fine-tuning, the reference.
    """
    scored = compared.methods.get(compared.reference)
    if not scored:
        return None, None
    considered = _list_considered(compared)
    sure = [c for c in considered if c.is_sure and compared.full]
    likely = [c for c in considered if c.chance >= LIKELY and len(c.seeds) > 1]
    if not compared.full:
        likely = [c for c in likely if c.title != NOTHING_LEARNED]
    named = sure[0] if sure else likely[0] if likely else None
    unknown = _find_unknown(considered, margin)
    if named and (not unknown or considered.index(named) < considered.index(unknown)):
        return ("train" if sure else "probably"), named
    if not compared.full:
        return "undecided", scored
    best = _find_most_probable(considered)
    worth = _chance_of_reference(compared)
    if best and compared.reference == compared.full and len(best.seeds) > 1 and worth >= LIKELY:
        return ("everything" if worth >= SURE else "probably everything"), best
    return _leave_undecided(considered, margin)


def _list_considered(compared: MethodComparison) -> list[Candidate]:
    """List the methods that `choose_method` considers, the smallest first."""
    largest = compared.methods[compared.reference].sort_key
    considered = [
        c
        for c in compared.methods.values()
        if c.sort_key < largest or (c.title == NOTHING_LEARNED and c.title != compared.reference)
    ]
    if compared.full and compared.reference != compared.full:
        considered.append(compared.with_full[compared.reference])
    # Among methods without a model, a constant prediction is the smallest.
    return sorted(considered, key=lambda candidate: candidate.title != NOTHING_LEARNED)


def _find_unknown(considered: list[Candidate], margin: float) -> Candidate | None:
    """Find the smallest method within the margin without a probability, if others have one."""
    unknown = [c for c in considered if math.isnan(c.chance) and c.difference.mean >= -margin]
    return unknown[0] if unknown and len(considered) > len(unknown) else None


def _find_most_probable(considered: list[Candidate]) -> Candidate | None:
    known = [c for c in considered if not math.isnan(c.chance)]
    return max(known, key=lambda c: (c.chance, c.difference.mean), default=None)


def _leave_undecided(
    considered: list[Candidate], margin: float
) -> tuple[Decision | None, Candidate | None]:
    """Apply the last rule of `choose_method`."""
    # All scores within the margin count as ties, which the smallest method wins.
    nearest = max(considered, key=lambda c: min(c.difference.mean, -margin), default=None)
    first = _find_unknown(considered, margin) or _find_most_probable(considered) or nearest
    return ("undecided" if first else None), first


def _chance_of_reference(compared: MethodComparison) -> float:
    """Compute a lower bound of the probability that no smaller method is within the margin."""
    key = compared.methods[compared.reference].sort_key
    smaller = (c for c in compared.methods.values() if c.sort_key < key)
    # Two methods that train the same entries have the same runs, and count once.
    return 1 - sum({candidate.runs: candidate.chance for candidate in smaller}.values())


def format_share(value: float) -> str:
    """Format a share as a percentage with two significant digits, such as ``0.095 %``."""
    percent = 100 * value
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def format_probability(chance: float) -> str:
    """Format a probability as a percentage. Extreme values become ``< 1 %`` or ``> 99 %``."""
    percent = round(100 * chance)
    return "< 1 %" if percent < 1 else "> 99 %" if percent > 99 else f"{percent} %"


def short_answer(answer: Answer) -> str:
    """Format an answer as one sentence, with its probability.

    It has at most twenty words. If only some of the rows are used, their share is added.
    """
    sentence = _format_decision(answer)
    if answer.share_of_rows == 1 or not answer.candidate:
        return sentence
    return f"{sentence.removesuffix('.')}, on {format_share(answer.share_of_rows)} of the rows."


def _format_decision(answer: Answer) -> str:
    candidate, compared = answer.candidate, answer.compared
    reference = _name_in_sentence(compared.reference)
    if not candidate:
        return f"{reference} is the only method with a score." if reference else "No score yet."
    title, words = candidate.title, method_title("embeddings")
    name = _name_in_sentence(title)
    is_plural, decision = title.startswith(words), answer.decision
    if title == compared.reference and not compared.full:
        return f"{name} score{'' if is_plural else 's'} best so far: {candidate.score:.3f}."
    probably = "probably " if decision in ("probably", "probably everything") else ""
    if decision in ("everything", "probably everything") or answer.left_out:
        sure = format_probability(_chance_of_reference(compared))
        within = f"scores within {answer.margin:g} of"
        if answer.left_out:
            none = f"no smaller method that was tried {within} {_lower_first_letter(reference)}"
            return f"Undecided: {none} ({sure})."
        return f"{reference} is {probably}worth it: no smaller method {within} it ({sure})."
    against = f"{candidate.score:.3f} against {candidate.reference_score:.3f}"
    if compared.reference not in (compared.full, title):
        against += f" of {compared.reference}"
    if decision == "undecided":
        has = f"Undecided: {_lower_first_letter(name)} {'have' if is_plural else 'has'}"
        if not math.isnan(candidate.chance):
            has += f" the best chance ({format_probability(candidate.chance)}), with"
        return f"{has} {against}."
    against += f" ({format_probability(candidate.chance)})"
    if _is_nothing_learned(candidate):
        learned = f"{probably}nothing is learned".capitalize()
        return f"{learned}: a constant prediction scores {against}."
    fitted = answer.runs.loc[answer.runs["title"] == title, "learning_rate"].isna().all()
    if fitted or title == NOTHING_LEARNED:
        scores = f"{_lower_first_letter(name)} score{'' if is_plural else 's'}"
        needed = f"{probably}no fine-tuning is needed".capitalize()
        return f"{needed}: {scores} {against}."
    if title == compared.reference and decision == "train":
        return f"{title} beats {_lower_first_letter(_name_in_sentence(compared.full))}: {against}."
    return f"{title} is {probably}enough: {against}."


def _is_nothing_learned(candidate: Candidate) -> bool:
    """Return whether the candidate is a constant prediction that may be as good as the reference.

    The reference may also be surely better, but by less than the margin.
    """
    return candidate.title == NOTHING_LEARNED and not candidate.difference.high < 0


def _name_in_sentence(title: str) -> str:
    """Return a method's title for use in a sentence: ``Full`` becomes ``Full fine-tuning``."""
    if title == NOTHING_LEARNED:
        return "A constant prediction"
    method, of, model = title.partition(" of ")
    return f"{method} fine-tuning{of}{model}" if method == method_title(FULL) else title


def _lower_first_letter(words: str) -> str:
    """Convert the first letter to lower case, unless it begins a name such as ``LoRA``."""
    is_word = words.startswith(("Full fine-tuning", "Embeddings", "A constant prediction"))
    return words[0].lower() + words[1:] if is_word else words


def next_step(answer: Answer) -> str:
    """Describe a control, a smaller method and a rival, if any, and recommend the next step."""
    candidate = answer.candidate
    said = [_describe_control(answer), _describe_smaller(answer)] if candidate else []
    said += [f"{candidate.rival} may score higher."] if candidate and _has_rival(candidate) else []
    return " ".join(filter(None, [*said, _advise_next_step(answer)]))


def _describe_control(answer: Answer) -> str:
    """Describe the random control of a ranking: ``As many random entries score 0.812.``

    It is not described if it has other seeds than the ranking, or is the same runs, at fraction 1.
    """
    candidate, runs = answer.candidate, answer.runs
    assert candidate
    own = runs[runs["title"] == candidate.title].iloc[0]
    control = f"{own['method'].partition(RANKED_BY)[0]}{RANKED_BY}{RANDOM}"
    is_control = (runs["method"] == control) & (runs["model"] == own["model"])
    titles = runs.loc[is_control & (runs["fraction"] == own["fraction"]), "title"].unique()
    found = [answer.compared.methods.get(title) for title in titles if title != candidate.title]
    if not found or not found[0] or found[0].seeds != candidate.seeds:
        return ""
    if found[0].runs == candidate.runs:
        return ""
    return f"As many random entries score {found[0].score:.3f}."


def _has_rival(candidate: Candidate) -> bool:
    return candidate.chance >= SURE > candidate.least_chance


def _describe_smaller(answer: Answer) -> str:
    """Describe the most probable smaller method: ``LayerNorm, a fifth of its size, has 50 %.``"""
    candidate = answer.candidate
    possible = [
        method
        for method in answer.compared.methods.values()
        if candidate and method.sort_key < candidate.sort_key and method.chance >= POSSIBLE
    ]
    if not candidate or not possible:
        return ""
    smaller = max(possible, key=lambda method: method.chance)
    # Methods differ in the encoder's size or, if it is equal, in the number of trained parameters.
    pairs = zip(candidate.sort_key, smaller.sort_key, strict=True)
    larger, size = next(pair for pair in pairs if pair[0] != pair[1])
    words = SIZE_WORDS.get(round(larger / size), "far smaller") if size else "far smaller"
    have = "have" if smaller.title.startswith(method_title("embeddings")) else "has"
    better = f", but {smaller.rival} may score higher" if _has_rival(smaller) else ""
    name, chance = _name_in_sentence(smaller.title), format_probability(smaller.chance)
    return f"{name}, {words}, {have} {chance}{better}."


def _advise_next_step(answer: Answer) -> str:
    candidate, compared, runs = answer.candidate, answer.compared, answer.runs
    full, unit = _name_in_sentence(compared.full), "fold" if are_scored_on_folds(runs) else "seed"
    if not (compared.full or answer.is_finished):
        return "Full fine-tuning has no score yet: run the same command with more minutes."
    if not compared.full:
        how = "try smaller learning rates" if runs["is_full"].any() else "add `full`"
        return f"Full fine-tuning has no score: {how}, or more minutes."
    if not candidate:
        return "Add a method that trains fewer parameters, such as `layernorm`."
    # With a scorer that reads probabilities, a single predicted class is no fault.
    if not is_scorer(runs["metric"].iloc[0]) and runs.loc[runs["is_full"], "one_answer"].any():
        return f"{full} gives the same prediction for every example: {TUNE}."
    with_full = compared.with_full.values()
    if better := [c for c in with_full if c.difference.low > 0 and c.encoder_size >= 0]:
        best = max(better, key=lambda candidate: candidate.difference.mean)
        return f"{full} scores lower than {best.title}: {TUNE}."
    is_final = answer.decision == "train" or (answer.decision == "probably" and answer.is_finished)
    if answer.share_of_rows < 1 and is_final:
        how = "allow more minutes, or name the whole table in `files`"
        return f"{full} may gain more from the other rows: {how}."
    if _is_nothing_learned(candidate) and answer.decision in ("train", "probably"):
        return "Check the labels, or label more examples."
    if answer.decision == "train":
        return "No more runs are needed."
    if answer.left_out:
        *others, last = answer.left_out
        names = f"{', '.join(others)} and {last} were" if others else f"{last} was"
        return f"{names} left out to save time: allow more minutes, or add them to `methods`."
    if not answer.is_finished:
        done, planned = len(candidate.seeds), runs["planned"].max()
        few = f"Only {done} of {planned} {unit}s {'is' if done == 1 else 'are'} compared"
        missing = few if done < planned else f"Some {unit}s are missing"
        return f"{missing}: run the same command with more minutes."
    if answer.rising:
        names = " and ".join(map(_name_in_sentence, answer.rising))
        verb = "still improves" if len(answer.rising) == 1 else "still improve"
        return f"{names} {verb} in the last epoch: set more `epochs`."
    if len(candidate.seeds) == 1:
        return f"One {unit} is not enough: use more, such as `seeds: [0, 1, 2]`."
    more = [f"{answer.more_rows:,} more {candidate.judged_by}"] if answer.more_rows else []
    if answer.more_seeds:
        unused = (seed for seed in itertools.count() if seed not in candidate.seeds)
        seeds = [*candidate.seeds, *itertools.islice(unused, answer.more_seeds)]
        more.append(f"`seeds: {seeds}`")
    if more:
        return f"For a certain answer, use about {' or '.join(more)}."
    if answer.decision in ("everything", "probably everything"):
        numbers = f"{candidate.score:.3f} against {candidate.reference_score:.3f}"
        return f"The nearest smaller method is {candidate.title}: {numbers}."
    return "For a certain answer, label more examples."
