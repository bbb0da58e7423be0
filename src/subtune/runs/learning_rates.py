"""Searches for learning rates.

A search trains runs that differ only in their learning rate. It begins with the middle one of its
rates and the two beside it, and climbs towards better scores, until the best rate has a worse one
on both sides. If the best rate is at an end of the list, the search adds a rate there, with the
same ratio as between the last two rates. Its runs are recorded like all others, so a search
that was interrupted reads what it trained before.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from subtune.runs import records
from subtune.runs.spec import LEARNING_RATES_BELOW, RunSpec, SearchSpec

# A search tries at most this many learning rates beyond the ends of its list.
MAX_ADDED_RATES = 4


def next_rates(spec: SearchSpec, scores: Mapping[float, float]) -> list[float]:
    """Return the learning rates to train next; none if the best has worse ones on both sides.

    Args:
        scores: the score of each rate that was trained; NaN if it diverged.
    """
    if missing := [rate for rate in first_rates(spec) if rate not in scores]:
        return missing
    rates, best = sorted({*spec.rates, *scores}), best_rate(spec, scores)
    place = rates.index(best)
    if missing := [rate for rate in rates[max(0, place - 1) : place + 2] if rate not in scores]:
        return missing
    if best not in (rates[0], rates[-1]) or len(rates) == len(spec.rates) + MAX_ADDED_RATES:
        return []
    neighbour = rates[1] if best == rates[0] else rates[-2]
    # Rounded, so that the run's id is the same on every machine.
    rate = float(f"{best * (best / neighbour):.2g}")
    is_new = rate < rates[0] or rate > rates[-1]
    return [rate] if is_new and 0 < rate < LEARNING_RATES_BELOW else []


def best_rate(spec: SearchSpec, scores: Mapping[float, float]) -> float:
    """Return the rate with the highest score, or the smallest rate if all diverged.

    Among equal scores, a rate with which the search began comes first, then one near to these, then
    the smaller one. A search therefore leaves a rate only for a better one.
    """
    first = first_rates(spec)

    def rank(rate: float) -> tuple[float, float, float]:
        if math.isnan(scores[rate]):
            return -math.inf, 0.0, -rate
        distance = max(first[0] / rate, rate / first[-1], 1.0)
        return scores[rate], -distance, -rate

    return max(scores, key=rank)


def first_rates(spec: SearchSpec) -> Sequence[float]:
    """Return the rates with which a search begins: the middle one and its neighbours."""
    middle = len(spec.rates) // 2
    return spec.rates[middle - 1 : middle + 2]


def read_score(run: RunSpec, store: Path) -> float | None:
    """Return the score that compares learning rates, or None if a run is not recorded."""
    if not records.is_recorded(store, run.id):
        return None
    task = run.tokens.data.task
    return records.read_outcome(store, run.id)["scores"][task.evaluation[0]][task.metrics[0]]


def recorded_scores(
    spec: SearchSpec, score: Callable[[RunSpec], float | None]
) -> dict[float, float]:
    """Return the scores of the rates that a search asked for and that are recorded.

    ``score``: a function that returns a run's score, or None if the run is not recorded.
    """
    scores: dict[float, float] = {}
    while True:
        asked = next_rates(spec, scores)
        known = {rate: score(spec.run.with_learning_rate(rate)) for rate in asked}
        found = {rate: value for rate, value in known.items() if value is not None}
        if not found:
            return scores
        scores |= found


def find_learning_rates(
    specs: Iterable[SearchSpec], store: Path, train: Callable[[list[RunSpec]], object]
) -> dict[str, dict[str, Any]]:
    """Train what several searches ask for, and return what each found (`describe_search`), by id.

    Args:
        store: the directory of run records.
        train: a function that trains and records runs.
    """
    specs = [*specs]
    while True:
        scores = [recorded_scores(spec, partial(read_score, store=store)) for spec in specs]
        asked = [
            spec.run.with_learning_rate(rate)
            for spec, known in zip(specs, scores, strict=True)
            for rate in next_rates(spec, known)
        ]
        if not asked:
            break
        train(asked)
    found = zip(specs, scores, strict=True)
    return {spec.id: describe_search(spec, known) for spec, known in found}


def describe_search(spec: SearchSpec, scores: Mapping[float, float]) -> dict[str, Any]:
    """Return what a search found from the scores of its rates.

    Returns:
        ``learning_rate``, and ``tried``: the ``learning_rate``, ``run`` and ``score`` of each rate;
        the score is None if the run diverged.
    """
    tried = [
        {"learning_rate": rate, "run": spec.run.with_learning_rate(rate).id}
        | {"score": None if math.isnan(scores[rate]) else scores[rate]}
        for rate in sorted(scores)
    ]
    return {"learning_rate": best_rate(spec, scores), "tried": tried}


def read_searches(paths: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """Return what each search found (`describe_search`), by id."""
    return {id: found for path in paths for id, found in json.loads(Path(path).read_text()).items()}
