"""The former policy of `compare`: the best of three learning rates, and then more seeds.

The order of runs and their join with records are those of commit 27679c30. Answers follow the
present rules, and settings (learning rates, epochs, methods) are the present ones.
"""

import math
from collections.abc import Callable, Collection, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from subtune.comparison import next_runs
from subtune.comparison.next_runs import Method
from subtune.methods import FULL
from subtune.runs.learning_rates import (
    best_rate,
    first_rates,
    follow_search,
    join_runs_with_rates,
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
        """Join all runs that share a search at the rate with the best score so far."""
        found: dict[str, dict[str, Any]] = {}
        for run in self.planned:
            if run.search and run.search.id not in found:
                found[run.search.id] = _result_so_far(run.search, run.spec, self.score)
        return join_runs_with_rates(self.planned, found, self.score)


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
    return next_runs.collect_missing_runs(progress, _rank_runs(progress, unlikely))


def _rank_runs(
    progress: next_runs.Progress, unlikely: Collection[Method]
) -> Iterator[tuple[Rank, RunSpec, PlannedRun]]:
    """Yield the runs of each planned run that may be trained next, with their ranks."""
    order = progress.model_order()
    positions: dict[tuple, int] = {}
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
            yield repeated if position else first, planned.spec, planned
            continue
        search = planned.search
        if position == 0:
            yield first, planned.spec.with_learning_rate(middle_rate(search)), planned
        tried, missing = follow_search(search, progress.score)
        begun = {*first_rates(search)} <= {*tried}
        stage, next_position = (Stage.REPETITIONS, 1) if begun else (Stage.RATES, 0)
        for rate in missing:
            rank = Rank(model, stage, next_position, after_full)
            yield rank, search.run.with_learning_rate(rate), planned
        if not missing:
            yield repeated, planned.spec.with_learning_rate(best_rate(search, tried)), planned


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
