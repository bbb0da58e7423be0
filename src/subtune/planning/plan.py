"""The plan: the values of all stages of all experiments. It does not depend on run records."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from subtune.config import Config, Experiment
from subtune.config.schema import each_trained
from subtune.core.content_ids import id_of
from subtune.core.errors import SubtuneError, listed
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.planning.inputs import labels_of, model_and_location, test_tokens, train_tokens
from subtune.planning.jobs import Sweep, part_of_shared_steps, split_runs, split_searches
from subtune.selections import Selection
from subtune.selections.added import Embeddings
from subtune.selections.entries import Ranked, Scope, Top
from subtune.selections.kind import Work, require_whole
from subtune.selections.specs import (
    SEARCH_FOLDS,
    DataSpec,
    FisherSpec,
    Fit,
    Fold,
    ModelSpec,
    PlannedRun,
    RankingSpec,
    Recipe,
    RunSpec,
    SearchSpec,
    TokensSpec,
)
from subtune.tasks.task import TEST, TaskSize


@dataclass(frozen=True)
class Planned:
    """A run, and an experiment's names for it in tables and figures.

    ``train_rows`` is the run's number of training rows. ``seed`` is the experiment's; if seeds do
    not change a run, the run counts for all seeds.
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
        """The run, at the first learning rate if a search finds it."""
        return self.of.run

    @property
    def key(self) -> str:
        """The run's name in plans."""
        return self.of.key

    @property
    def facts(self) -> dict[str, Any]:
        """The run's columns in tables that its record does not have, its ``key`` and ``search``.

        If a search finds the learning rate, it is not among them.
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
        """The number of the fold's partition."""
        return self.run.recipe.fold.partition if self.run.recipe.fold else None


