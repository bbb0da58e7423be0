"""The grid of an experiment's runs: all combinations of its settings, and runs with masks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from operator import itemgetter
from typing import Any

from subtune.config.schema import Config, Experiment
from subtune.core.user_code import hash_own_code
from subtune.methods import Selection
from subtune.methods.added import Peft
from subtune.methods.baselines import Baseline, Embeddings, Estimator, TfIdf
from subtune.methods.rules import FISHER, RNG, Rule, find_rule
from subtune.methods.selection import TrainingCost, WholeTensors, require_whole
from subtune.methods.single_entries import (
    ChosenEntries,
    RankedEntries,
    Scope,
    TopSettings,
)
from subtune.models.families import SEQUENCE_CLASSIFICATION
from subtune.runs.spec import (
    FOLD_VERSION,
    FisherSpec,
    FitRecipe,
    Fold,
    MaskSpec,
    PlannedRun,
    Recipe,
    RunSpec,
    SearchSpec,
)
from subtune.tasks.task import TEST, TaskSize

# If a learning-rate search is scored on a fold, the training set is split into this many folds.
SEARCH_FOLDS = 5
# The settings of an experiment whose values in a recipe depend on the task, and the settings that
# are copied to recipes.
OF_TASK = {"labels", "train_rows", "class_weights"}
SAME_IN_RECIPES = (Recipe.model_fields.keys() & Experiment.model_fields.keys()) - OF_TASK
# Gradients are clipped to this norm, as in the published code of BitFit.
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Grid:
    """The runs of one model and task of an experiment.

    Attributes:
        fisher_specs: the spec of the model's Fisher information on each task of the experiment. The
            runs on the task use the model, token ids and labels of the spec.
        size: the size of the task, with the numbers of rows for training and evaluation.
    """

    config: Config
    experiment: Experiment
    model_name: str
    task_name: str
    fisher_specs: Mapping[str, FisherSpec]
    size: TaskSize

    def list_runs(self) -> Iterator[PlannedRun]:
        """Yield all runs in the order of the plan.

        The runs of all methods for each number of training examples come first. Then come runs for
        numbers that are set for a single method, and runs with masks, which use only the largest
        number of examples.
        """
        settings = self.experiment.with_overrides(self.task_name)
        methods = [*self.experiment.methods_for(self.model_name)]
        numbers = settings.list_row_numbers(self.size.train_rows)
        for train_rows in numbers:
            yield from self._list_method_runs(train_rows, methods)
        for method in methods:
            for train_rows in settings.list_row_numbers(self.size.train_rows, method):
                yield from self._list_method_runs(train_rows, [method])
        if self.experiment.fractions:
            yield from self._list_mask_runs(max(numbers))

    @cached_property
    def _find_rule(self) -> Callable[[str], Rule]:
        """The function `find_rule`, which imports a user's file only once for each grid."""
        return cache(find_rule)

    @cached_property
    def ranked_tensors(self) -> WholeTensors:
        """The tensors whose entries are ranked for the setting ``fractions``."""
        assert self.experiment.fractions
        return require_whole(self.config.selection(self.experiment.fractions.of))

    def _list_fishers(self, scope: Scope) -> tuple[FisherSpec, ...]:
        """List the specs of Fisher information on the tasks of a scope."""
        own = {self.task_name}
        every = {*self.fisher_specs}
        tasks = {"individual": own, "global": every, "cv": every - own}[scope]
        return tuple(self.fisher_specs[task] for task in sorted(tasks))

    def _list_method_runs(self, train_rows: int, methods: Iterable[str]) -> Iterator[PlannedRun]:
        """Yield the runs of methods at each learning rate.

        Rates are the outer loop, so that existing sweeps do not change if a rate is appended.
        """
        numbered_runs: list[tuple[int, PlannedRun]] = []
        for method in methods:
            selection = self.config.selection(method, self.model_name)
            names = {"method": method, "train_rows": train_rows}
            if isinstance(selection, Baseline):
                # These methods need one label per text, which token classification and question
                # answering do not have.
                task = self.config.all_tasks()[self.task_name]
                # A baseline without a model is planned for the first model that has the method.
                models = self.experiment.models
                having = (name for name in models if method in self.experiment.methods_for(name))
                is_repeated = selection.reads_texts and self.model_name != next(having)
                if task.of_kind.head == SEQUENCE_CLASSIFICATION and not is_repeated:
                    fits = (self._make_fit(selection, s, **names) for s in self.experiment.seeds)
                    numbered_runs += [(0, planned) for planned in fits]
                continue
            rates = self.experiment.rates_for(method, self.model_name, self.task_name)
            numbered_runs += [
                (position, self._make_run(selection, rate, seed, **names))
                for (position, rate), seed in product(enumerate(rates), self.experiment.seeds)
            ]
        yield from (run for _, run in sorted(numbered_runs, key=itemgetter(0)))

    def _list_mask_runs(self, train_rows: int) -> Iterator[PlannedRun]:
        """Yield the runs with masks. A run at fraction 1 trains the whole selection."""
        fractions = self.experiment.fractions
        assert fractions
        rates = self.experiment.rates_for(fractions.of, self.model_name, self.task_name)
        whole = self.ranked_tensors
        for by, scope in self.experiment.rankings:
            for rate, seed, fraction in product(rates, self.experiment.seeds, fractions.values):
                selection: Selection = whole
                if fraction < 1:
                    top = TopSettings(
                        share=fraction,
                        of=whole.parameters,
                        without=whole.without,
                        by=by,
                        scope=scope,
                    )
                    selection = RankedEntries(top=top)
                names = {"method": fractions.name_method(by), "train_rows": train_rows}
                names |= {"fraction": fraction, "scope": scope}
                yield self._make_run(selection, rate, seed, **names)

    def _make_run(
        self, selection: Selection, rates: tuple[float, ...], seed: int, **names: Any
    ) -> PlannedRun:
        """Make the run that trains a selection."""
        fisher = self.fisher_specs[self.task_name]
        settings = self.experiment.with_overrides(self.task_name, names["method"])
        same = {name: getattr(settings, name) for name in SAME_IN_RECIPES}
        recipe = Recipe(
            learning_rate=rates[0],
            max_grad_norm=MAX_GRAD_NORM,
            labels=fisher.labels,
            **same,
            **self._data_settings(names["train_rows"], seed),
        )
        if isinstance(selection, Peft):
            code = hash_own_code(selection.peft.places)
            selection = selection.replace(peft=selection.peft.replace(code=code))
        spec = RunSpec(
            model=fisher.model, tokens=fisher.tokens, selection=selection, recipe=recipe, seed=seed
        )
        search = self._make_search(spec, rates, names["train_rows"]) if len(rates) > 1 else None
        planned = PlannedRun(
            spec=spec, search=search, model_name=self.model_name, seed=seed, **names
        )
        if isinstance(selection, RankedEntries):
            return self._plan_masks(planned, selection.top)
        return planned

    def _plan_masks(self, planned: PlannedRun, top: TopSettings) -> PlannedRun:
        """Replace the selection of a run, and of its search, by those of masks."""
        selections: list[Selection]
        if planned.scope and top.by == FISHER and not self.experiment.folds:
            mask = self._make_mask(top)
            masks, selections = [mask], [mask.as_top, mask.as_top]
        else:
            # The run of the search may have other training examples.
            trained = [planned.spec, *([planned.search.run] if planned.search else [])]
            masks = [self._make_mask(top, run) for run in trained]
            selections = [ChosenEntries(entries=mask.id) for mask in masks]
        search = planned.search
        if search:
            search = search.replace(run=search.run.replace(selection=selections[1]))
        spec = planned.spec.replace(selection=selections[0])
        return planned.replace(spec=spec, search=search, masks=tuple(masks))

    def _make_mask(self, top: TopSettings, run: RunSpec | None = None) -> MaskSpec:
        """Make the mask of a run.

        Its rule reads those examples of the run's task on which the run is trained. Without a run,
        it reads all training examples.
        """
        rule = self._find_rule(top.by)
        in_full = top.tensors if top.tensors.work() is TrainingCost.MATRICES else None
        samples = []
        for fisher in self._list_fishers(top.scope):
            if run and rule.reads_examples and fisher.tokens == run.tokens:
                fisher = _sample_of_run(fisher, run)
            samples.append(fisher.replace(in_full=in_full))
        head = self.config.all_tasks()[self.task_name].of_kind.head
        if not rule.depends_on_task:
            # The model has the same tensors on all tasks with the same head.
            same = (each for each in samples if each.tokens.data.task.of_kind.head == head)
            samples = [next(same, samples[0])]
        return MaskSpec(
            top=top.replace(scope="individual"),
            code=rule.code_hash,
            needs=tuple(sorted(rule.needs)),
            head=head,
            samples=tuple(samples),
            seed=run.seed if run and RNG in rule.needs else 0,
        )

    def _make_fit(
        self, selection: Embeddings | TfIdf | Estimator, seed: int, **names: Any
    ) -> PlannedRun:
        """Make the run that fits a baseline.

        The texts of a pair are embedded separately. Unless the baseline is seeded, the seed only
        affects which training examples are drawn, so the specs of all runs on the whole training
        set have seed 0.
        """
        fisher = self.fisher_specs[self.task_name]
        task = fisher.tokens.data.task
        embeds_pairs = len(task.text) > 1 and not selection.reads_texts
        recipe = FitRecipe(**self._data_settings(names["train_rows"], seed))
        is_seeded = recipe.train_rows is not None
        if isinstance(selection, Estimator):
            is_seeded = is_seeded or selection.seeded
            place = selection.place(task.of_kind.has_numbers)
            recipe = recipe.replace(code=hash_own_code([place]))
        spec = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens.replace(apart=embeds_pairs),
            selection=selection,
            recipe=recipe,
            seed=seed if is_seeded else 0,
        )
        return PlannedRun(spec=spec, model_name=self.model_name, seed=seed, **names)

    def _data_settings(self, train_rows: int, seed: int) -> dict[str, Any]:
        """Return the fields of a recipe that determine the training examples and class weights."""
        has_words = self.fisher_specs[self.task_name].tokens.data.task.of_kind.has_label_words
        return {
            "train_rows": train_rows if train_rows < self.size.train_rows else None,
            "fold": self.experiment.find_fold(seed),
            "class_weights": self.experiment.class_weights if has_words else None,
        }

    def _make_search(self, spec: RunSpec, rates: tuple[float, ...], train_rows: int) -> SearchSpec:
        """Make the search for the learning rate of a run. The runs of all seeds share a search.

        If an experiment belongs to no paper and has neither folds nor a test set, methods are
        compared on the dev set. Therefore its search is scored on a fold of the training set. If
        the training set is too small for folds, or a label too rare for a scorer, the search is
        scored on the dev set.
        """
        seed = self.experiment.seeds[0]
        fold = self.experiment.find_fold(seed)
        has_test = TEST in spec.tokens.data.task.evaluation
        dev_set_compares = not (self.experiment.paper or fold or has_test)
        folds, task = self.size.most_folds(SEARCH_FOLDS), spec.tokens.data.task
        if task.scorers:
            folds = min(folds, self.size.rarest or folds)
        if dev_set_compares and folds == SEARCH_FOLDS:
            scored = self.size.for_cv_fold(SEARCH_FOLDS, others=0).evaluation_rows
            # The runs of a search are scored on at most as many examples as they are trained on.
            limit = train_rows if train_rows < scored else None
            fold = Fold(of=SEARCH_FOLDS, number=0, rows=limit, version=FOLD_VERSION)
        run = spec.replace(seed=seed, recipe=spec.recipe.replace(fold=fold))
        return SearchSpec(run=run, rates=rates)


def _sample_of_run(fisher: FisherSpec, run: RunSpec) -> FisherSpec:
    """Restrict a sample to the examples on which a run is trained."""
    fold, rows = run.recipe.fold, run.recipe.train_rows
    # The number of scored examples does not affect the other ones.
    fisher = fisher.replace(fold=fold and fold.replace(rows=None))
    if rows is None:
        return fisher
    # The run draws its examples with the same random numbers.
    return fisher.replace(rows=min(rows, fisher.rows or rows), seed=run.seed)
