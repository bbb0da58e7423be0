"""The answer to the project's question, of one model and its tasks, and how sure it is.

The smallest method that is not worse than full fine-tuning by more than a margin. By the mean it is
the smallest whose mean difference is within the margin; surely it is the smallest whose whole
interval is. Where these are two methods, the runs cannot tell, and the number of seeds that would
follows from the spread of those that are there.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from subtune.analysis import verdicts
from subtune.analysis.summary import (
    QUESTION,
    REFERENCE,
    Candidate,
    candidates,
    with_differences,
)
from subtune.papers.base import EQUIVALENCE_MARGINS
from subtune.selections.methods import title_with_mask

MARGIN = EQUIVALENCE_MARGINS["score"]
# More seeds than that no one trains.
SEEDS_TO_ASK_FOR = 50
ALL_TASKS = "all tasks"


def answers(chosen: pd.DataFrame) -> pd.DataFrame:
    """One row per model and task, and one of all tasks of a model where there are several.

    Args:
        chosen: the runs of the best learning rates.

    Returns:
        ``model``, ``task``, ``metric``; of the smallest method within the margin by its mean
        ``method``, ``trained``, ``share``, ``score``, ``full`` (full's score), ``difference``,
        ``low``, ``high``, ``unit``, ``units`` (how many) and ``verdict``, or of the nearest where
        ``is_within`` is false; ``surely``, the smallest method whose whole interval is within it;
        ``more_seeds`` that would decide, where that can be known; ``answer`` in words.
    """
    rows = []
    for model, of_model in with_differences(chosen).groupby("model", sort=False):
        questions = [*of_model.groupby(QUESTION, sort=False)]
        for (_, task, metric), runs in questions:
            rows.append({"model": model, "task": task, "metric": metric} | _answer(runs))
        together = candidates(of_model) if len(questions) > 1 else []
        if together:
            about = {"model": model, "task": ALL_TASKS, "metric": "mean"}
            rows.append(about | _of_candidates(together))
    return pd.DataFrame(rows).astype({"trained": "Int64", "units": "Int64", "more_seeds": "Int64"})


NO_NUMBERS = {
    **dict.fromkeys(("method", "is_within", "surely", "unit", "verdict"), None),
    **dict.fromkeys(("trained", "units", "more_seeds"), pd.NA),
    **dict.fromkeys(("share", "score", "full", "difference", "low", "high"), math.nan),
}


def _answer(runs: pd.DataFrame) -> dict[str, object]:
    """The answer of one task's runs."""
    full = runs[runs["method"] == REFERENCE]
    if full.empty:
        answer = "Full fine-tuning is not among the methods to compare with: add `full`."
        return NO_NUMBERS | {"answer": answer}
    if full["value"].isna().any():
        return NO_NUMBERS | {"answer": "Full fine-tuning diverged: give it smaller learning rates."}
    smaller = candidates(runs)
    if not smaller:
        return NO_NUMBERS | {"answer": "No method that trains less than full has a score."}
    return _of_candidates(smaller)


def _of_candidates(smaller: Sequence[Candidate]) -> dict[str, object]:
    within = [c for c in smaller if verdicts.holds("no less", c.difference.mean, MARGIN)]
    if not within:
        return _none_is_near(smaller)
    [smallest, *_] = within
    decided = _verdict(smallest)
    sentence = f"{title(smallest)}, {_size(smallest)}: {_scores(smallest)}."
    sure = next((c for c in within if _verdict(c) == verdicts.SUPPORTED), None)
    if decided != verdicts.SUPPORTED:
        sentence += f" {_what_is_open(smallest)}"
        if sure:
            sentence += f" Surely good enough is {title(sure)}, {_size(sure)}: {_scores(sure)}."
    better = [c for c in smaller if c.difference.low > 0]
    if better:
        best = max(better, key=lambda c: c.difference.mean)
        sentence += f" Full is below {title(best)} by {best.difference.mean:.3f}: "
        sentence += "other learning rates may do it good."
    surely = {"is_within": True, "surely": title(sure) if sure else None}
    return _numbers(smallest, decided) | surely | {"answer": sentence}


def _none_is_near(smaller: Sequence[Candidate]) -> dict[str, object]:
    nearest = max(smaller, key=lambda c: c.difference.mean)
    decided = _verdict(nearest)
    sentence = (
        f"None: no smaller method comes within {MARGIN} of full. The nearest is {title(nearest)}, "
        f"{_size(nearest)}: {_scores(nearest)}."
    )
    if decided != verdicts.NOT_SUPPORTED:
        sentence += f" {_what_is_open(nearest)}"
    return _numbers(nearest, decided) | {"is_within": False, "surely": None, "answer": sentence}


def title(candidate: Candidate) -> str:
    """A candidate's method in words."""
    return title_with_mask(candidate.method, candidate.fraction, candidate.scope)


def _size(candidate: Candidate) -> str:
    if not candidate.trained:
        return "nothing but the classifier"
    return f"{candidate.trained:,} parameters ({share_in_words(candidate.share)} of full's)"


def share_in_words(share: float) -> str:
    """A share with two digits that say something: ``0.095 %``, ``13 %``."""
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def _scores(candidate: Candidate) -> str:
    mean, low, high = candidate.difference
    text = f"{candidate.score:.4f} against {candidate.full_score:.4f}"
    if math.isnan(low):
        return text
    number = f"{len(candidate.units)} {candidate.unit}s"
    return f"{text}, {mean:+.4f} (95 % interval {low:+.4f} to {high:+.4f}, {number})"


def _what_is_open(candidate: Candidate) -> str:
    """That the runs cannot tell, and how many more seeds would."""
    if candidate.unit != "seed":
        return "These runs cannot tell: three seeds would tell more."
    more, number = seeds_that_would_tell(candidate), len(candidate.units)
    if more is None:
        return f"These seeds cannot tell, nor would {SEEDS_TO_ASK_FOR} that vary as much."
    if number < verdicts.FEWEST_UNITS:
        runs = "One seed" if number == 1 else "Two seeds"
        return f"{runs} cannot tell: {more} more would be the least."
    return f"These seeds cannot tell: {more} more would, if they vary as much."


def seeds_that_would_tell(candidate: Candidate) -> int | None:
    """How many more seeds would decide, where units are seeds and so many would."""
    number = len(candidate.units)
    if candidate.unit != "seed":
        return None
    if number < verdicts.FEWEST_UNITS:
        return verdicts.FEWEST_UNITS - number
    return more_seeds(candidate.units, MARGIN)


def more_seeds(values: Sequence[float], margin: float) -> int | None:
    """How many more seeds would decide whether a mean is below ``-margin``.

    The mean and the standard deviation are taken to stay what they are; none where it would take
    more than `SEEDS_TO_ASK_FOR`.
    """
    from scipy import stats

    distance, spread = abs(float(np.mean(values)) + margin), float(np.std(values, ddof=1))
    for number in range(len(values) + 1, SEEDS_TO_ASK_FOR + 1):
        error = spread / math.sqrt(number)
        if stats.t.ppf((1 + verdicts.LEVEL) / 2, number - 1) * error <= distance:
            return number - len(values)
    return None


def _verdict(candidate: Candidate) -> str:
    return verdicts.verdict("no less", candidate.difference, MARGIN)


def _numbers(candidate: Candidate, decided: str) -> dict[str, object]:
    is_open = decided == verdicts.NOT_ENOUGH
    more = seeds_that_would_tell(candidate) if is_open else None
    return {
        "method": title(candidate),
        "trained": candidate.trained,
        "share": candidate.share,
        "score": candidate.score,
        "full": candidate.full_score,
        "difference": candidate.difference.mean,
        "low": candidate.difference.low,
        "high": candidate.difference.high,
        "unit": candidate.unit,
        "units": len(candidate.units),
        "verdict": decided,
        "more_seeds": pd.NA if more is None else more,
    }