@dataclass
class Plan:
    """The values of all stages. Other values follow from the runs.

    Attributes:
        sizes: sizes of tasks by the keys of their rows.
        on_gpu: whether jobs and costs are those of a GPU.
        locations: repositories on the hub or local directories, by model id.
        tests: token ids of test rows that the GLUE server scores, by the key of the training rows'
            token ids.
        rankings: rankings by Fisher information, by id.
        searches: searches for learning rates, by id.
        search_jobs: the ids of each job's searches, by key.
        experiments: runs by experiment.
        experiment_fishers: Fisher information by experiment and task.
        sweeps: each job's runs, by key.
    """

    sizes: dict[str, TaskSize]
    on_gpu: bool
    locations: dict[str, str] = field(default_factory=dict)
    tests: dict[str, TokensSpec] = field(default_factory=dict)
    rankings: dict[str, RankingSpec] = field(default_factory=dict)
    searches: dict[str, SearchSpec] = field(default_factory=dict)
    search_jobs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    experiments: dict[str, list[Planned]] = field(default_factory=dict)
    experiment_fishers: dict[str, dict[str, FisherSpec]] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)

    @cached_property
    def runs(self) -> dict[str, PlannedRun]:
        """Runs by key."""
        return {p.key: p.of for planned in self.experiments.values() for p in planned}

    @cached_property
    def fishers(self) -> dict[str, FisherSpec]:
        """Fisher information by key."""
        return {f.key: f for by_task in self.experiment_fishers.values() for f in by_task.values()}

    @cached_property
    def tokens(self) -> dict[str, TokensSpec]:
        """Token ids by key."""
        read = [fisher.tokens for fisher in self.fishers.values()]
        read += [planned.run.tokens for planned in self.runs.values()]
        every = [*read, *self.tests.values()]
        return {tokens.key: tokens for tokens in every}

    @cached_property
    def datasets(self) -> dict[str, DataSpec]:
        """Rows of tasks by key."""
        return {tokens.data.key: tokens.data for tokens in self.tokens.values()}

    @cached_property
    def models(self) -> dict[str, ModelSpec]:
        """Models by id."""
        return {planned.run.model.id: planned.run.model for planned in self.runs.values()}

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """Ids of models by their names in the configuration."""
        return {p.model: p.run.model.id for planned in self.experiments.values() for p in planned}

    def size_of(self, tokens: TokensSpec, fold: Fold | None = None) -> TaskSize:
        """Return the size of a run's task, given the fold on which the run is scored, if any."""
        size = self.sizes[tokens.data.key]
        if fold is None:
            return size
        others = size.evaluation_rows if len(tokens.data.task.evaluation) > 1 else 0
        return size.divided(fold.of, others, fold.rows)

    def rows_of(self, run: str) -> int:
        """Return the number of a run's training rows."""
        tokens, recipe = self.runs[run].run.tokens, self.runs[run].run.recipe
        return self.size_of(tokens, recipe.fold).rows_within(recipe.train_rows)

    def examples_of_a_row(self, tokens: TokensSpec) -> int:
        """Return the number of examples of an average row."""
        return self.size_of(tokens).examples_of_a_row(tokens.max_length, tokens.doc_stride)

    def work(self, run: str) -> Work:
        """Return a run's work, by which its cost is estimated."""
        selection = self.runs[run].run.selection
        ranking = selection.ranking
        return (self.rankings[ranking].of if ranking else selection).work()

    def shared_steps(self, run: str) -> Hashable:
        """Return what runs of one job have in common if they share steps; of a run that shares
        none, its key."""
        spec, work = self.runs[run].run, self.work(run)
        part = part_of_shared_steps(spec, work, self.on_gpu)
        epochs = spec.seed, spec.recipe.fold, spec.recipe.epochs
        return run if part == spec.id else (*epochs, work, part)

    def sweeps_of(self, experiment: str, **names: str) -> list[str]:
        """Return the keys of the sweeps with an experiment's runs, or with its runs of ``names``.

        ``names`` are the names of a model, a task and a method.
        """
        runs = {
            planned.key
            for planned in self.experiments[experiment]
            if all(getattr(planned, key) == name for key, name in names.items())
        }
        return [key for key, sweep in self.sweeps.items() if not runs.isdisjoint(sweep.runs)]

    def first_run(self, sweep: str) -> RunSpec:
        """Return one run of a sweep. All its runs share model and tokens."""
        return self.runs[self.sweeps[sweep].runs[0]].run

    def rankings_of(self, sweep: str) -> list[str]:
        """Return the ids of the rankings of a sweep's masks."""
        rankings = {self.runs[run].run.selection.ranking for run in self.sweeps[sweep].runs}
        return sorted(filter(None, rankings))

    def search_jobs_of(self, *sweeps: str) -> list[str]:
        """Return the keys of the jobs that search for the learning rates of sweeps."""
        runs = [self.runs[run] for sweep in sweeps for run in self.sweeps[sweep].runs]
        asked = {run.search for run in runs}
        return [key for key, job in self.search_jobs.items() if not asked.isdisjoint(job)]

    def runs_on(self, experiment: str, model: str, task: str) -> dict[str, str]:
        """Return the key of one run on a task for each whole method that trains."""
        return {
            planned.method: planned.key
            for planned in self.experiments[experiment]
            if (planned.model, planned.task, planned.scope) == (model, task, None)
            and not isinstance(planned.run.recipe, Fit)
        }

    def on_most_rows(self, experiment: str) -> list[Planned]:
        """Return, for each model and task, an experiment's runs with the most training rows."""
        runs = self.experiments[experiment]
        largest: dict[tuple[str, str], int] = {}
        for planned in runs:
            key = planned.model, planned.task
            largest[key] = max(largest.get(key, 0), planned.train_rows)
        return [p for p in runs if p.train_rows == largest[p.model, p.task]]


