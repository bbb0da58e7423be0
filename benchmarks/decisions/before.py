"""The former policy of `compare`: the best of three learning rates, and then more seeds.

The order of runs and their join with records are those of commit 27679c30. Answers follow the
present rules. Tables without a recording of the former settings use the present ones for 10 and 20
minutes, which have about as many epochs.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from subtune.comparison import next_runs
from subtune.comparison.next_runs import Method
from subtune.methods import FULL
from subtune.runs.learning_rates import (
    best_rate,
    first_rates,
    follow_search,
    middle_rate,
    search_result,
)
from subtune.runs.spec import FitRecipe, PlannedRun, RunSpec, SearchSpec

Score = Callable[[RunSpec], float | None]


class Stage(IntEnum):
    """The stages in which the runs of a model are trained."""

    FIRST_RUNS = 1
    """one run of each method, with its middle learning rate"""
    RATES = 2
    """the learning rates next to the middle rate, and then baselines on fewer training examples"""
    REPETITIONS = 3
    """the remaining seeds or folds, and further learning rates"""
    FEWER_ROWS = 4
    """baselines on fewer training examples, for the remaining seeds or folds"""


class Rank(NamedTuple):
    """The rank of a run. Runs with smaller ranks are trained first.

    Attributes:
        model: 0 for the first run of each baseline; otherwise the number of the model, from 1.
            Methods that are unlikely to be the answer have higher numbers than all models.
        position: the position of the seed or fold. Learning rates that continue a search, and
            baselines on fewer training examples, are ranked with the second seed or fold.
        after_full: False for full fine-tuning, True for all other methods.
    """

    model: int
    stage: Stage
    position: int
    after_full: bool


class Progress(next_runs.Progress):
    """The planned and recorded runs, joined as before."""

    def join_recorded_runs(self) -> list[dict[str, Any]]:
        return join_recorded_runs(self.planned, self.score)


def rank_missing_runs(
    progress: next_runs.Progress, unlikely: Collection[Method] = ()
) -> list[tuple[Rank, list[PlannedRun]]]:
    """Rank the runs that are not recorded yet, the most useful first.

    The baselines of each model (regressions that train nothing in the encoder) come first, on the
    first seed or fold. Then the models are trained one after another, starting with the best
    baseline, each in the order of `Stage`. In each stage, full fine-tuning comes first. While the
    second seed or fold is trained, the search continues for methods whose best learning rate is not
    yet between two worse rates. TF-IDF, which has no model, is ranked with the first model. Methods
    that are ``unlikely`` to be the answer come last, except full fine-tuning. Each returned run has
    a single learning rate instead of a search.
    """
    order, known = progress.model_order(), {*progress.scores}
    positions: dict[tuple, int] = {}
    ranked = defaultdict[Rank, list[PlannedRun]](list)

    def add_run(rank: Rank, run: RunSpec, planned: PlannedRun) -> None:
        if run.id not in known:
            known.add(run.id)
            ranked[rank].append(planned.replace(spec=run, search=None))

    for planned in progress.planned:
        method = planned.model_name, planned.method
        position = positions[planned.setting] = positions.get(planned.setting, -1) + 1
        if method in progress.left_out:
            continue
        model = 1 if planned.spec.reads_texts else 1 + order.index(planned.model_name)
        after_full = planned.method != FULL
        if after_full and method in unlikely:
            model += len(order)
        first = Rank(model, Stage.FIRST_RUNS, 0, after_full)
        repeated = Rank(model, Stage.REPETITIONS, position, after_full)
        if isinstance(planned.spec.recipe, FitRecipe):
            first = first._replace(model=0)
            if planned.spec.recipe.train_rows is not None:
                first = Rank(model, Stage.RATES, 1, after_full)
                repeated = Rank(model, Stage.FEWER_ROWS, position, after_full)
        if not planned.search:
            add_run(repeated if position else first, planned.spec, planned)
            continue
        search = planned.search
        if position == 0:
            add_run(first, planned.spec.with_learning_rate(middle_rate(search)), planned)
        tried, missing = follow_search(search, progress.score)
        begun = {*first_rates(search)} <= {*tried}
        stage, next_position = (Stage.REPETITIONS, 1) if begun else (Stage.RATES, 0)
        for rate in missing:
            rank = Rank(model, stage, next_position, after_full)
            add_run(rank, search.run.with_learning_rate(rate), planned)
        if not missing:
            add_run(repeated, planned.spec.with_learning_rate(best_rate(search, tried)), planned)
    return sorted(ranked.items(), key=lambda group: group[0])


def join_recorded_runs(planned: Sequence[PlannedRun], score: Score) -> list[dict[str, Any]]:
    """Return a row for each planned run that is recorded, with its names and its learning rate.

    All runs that share a search have the rate with the best score so far. A rate is considered only
    if the first planned run of the search is recorded with this rate.

    A row has the planned run's ``key`` and names, and the id ``run`` of its record. ``tried`` is
    from the `search_result`, and ``planned`` is the number of seeds or folds of the run's method.
    """
    found: dict[str, dict[str, Any]] = {}
    repetitions = defaultdict[tuple, set](set)
    for run in planned:
        if run.search and run.search.id not in found:
            found[run.search.id] = _result_so_far(run.search, run.spec, score)
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


def _result_so_far(spec: SearchSpec, first: RunSpec, score: Score) -> dict[str, Any]:
    """Return the result of a search, with a rate at which its planned run ``first`` is recorded."""
    tried, _ = follow_search(spec, score)
    possible = {
        rate: tried.get(rate, math.nan)
        for rate in {*tried, middle_rate(spec)}
        if score(first.with_learning_rate(rate)) is not None
    }
    rate = best_rate(spec, possible) if possible else middle_rate(spec)
    return search_result(spec, rate, tried)
