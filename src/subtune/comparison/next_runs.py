"""Determine which runs of a comparison to train next, from its plan and the recorded runs."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from subtune.comparison import DEFAULTS
from subtune.methods import FULL
from subtune.runs.learning_rates import (
    best_rate,
    follow_search,
    join_recorded_runs,
    middle_rate,
)
from subtune.runs.spec import PlannedRun, RunSpec

# A pair of a model name and a method name.
Method = tuple[str, str]


class Stage(IntEnum):
    """The stages of a comparison. All models complete a stage before the next one begins."""

    BASELINES = 0
    """each baseline, once"""
    FIRST_SEEDS = 1
    """the first `fewest_seeds` seeds or folds of each method, with recommended learning rates"""
    MORE_SEEDS = 2
    """the other seeds or folds, with recommended learning rates"""
    FEWER_ROWS = 3
    """baselines on fewer training examples"""
    RATES = 4
    """other learning rates, and then the other seeds or folds with better rates"""


class Rank(NamedTuple):
    """The rank of a run. Runs with smaller ranks are trained first.

    Attributes:
        unlikely: whether the method is unlikely to be the answer.
        model: the position of the model, sorted by the score of its baseline.
        position: the position of the seed or fold.
        after_full: False for full fine-tuning, True for all other methods.
    """

    unlikely: bool
    stage: Stage
    model: int
    position: int
    after_full: bool


class Progress(NamedTuple):
    """The planned runs of a comparison, and the scores recorded so far.

    Attributes:
        planned: the planned runs. A learning-rate search trains the first planned run of its method
            with different learning rates.
        scores: the score of each recorded run, by the run's id; NaN if the run diverged.
        left_out: the methods that failed and are left out.
    """

    planned: Sequence[PlannedRun]
    scores: dict[str, float]
    left_out: set[Method]

    def score(self, run: RunSpec) -> float | None:
        """Return the score of a run, or None if it is not recorded."""
        return self.scores.get(run.id)

    def join_recorded_runs(self) -> list[dict[str, Any]]:
        return join_recorded_runs(self.planned, self.score)

    def model_order(self) -> list[str]:
        """Return the models, sorted by the score of the regression on their embeddings."""
        best_scores: dict[str, float] = {}
        for planned in self.planned:
            # TF-IDF does not use the model for which it is planned.
            if not planned.spec.reads_texts:
                is_fit, name = planned.spec.is_baseline, planned.model_name
                score = self.scores.get(planned.spec.id, -math.inf) if is_fit else -math.inf
                best_scores[name] = max(best_scores.get(name, -math.inf), score)
        return sorted(best_scores, key=lambda name: -best_scores[name])


def rank_missing_runs(
    progress: Progress, unlikely: Collection[Method] = ()
) -> list[tuple[Rank, list[PlannedRun]]]:
    """Rank the runs that are not recorded yet, the most useful first.

    Models are trained in each `Stage` one after another, starting with the best baseline. On each
    seed or fold, full fine-tuning comes first. TF-IDF, which has no model, is ranked with the first
    model. If a method's first run diverges, its search begins immediately. Methods that are
    ``unlikely`` to be the answer come last, except full fine-tuning. Each returned run has a single
    learning rate instead of a search.
    """
    return collect_missing_runs(progress, _rank_runs(progress, unlikely))


def collect_missing_runs(
    progress: Progress, ranked: Iterable[tuple[Any, RunSpec, PlannedRun]]
) -> list[tuple[Any, list[PlannedRun]]]:
    """Group ranked specs of planned runs by rank, without those that are recorded or repeated."""
    groups, known = defaultdict[Any, list[PlannedRun]](list), {*progress.scores}
    for rank, run, planned in ranked:
        if run.id not in known:
            known.add(run.id)
            groups[rank].append(planned.replace(spec=run, search=None))
    return sorted(groups.items(), key=lambda group: group[0])


def _rank_runs(
    progress: Progress, unlikely: Collection[Method]
) -> Iterator[tuple[Rank, RunSpec, PlannedRun]]:
    """Yield the runs of each planned run that may be trained next, with their ranks."""
    order = progress.model_order()
    positions: dict[tuple, int] = {}
    diverged = dict[tuple, bool]()
    for planned in progress.planned:
        method, setting = (planned.model_name, planned.method), planned.setting
        position = positions[setting] = positions.get(setting, -1) + 1
        if method in progress.left_out:
            continue
        model = 0 if planned.spec.reads_texts else order.index(planned.model_name)
        after_full = planned.method != FULL
        stage = Stage.MORE_SEEDS if position >= DEFAULTS.fewest_seeds else Stage.FIRST_SEEDS
        if planned.spec.is_baseline:
            if planned.spec.recipe.train_rows:
                stage = Stage.FEWER_ROWS
            elif position == 0:
                stage = Stage.BASELINES
        is_unlikely = after_full and method in unlikely and stage is not Stage.BASELINES
        rank = Rank(is_unlikely, stage, model, position, after_full)
        search = planned.search
        if not search:
            yield rank, planned.spec, planned
            continue
        tried, missing = follow_search(search, progress.score)
        recommended = planned.spec.with_learning_rate(middle_rate(search))
        diverged.setdefault(setting, math.isnan(progress.score(recommended) or 0))
        if missing and not (position and diverged[setting]):
            yield rank, recommended, planned
        if not diverged[setting]:
            rank = rank._replace(stage=Stage.RATES)
        for rate in missing:
            yield rank._replace(position=0), search.run.with_learning_rate(rate), planned
        if not missing:
            yield rank, planned.spec.with_learning_rate(best_rate(search, tried)), planned
