"""What a comparison trains next: a function of its plan and of what is recorded.

A run is done if it is recorded. `subtune.comparison.loop` has the processes and the clock.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from subtune.runs.learning_rates import best_rate, first_rates, next_rates, recorded_scores
from subtune.runs.spec import Fit, PlannedRun, RunSpec, SearchSpec

# The method that others are compared with, which trains first.
FULL = "full"
# The names of a model and of a method.
Method = tuple[str, str]
# Runs with smaller ranks come first.
Rank = tuple[int, ...]


class Progress(NamedTuple):
    """A plan, and what is recorded of it.

    Attributes:
        planned: the planned runs. The first run of each method is the one that its search trains.
        searches: the searches for learning rates, by id.
        scores: the score of each recorded run, by id; NaN if it diverged.
        left_out: the methods that failed.
    """

    planned: Sequence[PlannedRun]
    searches: Mapping[str, SearchSpec]
    scores: Mapping[str, float]
    left_out: Collection[Method] = ()

    def tried_rates(self, search: str) -> dict[float, float]:
        """Return the score of each learning rate that a search has tried."""
        return recorded_scores(self.searches[search], lambda run: self.scores.get(run.id))

    def find_recorded(self) -> dict[str, RunSpec]:
        """Return the recorded run of each planned run that has one, by key.

        All runs of a search have the same learning rate: of the rates with which its first planned
        run is recorded, the one with the best score in the search.
        """
        rates: dict[str, float] = {}
        for planned in self.planned:
            if planned.search and planned.search not in rates:
                search, tried = self.searches[planned.search], self.tried_rates(planned.search)
                possible = {
                    rate: tried.get(rate, math.nan)
                    for rate in {*tried, _middle_rate(search)}
                    if planned.spec.with_learning_rate(rate).id in self.scores
                }
                middle = _middle_rate(search)
                rates[planned.search] = best_rate(search, possible) if possible else middle
        runs = {planned.key: planned.with_found_rate(rates) for planned in self.planned}
        return {key: run for key, run in runs.items() if run.id in self.scores}

    def model_order(self) -> list[str]:
        """Return the models, the one with the best floor first."""
        floors = dict.fromkeys((planned.model_name for planned in self.planned), -math.inf)
        for planned in self.planned:
            # TF-IDF says nothing about a model.
            if isinstance(planned.spec.recipe, Fit) and not planned.spec.reads_texts:
                score = self.scores.get(planned.spec.id, -math.inf)
                floors[planned.model_name] = max(floors[planned.model_name], score)
        return sorted(floors, key=lambda name: -floors[name])


def _middle_rate(search: SearchSpec) -> float:
    return search.rates[len(search.rates) // 2]


def next_runs(
    progress: Progress, unlikely: Collection[Method] = ()
) -> list[tuple[Rank, list[PlannedRun]]]:
    """Return the runs that are not recorded, with their ranks, the most useful first.

    0. Each model's floors (regressions that train nothing in the encoder), on the first seed or
       fold.
    1. For the model with the best floor: full fine-tuning and each method once, at its middle
       learning rate.
    2. The learning rates beside the middle one, and then floors on fewer training rows.
    3. The other seeds or folds in turn of methods whose learning rate is found. With the first of
       them, the further learning rates of methods whose best rate has no worse one on each side.
    4. Floors on fewer training rows, on the other seeds or folds.
    5. The same for the next model.
    6. Methods that can hardly be the answer.

    Args:
        unlikely: the methods that can hardly be the answer. Full fine-tuning is never one of them.

    Returns:
        Each rank with its runs. A run has its learning rate, and no search.
    """
    order, ranked = progress.model_order(), dict[str, tuple[Rank, PlannedRun]]()
    positions: dict[tuple, int] = {}

    def add(rank: Rank, run: RunSpec, planned: PlannedRun) -> None:
        if run.id not in progress.scores and run.id not in ranked:
            ranked[run.id] = rank, planned.replaced(spec=run, search=None)

    for planned in progress.planned:
        method = planned.model_name, planned.method
        own = *method, planned.train_rows, planned.fraction, planned.scope
        position = positions[own] = positions.get(own, -1) + 1
        if method in progress.left_out:
            continue
        model, after = 1 + order.index(planned.model_name), int(planned.method != FULL)
        if after and method in unlikely:
            model += len(order)
        search = progress.searches[planned.search] if planned.search else None
        if isinstance(planned.spec.recipe, Fit):
            rank: Rank = (model, 3, position, after)
            if planned.spec.recipe.train_rows is not None:
                rank = (model, 4, position, after) if position else (model, 2, 1, after)
            elif position == 0:
                rank = (0,)
            add(rank, planned.spec, planned)
        elif position == 0:
            middle = (
                planned.spec.with_learning_rate(_middle_rate(search)) if search else planned.spec
            )
            add((model, 1, 0, after), middle, planned)
        if search is None:
            add((model, 3, position, after), planned.spec, planned)
            continue
        tried = progress.tried_rates(search.id)
        begun = {*first_rates(search)} <= {*tried}
        for rate in next_rates(search, tried):
            rank = (model, 3, 1, after) if begun else (model, 2, 0, after)
            add(rank, search.run.with_learning_rate(rate), planned)
        if not next_rates(search, tried):
            run = planned.spec.with_learning_rate(best_rate(search, tried))
            add((model, 3, position, after), run, planned)
    groups: dict[Rank, list[PlannedRun]] = {}
    for rank, planned in ranked.values():
        groups.setdefault(rank, []).append(planned)
    return sorted(groups.items(), key=lambda group: group[0])