def plan(config: Config, sizes: Mapping[str, TaskSize] | None = None) -> Plan:
    """Return the plan of every stage of every experiment.

    Tasks whose rows are in ``sizes``, from an earlier plan, are not read again.

    Raises:
        SubtuneError: a local file is missing or wrong, or each of several numbers of training rows
            is the whole training set.
    """
    plan = Plan(sizes=dict(sizes or {}), on_gpu=config.assumptions.on_gpu)
    for name, experiment in config.experiments.items():
        planned: list[Planned] = []
        for model in experiment.models:
            fishers = _add_fishers(plan, config, name, model)
            for task in experiment.tasks:
                size = plan.size_of(fishers[task].tokens, experiment.fold_of(experiment.seeds[0]))
                grid = _Grid(config, experiment, model, task, fishers, size, plan.searches)
                numbers = grid.numbers_of_rows(name)
                for number in numbers:
                    planned += grid.whole_methods(number)
                planned += grid.masks(max(numbers), plan.rankings)
        plan.experiments[name] = planned
    plan.sweeps = {sweep.key: sweep for sweep in split_runs(plan, config)}
    plan.search_jobs = {_key_of(job): job for job in split_searches(plan, config)}
    return plan


def _key_of(searches: tuple[str, ...]) -> str:
    """Return the key of a job of searches."""
    return searches[0] if len(searches) == 1 else id_of(" ".join(searches))


def _add_fishers(plan: Plan, config: Config, name: str, model: str) -> dict[str, FisherSpec]:
    """Add an experiment's Fisher information to the plan, and return it by task."""
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    spec, location = model_and_location(config, name, model)
    plan.locations[spec.id] = location
    in_full = None
    if experiment.fractions:
        ranked = require_whole(config.selection(experiment.fractions.of))
        in_full = ranked if ranked.work() is Work.MATRICES else None
    fishers = {}
    for task in experiment.tasks:
        tokens = train_tokens(config, plan.sizes, name, spec, all_tasks[task])
        if config.is_submitted(task):
            tests = plan.tests[tokens.key] = test_tokens(config, experiment, spec, all_tasks[task])
            plan.sizes[tests.data.key] = plan.sizes[tokens.data.key]
        fishers[task] = FisherSpec(
            model=spec,
            tokens=tokens,
            rows=experiment.fisher.rows,
            seed=experiment.fisher.seed,
            in_full=in_full,
            labels=labels_of(experiment, all_tasks[task]),
        )
    plan.experiment_fishers[name] = fishers
    return fishers


