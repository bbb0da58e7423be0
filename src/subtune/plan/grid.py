"""The runs of an experiment: how a run is made from the experiment's settings.

An experiment trains each of its methods on each of its models and tasks, with each number of
training rows, learning rate and seed. Every such combination is one run. With ``fractions``, it
also trains the entries of one method with the most Fisher information: these runs have masks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

from subtune.config import Config, Experiment
from subtune.config.schema import Rate
from subtune.methods import Selection
from subtune.methods.added import Embeddings
from subtune.methods.selection import require_whole
from subtune.methods.single_entries import Ranked, Scope, Top
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs.spec import (
    FisherSpec,
    Fit,
    Fold,
    PlannedRun,
    RankingSpec,
    Recipe,
    RunSpec,
    SearchSpec,
)
from subtune.tasks.task import TEST, TaskSize

# Outside papers, a search is scored on one of this many folds of the training rows, if possible.
SEARCH_FOLDS = 5
# The settings of an experiment that the recipes of its runs have under the same name.
SAME_IN_RECIPES = Recipe.model_fields.keys() & Experiment.model_fields.keys()
# Larger gradients are scaled down to this norm, as in BitFit's published code.
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Planned:
    """A run, and an experiment's names for it in tables and figures.

    Attributes:
        of: the run, and the search that finds its learning rate, if there is one.
        train_rows: the run's number of training rows.
        seed: the experiment's seed. If seeds do not change a run, the run counts for all of them.
        fraction: the share of the method's entries that train; None for a whole method.
        scope: the tasks whose Fisher information chose these entries; None for a whole method.
    """

    of: PlannedRun
    model: str
    task: str
    method: str
    train_rows: int
    seed: int
    fraction: float | None = None
    scope: Scope | None = None

    @property
    def run(self) -> RunSpec:
        """The run. If a search finds its learning rate, it has the first rate of the search."""
        return self.of.run

    @property
    def key(self) -> str:
        """The run's name in plans."""
        return self.of.key

    @property
    def facts(self) -> dict[str, Any]:
        """The columns of tables that the run's record does not have, with ``key`` and ``search``.

        ``learning_rate`` is None if a search finds it.
        """
        names = ("model", "task", "method", "fraction", "scope", "train_rows", "fold")
        facts = {"key": self.key, "search": self.of.search}
        facts |= {name: getattr(self, name) for name in names}
        rate = None if self.of.search else self.run.recipe.learning_rate
        return facts | {"learning_rate": rate, "seed": self.seed}

    @property
    def fold(self) -> int | None:
        """The number of the fold on which the run is scored, or None if dev rows are scored."""
        return self.run.recipe.fold.number if self.run.recipe.fold else None

    @property
    def partition(self) -> int | None:
        """The index of the partition to which the fold belongs."""
        return self.run.recipe.fold.partition if self.run.recipe.fold else None


class Cell(NamedTuple):
    """One cell of a `Grid`: the names and numbers of a run in tables, as in `Planned`."""

    method: str
    train_rows: int
    seed: int
    fraction: float | None = None
    scope: Scope | None = None


