"""Learning-rate searches, which train runs that differ only in their learning rate.

A search is a function of the recorded runs, so an interrupted search continues after these runs.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from subtune.methods.single_entries import read_entry_hashes
from subtune.runs import records
from subtune.runs.spec import LEARNING_RATES_BELOW, PlannedRun, RunSpec, SearchSpec

# The largest number of learning rates that a search adds to its list.
MAX_ADDED_RATES = 4
# A function that returns the score of a recorded run, NaN if the run diverged, or None without a
# record.
Score = Callable[[RunSpec], float | None]


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
    Therefore a rate that is not among the first rates is chosen only if its score is higher. A
    search knows one score of each rate. For rates with several seeds,
    `subtune.analysis.chosen_runs.choose_rates` uses the mean score.
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


def middle_rate(spec: SearchSpec) -> float:
    """Return the learning rate with which a comparison trains a method first."""
    return spec.rates[len(spec.rates) // 2]


def follow_search(spec: SearchSpec, score: Score) -> tuple[dict[float, float], list[float]]:
    """Repeat the recorded part of a search.

    Returns:
        The score of each learning rate tried so far, and the rates to train next. The second list
        is empty if the search is done.
    """
    scores: dict[float, float] = {}
    while True:
        rates = choose_next_rates(spec, scores)
        known = {rate: score(spec.run.with_learning_rate(rate)) for rate in rates}
        recorded = {rate: value for rate, value in known.items() if value is not None}
        if not recorded:
            return scores, rates
        scores |= recorded


def find_learning_rates(
    specs: Iterable[SearchSpec], store: Path, train: Callable[[list[RunSpec]], object]
) -> dict[str, dict[str, Any]]:
    """Run several searches whose runs are trained together; return each `search_result` by id."""
    distinct = {spec.id: spec for spec in specs}
    while True:
        followed = [
            (spec, *follow_search(spec, partial(records.read_score, store)))
            for spec in distinct.values()
        ]
        runs = [spec.run.with_learning_rate(rate) for spec, _, rates in followed for rate in rates]
        if not runs:
            return {
                spec.id: search_result(spec, best_rate(spec, scores), scores)
                for spec, scores, _ in followed
            }
        train(runs)


def search_result(
    spec: SearchSpec, learning_rate: float, scores: Mapping[float, float]
) -> dict[str, Any]:
    """Return the result of a search, given the chosen rate and the score of each tried rate.

    The dict contains the chosen ``learning_rate`` and the list ``tried``, with a dict of
    ``learning_rate``, ``run`` id and ``score`` for each run. The score of a diverged run is None.
    """
    tried = [
        {"learning_rate": rate, "run": spec.run.with_learning_rate(rate).id}
        | {"score": None if math.isnan(scores[rate]) else scores[rate]}
        for rate in sorted(scores)
    ]
    return {"learning_rate": learning_rate, "tried": tried}


def parse_planned_runs(runs: Iterable[Mapping[str, Any]], masks: Iterable[str]) -> list[PlannedRun]:
    """Parse planned runs, and complete them as `complete_runs` does."""
    return complete_runs(map(PlannedRun.model_validate, runs), masks)


def complete_runs(planned: Iterable[PlannedRun], masks: Iterable[str]) -> list[PlannedRun]:
    """Complete the selections of planned runs with the entries in files of masks.

    If the file of a mask does not exist, its runs cannot be recorded yet, and stay incomplete.
    """
    found = read_entry_hashes(map(Path, masks))
    return [run.with_entries(lambda mask: found.get(mask, mask)) for run in planned]


def read_finished_runs(
    store: Path, runs: Iterable[Mapping[str, Any]], masks: Iterable[str]
) -> list[dict[str, Any]]:
    """Parse planned runs, and join them with their records (`join_recorded_runs`)."""
    planned = parse_planned_runs(runs, masks)
    return join_recorded_runs(planned, partial(records.read_score, store))


def join_recorded_runs(planned: Sequence[PlannedRun], score: Score) -> list[dict[str, Any]]:
    """Return a row for each planned run that is recorded, with its names and its learning rate.

    All runs that share a search have the rate that is recorded for most of them or, of several such
    rates, the one with the best score so far. A rate is considered only if the search's first
    planned run is recorded with this rate.

    A row has the planned run's ``key`` and names, and the id ``run`` of its record. ``tried`` is
    from the `search_result`, and ``planned`` is the number of seeds or folds of the run's method.
    """
    sharing = defaultdict[str, list[PlannedRun]](list)
    for run in planned:
        if run.search:
            sharing[run.search.id].append(run)
    found = {search: _result_so_far(runs, score) for search, runs in sharing.items()}
    return join_runs_with_rates(planned, found, score)


def join_runs_with_rates(
    planned: Sequence[PlannedRun], found: Mapping[str, Mapping[str, Any]], score: Score
) -> list[dict[str, Any]]:
    """Return the rows of `join_recorded_runs`. ``found`` maps search ids to their results."""
    repetitions = defaultdict[tuple, set](set)
    for run in planned:
        repetitions[run.setting].add((run.seed, run.spec.recipe.fold))
    rows = []
    for run in planned:
        spec = run.with_chosen_rate(found)
        if score(spec) is not None:
            fold = spec.recipe.fold
            row = {
                "key": run.key,
                "run": spec.id,
                "search": run.search.id if run.search else None,
                "model": run.model_name,
                "task": run.task_name,
                "method": run.method,
                "fraction": run.fraction,
                "scope": run.scope,
                "train_rows": run.train_rows,
                "fold": fold.number if fold else None,
                "partition": fold.partition if fold else None,
                "learning_rate": spec.recipe.learning_rate,
                "tried": found[run.search.id]["tried"] if run.search else [],
                "seed": run.seed,
                "planned": len(repetitions[run.setting]),
            }
            rows.append(row)
    return rows


def _result_so_far(runs: Sequence[PlannedRun], score: Score) -> dict[str, Any]:
    """Return the result of a search, with a rate that is recorded for most of its planned runs."""
    spec = runs[0].search
    assert spec
    tried, _ = follow_search(spec, score)
    scores = {
        rate: [score(run.spec.with_learning_rate(rate)) for run in runs]
        for rate in {*tried, middle_rate(spec)}
    }
    # Runs that diverged do not count.
    counts = {
        rate: sum(value is not None and not math.isnan(value) for value in values)
        for rate, values in scores.items()
        if values[0] is not None
    }
    most = max(counts.values(), default=0)
    possible = {rate: tried.get(rate, math.nan) for rate, n in counts.items() if n == most}
    rate = best_rate(spec, possible) if possible else middle_rate(spec)
    return search_result(spec, rate, tried)