@dataclass(frozen=True)
class _Grid:
    """The runs of one model and task of an experiment.

    ``fishers`` has the Fisher information of all the experiment's tasks; ``size`` is the size of
    the grid's task. New searches are added to ``searches``.
    """

    config: Config
    experiment: Experiment
    model: str
    task: str
    fishers: Mapping[str, FisherSpec]
    size: TaskSize
    searches: dict[str, SearchSpec]

    def numbers_of_rows(self, name: str) -> list[int]:
        """Return the numbers of rows to train on in the experiment ``name``.

        Raises:
            SubtuneError: there are several numbers, and each is the whole training set.
        """
        settings, every = self.experiment.settings(self.task), self.size.train_rows
        limits = settings.limits_of_rows(every)
        if len(limits) < min(2, len(settings.train_rows)):
            is_shared = settings.train_rows == self.experiment.train_rows
            raise SubtuneError(
                f"experiments.{name}.{'' if is_shared else f'by_task.{self.task}.'}train_rows: "
                f"found {listed(map(str, settings.train_rows))}, which are all {every} rows of "
                f"task {self.task!r}; expected a number below {every} among them, or only `all`"
            )
        return list(limits)

    def whole_methods(self, train_rows: int) -> list[Planned]:
        """Return the runs of whole methods.

        Learning rates vary slowest, so appending one does not change earlier sweeps.
        """
        usual = self.experiment.settings(self.task).learning_rates
        runs = []
        for method, own in self.experiment.methods_of(self.model).items():
            selection = self.config.selection(method, self.model)
            rates: tuple = each_trained(own or usual or ())
            if isinstance(selection, Embeddings):
                # Words and spans have no label for the whole text.
                head = self.config.all_tasks()[self.task].of_kind.head
                rates = (None,) if head == SEQUENCE_CLASSIFICATION else ()
            runs += [
                (position, self._run(selection, rate, seed, method, train_rows))
                for position, rate in enumerate(rates)
                for seed in self.experiment.seeds
            ]
        return [planned for _, planned in sorted(runs, key=lambda row: row[0])]

    def masks(self, train_rows: int, rankings: dict[str, RankingSpec]) -> Iterator[Planned]:
        """Yield the runs of masks, and add their rankings to ``rankings``.

        Fraction 1 is the whole selection in every scope.
        """
        fractions = self.experiment.fractions
        if fractions is None:
            return
        base = require_whole(self.config.selection(fractions.of))
        rates = fractions.learning_rates or self.experiment.settings(self.task).learning_rates
        for scope in fractions.scopes:
            tasks = {
                "individual": {self.task},
                "global": {*self.fishers},
                "cv": {*self.fishers} - {self.task},
            }[scope]
            fishers = tuple(self.fishers[task] for task in sorted(tasks))
            ranking = RankingSpec(of=base, fishers=fishers)
            rankings[ranking.id] = ranking
            for rate, seed, fraction in product(
                each_trained(rates or ()), self.experiment.seeds, fractions.values
            ):
                top = Top(top=Ranked(ranking=ranking.id, fraction=fraction))
                selection = top if fraction < 1 else base
                yield self._run(selection, rate, seed, fractions.of, train_rows, fraction, scope)

    def _run(
        self,
        selection: Selection,
        learning_rate: float | tuple[float, ...] | None,
        seed: int,
        method: str,
        train_rows: int,
        fraction: float | None = None,
        scope: Scope | None = None,
    ) -> Planned:
        """Return a run with a learning rate, or with the one that a search among several finds.

        Without a learning rate, the run fits a regression to embeddings. The regression embeds the
        texts of a pair separately, and its seed only draws training rows if they are limited.
        """
        fisher, fold = self.fishers[self.task], self.experiment.fold_of(seed)
        settings = self.experiment.settings(self.task, method)
        limit = settings.limits_of_rows(self.size.train_rows)[train_rows]
        tokens, drawn_by = fisher.tokens, seed
        recipe: Recipe | Fit
        has_words = tokens.data.task.of_kind.has_label_words
        weights = settings.class_weights if has_words else None
        if learning_rate is None:
            tokens = tokens.replaced(apart=len(tokens.data.task.text) > 1)
            recipe = Fit(train_rows=limit, fold=fold, class_weights=weights)
            drawn_by = 0 if limit is None else seed
        else:
            names = Recipe.model_fields.keys() & Experiment.model_fields.keys()
            rates = learning_rate if isinstance(learning_rate, tuple) else (learning_rate,)
            fields = {name: getattr(settings, name) for name in names} | {
                "learning_rate": rates[0],
                "labels": fisher.labels,
                "train_rows": limit,
                "fold": fold,
                "class_weights": weights,
            }
            recipe = Recipe(**fields)
        run = RunSpec(
            model=fisher.model, tokens=tokens, selection=selection, recipe=recipe, seed=drawn_by
        )
        search = None
        if isinstance(learning_rate, tuple):
            search = self._search(run, learning_rate, train_rows)
        of = PlannedRun(run=run, search=search)
        return Planned(of, self.model, self.task, method, train_rows, seed, fraction, scope)

    def _search(self, run: RunSpec, rates: tuple[float, ...], train_rows: int) -> str:
        """Return the id of the search with the first seed, for the runs of all seeds."""
        seed = self.experiment.seeds[0]
        fold = self.experiment.fold_of(seed)
        evaluation = run.tokens.data.task.evaluation
        # A search is scored on a fold if its run is scored on dev rows, there is no paper, and
        # there are enough rows.
        dev_judges = not (self.experiment.paper or fold or TEST in evaluation)
        if dev_judges and self.size.most_folds(SEARCH_FOLDS) == SEARCH_FOLDS:
            judging = self.size.divided(SEARCH_FOLDS, others=0).evaluation_rows
            # A search is scored on at most as many rows as it trains on.
            most = train_rows if train_rows < judging else None
            fold = Fold(of=SEARCH_FOLDS, number=0, rows=most)
        run = run.replaced(seed=seed, recipe=run.recipe.replaced(fold=fold))
        search = SearchSpec(run=run, rates=rates)
        self.searches[search.id] = search
        return search.id
