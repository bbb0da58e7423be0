"""Determines which runs of a comparison are trained next, from its plan and the recorded runs.

A run is finished when it is recorded. Processes and the time limit are handled by
`subtune.comparison.loop`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from subtune.runs.learning_rates import best_rate, choose_next_rates, first_rates, recorded_scores
from subtune.runs.spec import Fit, PlannedRun, RunSpec, SearchSpec

# The reference method, full fine-tuning, which is trained first.
FULL = "full"
# A method of one model: the name of the model and the name of the method.
Method = tuple[str, str]
# Runs with smaller ranks are trained first.
Rank = tuple[int, ...]


class Progress(NamedTuple):
    """The planned runs and searches of a comparison, with the scores that are recorded so far.

    Attributes:
        planned: the planned runs. A learning-rate search trains the first planned run of its method
            with different learning rates.
        searches: the learning-rate searches, by id.
        scores: the score of each recorded run, by the run's id; NaN if the run diverged.
        left_out: the methods that are left out because they failed.
    """

    planned: Sequence[PlannedRun]
    searches: Mapping[str, SearchSpec]
    scores: Mapping[str, float]
    left_out: Collection[Method] = ()

    def tried_rates(self, search: str) -> dict[float, float]:
        """Return the scores of a search so far, by learning rate."""
        return recorded_scores(self.searches[search], lambda run: self.scores.get(run.id))

    def find_recorded(self) -> dict[str, RunSpec]:
        """Map the key of each planned run that has a record to the spec of the recorded run.

        All runs that share a search use the same learning rate: the rate with the best score in the
        search. A rate is considered only if the first planned run is recorded with this rate.
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
        runs = {planned.key: planned.with_chosen_rate(rates) for planned in self.planned}
        return {key: run for key, run in runs.items() if run.id in self.scores}

    def model_order(self) -> list[str]:
        """Return the names of the models, sorted by the score of their baseline, best first.

        The baseline of a model is the regression on its embeddings.
        """
        best_scores = dict.fromkeys((planned.model_name for planned in self.planned), -math.inf)
        for planned in self.planned:
            # The score of TF-IDF does not depend on the model.
            if isinstance(planned.spec.recipe, Fit) and not planned.spec.reads_texts:
                score = self.scores.get(planned.spec.id, -math.inf)
                best_scores[planned.model_name] = max(best_scores[planned.model_name], score)
        return sorted(best_scores, key=lambda name: -best_scores[name])


def _middle_rate(search: SearchSpec) -> float:
    return search.rates[len(search.rates) // 2]


def rank_missing_runs(
    progress: Progress, unlikely: Collection[Method] = ()
) -> list[tuple[Rank, list[PlannedRun]]]:
    """Rank the runs that are not recorded yet, the most useful first.

    0. The baselines of each model (regressions that train nothing in the encoder), on the first
       seed or fold.
    1. For the model with the best baseline: full fine-tuning, and then one run of each other
       method, with its middle learning rate.
    2. The learning rates next to the middle rate, and then baselines on fewer training examples.
    3. The remaining seeds or folds of methods whose learning rate is chosen. At the same rank as
       the second seed or fold: further learning rates of methods whose best rate is not yet between
       two worse rates.
    4. Baselines on fewer training examples, for the remaining seeds or folds.
    5. Ranks 1 to 4 for the model with the next best baseline.
    6. Methods that are unlikely to be the answer.

    Args:
        unlikely: the methods that are unlikely to be the answer. Full fine-tuning is never one of
            them.

    Returns:
        The runs of each rank, by rank. Each run has one learning rate instead of a search.
    """
    order, ranked = progress.model_order(), dict[str, tuple[Rank, PlannedRun]]()
    positions: dict[tuple, int] = {}

    def add_run(rank: Rank, run: RunSpec, planned: PlannedRun) -> None:
        if run.id not in progress.scores and run.id not in ranked:
            ranked[run.id] = rank, planned.replace(spec=run, search=None)

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
            add_run(rank, planned.spec, planned)
        elif position == 0:
            middle = (
                planned.spec.with_learning_rate(_middle_rate(search)) if search else planned.spec
            )
            add_run((model, 1, 0, after), middle, planned)
        if search is None:
            add_run((model, 3, position, after), planned.spec, planned)
            continue
        tried = progress.tried_rates(search.id)
        begun = {*first_rates(search)} <= {*tried}
        for rate in choose_next_rates(search, tried):
            rank = (model, 3, 1, after) if begun else (model, 2, 0, after)
            add_run(rank, search.run.with_learning_rate(rate), planned)
        if not choose_next_rates(search, tried):
            run = planned.spec.with_learning_rate(best_rate(search, tried))
            add_run((model, 3, position, after), run, planned)
    groups: dict[Rank, list[PlannedRun]] = {}
    for rank, planned in ranked.values():
        groups.setdefault(rank, []).append(planned)
    return sorted(groups.items(), key=lambda group: group[0])