@dataclass(frozen=True)
class Grid:
    """All runs of one model and task of an experiment.

    Attributes:
        model: the model's name in the configuration.
        task: the task's name.
        fishers: the model's Fisher information on each of the experiment's tasks. It has the values
            that runs need, too: the model, the task's token ids and its labels.
        size: the numbers of rows on which a run of the task trains and is scored.
        rankings: the plan's rankings by id, to which those of masks are added.
        searches: the plan's searches by id, to which those of runs are added.
    """

    config: Config
    experiment: Experiment
    model: str
    task: str
    fishers: Mapping[str, FisherSpec]
    size: TaskSize
    rankings: dict[str, RankingSpec]
    searches: dict[str, SearchSpec]

    def runs(self) -> Iterator[Planned]:
        """Yield the methods' runs on every number of training rows, then masks' on the largest."""
        numbers = self.experiment.settings(self.task).numbers_of_rows(self.size.train_rows)
        for train_rows in numbers:
            yield from self._whole_methods(train_rows)
        if self.experiment.fractions:
            yield from self._masks(max(numbers))

    def _whole_methods(self, train_rows: int) -> Iterator[Planned]:
        """Yield the runs of each method at each of its learning rates.

        Learning rates vary slowest, so appending one does not change earlier sweeps.
        """
        runs: list[tuple[int, Planned]] = []
        for method in self.experiment.methods_of(self.model):
            selection = self.config.selection(method, self.model)
            cells = [Cell(method, train_rows, seed) for seed in self.experiment.seeds]
            if isinstance(selection, Embeddings):
                # Words and spans have no label for the whole text.
                if self.config.all_tasks()[self.task].of_kind.head == SEQUENCE_CLASSIFICATION:
                    runs += [(0, self._fitted(selection, cell)) for cell in cells]
                continue
            rates = self.experiment.rates_of(method, self.model, self.task)
            runs += [
                (position, self._trained(selection, rate, cell))
                for (position, rate), cell in product(enumerate(rates), cells)
            ]
        yield from (planned for _, planned in sorted(runs, key=itemgetter(0)))

    def _masks(self, train_rows: int) -> Iterator[Planned]:
        """Yield the runs of masks. Fraction 1 is the whole selection in every scope."""
        fractions = self.experiment.fractions
        assert fractions
        whole = require_whole(self.config.selection(fractions.of))
        rates = self.experiment.rates_of(fractions.of, self.model, self.task)
        for scope in fractions.scopes:
            tasks = {
                "individual": {self.task},
                "global": {*self.fishers},
                "cv": {*self.fishers} - {self.task},
            }[scope]
            fishers = tuple(self.fishers[task] for task in sorted(tasks))
            ranking = RankingSpec(of=whole, fishers=fishers)
            self.rankings[ranking.id] = ranking
            for rate, seed, fraction in product(rates, self.experiment.seeds, fractions.values):
                top = Top(top=Ranked(ranking=ranking.id, fraction=fraction))
                cell = Cell(fractions.of, train_rows, seed, fraction, scope)
                yield self._trained(top if fraction < 1 else whole, rate, cell)

    def _trained(self, selection: Selection, rate: Rate, cell: Cell) -> Planned:
        """Return the run that trains a selection. A search may replace its learning rate."""
        fisher, settings = self.fishers[self.task], self.experiment.settings(self.task, cell.method)
        same = {name: getattr(settings, name) for name in SAME_IN_RECIPES}
        own = {"learning_rate": rate.value, "max_grad_norm": MAX_GRAD_NORM, "labels": fisher.labels}
        recipe = Recipe(**same | own | self._rows_of(cell))
        run = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens,
            selection=selection,
            recipe=recipe,
            seed=cell.seed,
        )
        search = self._search(run, rate, cell.train_rows) if rate.searched else None
        of = PlannedRun(run=run, search=search)
        return Planned(of, self.model, self.task, *cell)

    def _fitted(self, selection: Embeddings, cell: Cell) -> Planned:
        """Return the run that fits a regression to the frozen model's embeddings of texts.

        The texts of a pair are embedded separately. The seed only draws training rows, so runs on
        all rows have the same seed.
        """
        fisher, recipe = self.fishers[self.task], Fit(**self._rows_of(cell))
        run = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens.replaced(apart=len(fisher.tokens.data.task.text) > 1),
            selection=selection,
            recipe=recipe,
            seed=0 if recipe.train_rows is None else cell.seed,
        )
        return Planned(PlannedRun(run=run), self.model, self.task, *cell)

    def _rows_of(self, cell: Cell) -> dict[str, Any]:
        """Return the fields of a recipe that say which rows train, and with which weights.

        A run on all rows has no limit, so that more rows do not change its id.
        """
        has_words = self.fishers[self.task].tokens.data.task.of_kind.has_label_words
        is_limited = cell.train_rows < self.size.train_rows
        return {
            "train_rows": cell.train_rows if is_limited else None,
            "fold": self.experiment.fold_of(cell.seed),
            "class_weights": self.experiment.class_weights if has_words else None,
        }

    def _search(self, run: RunSpec, rate: Rate, train_rows: int) -> str:
        """Return the id of the search that finds the learning rate of a run, for all seeds.

        The search trains the run of the first seed. It is scored on a fold of the training rows if
        dev rows would otherwise both choose the learning rate and compare methods: outside papers,
        without folds and without test rows. With too few rows for folds, dev rows do both.
        """
        seed = self.experiment.seeds[0]
        fold = self.experiment.fold_of(seed)
        has_test = TEST in run.tokens.data.task.evaluation
        dev_rows_compare = not (self.experiment.paper or fold or has_test)
        if dev_rows_compare and self.size.most_folds(SEARCH_FOLDS) == SEARCH_FOLDS:
            scored = self.size.for_cv_fold(SEARCH_FOLDS, others=0).evaluation_rows
            # A search is scored on at most as many rows as it trains on.
            limit = train_rows if train_rows < scored else None
            fold = Fold(of=SEARCH_FOLDS, number=0, rows=limit)
        run = run.replaced(seed=seed, recipe=run.recipe.replaced(fold=fold))
        search = SearchSpec(run=run, rates=rate.searched)
        self.searches[search.id] = search
        return search.id
