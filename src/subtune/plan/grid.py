"""The runs of an experiment: how a run is made from the experiment's settings.

An experiment trains each of its methods on each of its models and tasks, with each number of
training rows, learning rate and seed. Every such combination is one run. With ``fractions``, it
also trains the entries of one method with the most Fisher information: these runs have masks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import Any

from subtune.config.fields import Rate
from subtune.config.schema import Config, Experiment
from subtune.methods import Selection
from subtune.methods.added import Embeddings, TfIdf
from subtune.methods.selection import WholeTensors, require_whole
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
# The settings of an experiment that the recipes of its runs have, too. The others of the same name
# also depend on the task.
SAME_IN_RECIPES = (Recipe.model_fields.keys() & Experiment.model_fields.keys()) - {
    "labels",
    "train_rows",
    "class_weights",
}
# Larger gradients are scaled down to this norm, as in BitFit's published code.
MAX_GRAD_NORM = 1.0
# A planned run, and the search that finds its learning rate, if there is one.
RunWithSearch = tuple[PlannedRun, SearchSpec | None]


@dataclass(frozen=True)
class Grid:
    """All runs of one model and task of an experiment.

    Attributes:
        model_name: the model's name in the configuration.
        task_name: the task's name.
        fishers: the model's Fisher information on each of the experiment's tasks. It has the values
            that runs need, too: the model, the task's token ids and its labels.
        size: the numbers of rows on which a run of the task trains and is scored.
    """

    config: Config
    experiment: Experiment
    model_name: str
    task_name: str
    fishers: Mapping[str, FisherSpec]
    size: TaskSize

    def list_runs(self) -> Iterator[RunWithSearch]:
        """Yield the methods' runs on every number of training rows, then single methods' on further
        numbers, then masks' on the largest."""
        settings = self.experiment.settings(self.task_name)
        methods = [*self.experiment.methods_for(self.model_name)]
        numbers = settings.list_row_numbers(self.size.train_rows)
        for train_rows in numbers:
            yield from self._whole_methods(train_rows, methods)
        for method in methods:
            for train_rows in settings.list_row_numbers(self.size.train_rows, method):
                yield from self._whole_methods(train_rows, [method])
        if self.experiment.fractions:
            yield from self._masks(max(numbers))

    @cached_property
    def ranked(self) -> WholeTensors:
        """The entries that `fractions` ranks."""
        assert self.experiment.fractions
        return require_whole(self.config.selection(self.experiment.fractions.of))

    @cached_property
    def rankings(self) -> dict[Scope, RankingSpec]:
        """The ranking of each scope of `fractions`."""
        if not self.experiment.fractions:
            return {}
        tasks = {
            "individual": {self.task_name},
            "global": {*self.fishers},
            "cv": {*self.fishers} - {self.task_name},
        }
        return {
            scope: RankingSpec(
                of=self.ranked, fishers=tuple(self.fishers[task] for task in sorted(tasks[scope]))
            )
            for scope in self.experiment.fractions.scopes
        }

    @property
    def _is_first_model(self) -> bool:
        """True for the model with the runs that read no model, which other models would repeat."""
        return self.model_name == self.experiment.models[0]

    def _whole_methods(self, train_rows: int, methods: Iterable[str]) -> Iterator[RunWithSearch]:
        """Yield the runs of methods at each of their learning rates.

        Learning rates vary slowest, so appending one does not change earlier sweeps.
        """
        found: list[tuple[int, RunWithSearch]] = []
        for method in methods:
            selection = self.config.selection(method, self.model_name)
            names = {"method": method, "train_rows": train_rows}
            if isinstance(selection, Embeddings | TfIdf):
                # Words and spans have no label for the whole text.
                task = self.config.all_tasks()[self.task_name]
                is_done = isinstance(selection, TfIdf) and not self._is_first_model
                if task.of_kind.head == SEQUENCE_CLASSIFICATION and not is_done:
                    fits = (self._fitted(selection, s, **names) for s in self.experiment.seeds)
                    found += [(0, (planned, None)) for planned in fits]
                continue
            rates = self.experiment.rates_for(method, self.model_name, self.task_name)
            found += [
                (position, self._trained(selection, rate, seed, **names))
                for (position, rate), seed in product(enumerate(rates), self.experiment.seeds)
            ]
        yield from (row for _, row in sorted(found, key=itemgetter(0)))

    def _masks(self, train_rows: int) -> Iterator[RunWithSearch]:
        """Yield the runs of masks. Fraction 1 is the whole selection in every scope."""
        fractions = self.experiment.fractions
        assert fractions
        rates = self.experiment.rates_for(fractions.of, self.model_name, self.task_name)
        for scope, ranking in self.rankings.items():
            for rate, seed, fraction in product(rates, self.experiment.seeds, fractions.values):
                top = Top(top=Ranked(ranking=ranking.id, fraction=fraction))
                names = {"method": fractions.of, "train_rows": train_rows}
                names |= {"fraction": fraction, "scope": scope}
                yield self._trained(top if fraction < 1 else self.ranked, rate, seed, **names)

    def _trained(self, selection: Selection, rate: Rate, seed: int, **names: Any) -> RunWithSearch:
        """Return the run that trains a selection. A search may replace its learning rate.

        ``names``: the other fields of the `PlannedRun`.
        """
        fisher = self.fishers[self.task_name]
        settings = self.experiment.settings(self.task_name, names["method"])
        same = {name: getattr(settings, name) for name in SAME_IN_RECIPES}
        spec = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens,
            selection=selection,
            recipe=Recipe(
                learning_rate=rate.value,
                max_grad_norm=MAX_GRAD_NORM,
                labels=fisher.labels,
                **same,
                **self._which_rows(names["train_rows"], seed),
            ),
            seed=seed,
        )
        search = self._search(spec, rate, names["train_rows"]) if rate.searched else None
        names |= {"model_name": self.model_name, "seed": seed}
        return PlannedRun(spec=spec, search=search.id if search else None, **names), search

    def _fitted(self, selection: Embeddings | TfIdf, seed: int, **names: Any) -> PlannedRun:
        """Return the run that fits a regression to texts.

        The texts of a pair are embedded separately. The seed only draws training rows, so runs on
        all rows have the same seed.
        """
        fisher = self.fishers[self.task_name]
        embeds_pairs = len(fisher.tokens.data.task.text) > 1 and not isinstance(selection, TfIdf)
        recipe = Fit(**self._which_rows(names["train_rows"], seed))
        spec = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens.replaced(apart=embeds_pairs),
            selection=selection,
            recipe=recipe,
            seed=0 if recipe.train_rows is None else seed,
        )
        return PlannedRun(spec=spec, model_name=self.model_name, seed=seed, **names)

    def _which_rows(self, train_rows: int, seed: int) -> dict[str, Any]:
        """Return the fields of a recipe that say which rows train, and with which weights.

        A run on all rows has no limit, so that more rows do not change its id.
        """
        has_words = self.fishers[self.task_name].tokens.data.task.of_kind.has_label_words
        return {
            "train_rows": train_rows if train_rows < self.size.train_rows else None,
            "fold": self.experiment.find_fold(seed),
            "class_weights": self.experiment.class_weights if has_words else None,
        }

    def _search(self, spec: RunSpec, rate: Rate, train_rows: int) -> SearchSpec:
        """Return the search that finds the learning rate of a run, for all seeds.

        The search trains the run of the first seed. It is scored on a fold of the training rows if
        dev rows would otherwise both choose the learning rate and compare methods: outside papers,
        without folds and without test rows. With too few rows for folds, dev rows do both.
        """
        seed = self.experiment.seeds[0]
        fold = self.experiment.find_fold(seed)
        has_test = TEST in spec.tokens.data.task.evaluation
        dev_rows_compare = not (self.experiment.paper or fold or has_test)
        if dev_rows_compare and self.size.most_folds(SEARCH_FOLDS) == SEARCH_FOLDS:
            scored = self.size.for_cv_fold(SEARCH_FOLDS, others=0).evaluation_rows
            # A search is scored on at most as many rows as it trains on.
            limit = train_rows if train_rows < scored else None
            fold = Fold(of=SEARCH_FOLDS, number=0, rows=limit)
        run = spec.replaced(seed=seed, recipe=spec.recipe.replaced(fold=fold))
        return SearchSpec(run=run, rates=rate.searched)
