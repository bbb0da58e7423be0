"""Learning-rate searches, which train runs that differ only in their learning rate.

The runs of a search are recorded, so an interrupted search continues after the recorded runs.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from subtune.runs import records
from subtune.runs.spec import LEARNING_RATES_BELOW, RunSpec, SearchSpec

# The largest number of learning rates that a search adds to its list.
MAX_ADDED_RATES = 4


def choose_next_rates(spec: SearchSpec, scores: Mapping[float, float]) -> list[float]:
    """Return the learning rates that a search trains next, or an empty list if the search is done.

    After its `first_rates`, a search tries the neighbours of the best rate until neither is better.
    If the best rate is at an end of the list, a rate is added there. The best rate is then the
    geometric mean of its neighbours. ``scores`` maps each tried rate to its run's score, or to
    NaN if the run diverged.
    """
    if missing := [rate for rate in first_rates(spec) if rate not in scores]:
        return missing
    rates, best = sorted({*spec.rates, *scores}), best_rate(spec, scores)
    index = rates.index(best)
    if missing := [rate for rate in rates[max(0, index - 1) : index + 2] if rate not in scores]:
        return missing
    if best not in (rates[0], rates[-1]) or len(rates) == len(spec.rates) + MAX_ADDED_RATES:
        return []
    neighbour = rates[1] if best == rates[0] else rates[-2]
    # The rate is rounded so that the run's id is the same on every machine.
    rate = float(f"{best * (best / neighbour):.2g}")
    is_new = rate < rates[0] or rate > rates[-1]
    return [rate] if is_new and 0 < rate < LEARNING_RATES_BELOW else []


def best_rate(spec: SearchSpec, scores: Mapping[float, float]) -> float:
    """Return the learning rate with the highest score, or the smallest rate if all runs diverged.

    Ties are broken in favour of the rate closest to the first rates, then the smaller rate.
    Therefore a rate that is not among the first rates is chosen only if its score is higher.
    """
    first = first_rates(spec)

    def rank(rate: float) -> tuple[float, float, float]:
        if math.isnan(scores[rate]):
            return -math.inf, 0.0, -rate
        distance = max(first[0] / rate, rate / first[-1], 1.0)
        return scores[rate], -distance, -rate

    return max(scores, key=rank)


def first_rates(spec: SearchSpec) -> Sequence[float]:
    """Return the first learning rates of a search: the middle rate and its neighbours."""
    middle = len(spec.rates) // 2
    return spec.rates[middle - 1 : middle + 2]


def read_score(run: RunSpec, store: Path) -> float | None:
    """Read a run's first metric on its first evaluation split, or None without a record."""
    if not records.is_recorded(store, run.id):
        return None
    task = run.tokens.data.task
    return records.read_outcome(store, run.id)["scores"][task.evaluation[0]][task.metrics[0]]


def recorded_scores(
    spec: SearchSpec, score: Callable[[RunSpec], float | None]
) -> dict[float, float]:
    """Repeat the recorded part of a search, and return the score of each learning rate."""
    scores: dict[float, float] = {}
    while True:
        rates = choose_next_rates(spec, scores)
        known = {rate: score(spec.run.with_learning_rate(rate)) for rate in rates}
        recorded = {rate: value for rate, value in known.items() if value is not None}
        if not recorded:
            return scores
        scores |= recorded


def find_learning_rates(
    specs: Iterable[SearchSpec], store: Path, train: Callable[[list[RunSpec]], object]
) -> dict[str, dict[str, Any]]:
    """Run several searches whose runs are trained together; return each `search_result` by id."""
    specs = [*specs]
    while True:
        scores = [recorded_scores(spec, partial(read_score, store=store)) for spec in specs]
        runs = [
            spec.run.with_learning_rate(rate)
            for spec, known in zip(specs, scores, strict=True)
            for rate in choose_next_rates(spec, known)
        ]
        if not runs:
            break
        train(runs)
    scored = zip(specs, scores, strict=True)
    return {spec.id: search_result(spec, known) for spec, known in scored}


def search_result(spec: SearchSpec, scores: Mapping[float, float]) -> dict[str, Any]:
    """Return the result of a finished search, given the score of each learning rate.

    The dict contains the best ``learning_rate`` and the list ``tried``, with a dict of
    ``learning_rate``, ``run`` id and ``score`` for each run. The score of a diverged run is None.
    """
    tried = [
        {"learning_rate": rate, "run": spec.run.with_learning_rate(rate).id}
        | {"score": None if math.isnan(scores[rate]) else scores[rate]}
        for rate in sorted(scores)
    ]
    return {"learning_rate": best_rate(spec, scores), "tried": tried}


def read_searches(paths: Iterable[str | Path]) -> dict[str, dict[str, Any]]:
    """Read JSON files that map the id of each search to its `search_result`, and merge them."""
    return {id: found for path in paths for id, found in json.loads(Path(path).read_text()).items()}
