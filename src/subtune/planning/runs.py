"""Runs of experiments: model × task × method × learning rate × seed, and masks."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

from subtune.config import Config, Experiment
from subtune.config.schema import each_trained
from subtune.core.errors import SubtuneError, listed
from subtune.families.base import SEQUENCE_CLASSIFICATION
from subtune.planning.inputs import Grid, Planned, add_model, add_tokens, labels_of
from subtune.selections import Selection
from subtune.selections.embeddings import Embeddings
from subtune.selections.entries import Ranked, Top
from subtune.selections.kind import Work
from subtune.selections.patterns import require_whole
from subtune.selections.rankings import Scope, fishers_in_scope
from subtune.selections.specs import (
    SEARCH_FOLDS,
    FisherSpec,
    Fit,
    ModelSpec,
    RankingSpec,
    Recipe,
    RunSpec,
    Searched,
    tie_of_scores,
    trial_share,
)
from subtune.tasks.task import TEST, TaskSize


def add_experiment(grid: Grid, config: Config, name: str) -> None:
    """Add an experiment's runs to the grid, and what they are trained with.

    Raises:
        SubtuneError: a local file that a run needs is missing or of the wrong kind, or all of
            several numbers of training rows are a whole training set.
    """
    experiment = config.experiments[name]
    planned = []
    for model in experiment.models:
        spec = add_model(grid, config, name, model)
        fishers = _add_fishers(grid, config, name, spec)
        grid.experiment_fishers[name] = fishers
        for task in experiment.tasks:
            tokens = fishers[task].tokens
            size = grid.size_of(tokens, experiment.fold_of(experiment.seeds[0]))
            settings = experiment.settings(task)
            limits = settings.limits_of_rows(size.train_rows)
            if len(limits) < min(2, len(settings.train_rows)):
                own = "" if settings.train_rows == experiment.train_rows else f"by_task.{task}."
                found = listed(map(str, settings.train_rows))
                raise SubtuneError(
                    f"experiments.{name}.{own}train_rows: found {found}, which are all "
                    f"{size.train_rows} rows of task {task!r}; expected a number below "
                    f"{size.train_rows} among them, or only `all`"
                )
            run = partial(_planned, experiment, model, fishers[task], size)
            for number in limits:
                planned += _whole_methods(config, experiment, model, task, number, run)
            planned += _top_fractions(grid, config, experiment, task, fishers, max(limits), run)
    for of in planned:
        grid.tokens.setdefault(of.run.tokens.key, of.run.tokens)
        grid.runs.setdefault(of.run.id, of.run)
    grid.experiments[name] = planned


def _add_fishers(grid: Grid, config: Config, name: str, model: ModelSpec) -> dict[str, FisherSpec]:
    """Return each task's Fisher information, and add it to the grid."""
    experiment, all_tasks = config.experiments[name], config.all_tasks()
    settings = experiment.fisher
    in_full = None
    if experiment.fractions:
        of_masks = require_whole(config.selection(experiment.fractions.of))
        in_full = of_masks if of_masks.work() is Work.MATRICES else None
    fishers = {}
    for task in experiment.tasks:
        tokens = add_tokens(grid, config, name, model, all_tasks[task])
        fisher = FisherSpec(
            model=model,
            tokens=tokens,
            rows=settings.rows,
            seed=settings.seed,
            in_full=in_full,
            labels=labels_of(experiment, all_tasks[task]),
        )
        grid.fishers[fisher.key] = fisher
        fishers[task] = fisher
    return fishers


def _whole_methods(
    config: Config,
    experiment: Experiment,
    model: str,
    task: str,
    train_rows: int,
    run: Callable[..., Planned],
) -> list[Planned]:
    """Return the runs of whole methods.

    Learning rates are outermost, so that a new one at the end leaves earlier sweeps as they are.
    """
    of_task = experiment.settings(task).learning_rates
    runs = []
    for method, of_method in experiment.methods_of(model).items():
        selection = config.selection(method, model)
        rates: tuple = each_trained(of_method or of_task or ())
        if isinstance(selection, Embeddings):
            # Words and spans have no label of the whole text.
            head = config.all_tasks()[task].of_kind.head
            rates = (None,) if head == SEQUENCE_CLASSIFICATION else ()
        runs += [
            (position, run(selection, rate, seed, method, train_rows))
            for position, rate in enumerate(rates)
            for seed in experiment.seeds
        ]
    return [planned for _, planned in sorted(runs, key=lambda row: row[0])]


def _top_fractions(
    grid: Grid,
    config: Config,
    experiment: Experiment,
    task: str,
    fishers: Mapping[str, FisherSpec],
    train_rows: int,
    run: Callable[..., Planned],
) -> Iterator[Planned]:
    """Yield the runs of masks. In every scope fraction 1 is the whole selection."""
    fractions = experiment.fractions
    if fractions is None:
        return
    base = require_whole(config.selection(fractions.of))
    rates = fractions.learning_rates or experiment.settings(task).learning_rates or ()
    for scope in fractions.scopes:
        ranking = RankingSpec(of=base, fishers=tuple(fishers_in_scope(scope, task, fishers)))
        grid.rankings[ranking.id] = ranking
        for rate, seed, fraction in product(
            each_trained(rates), experiment.seeds, fractions.values
        ):
            top = Top(top=Ranked(ranking=ranking.id, fraction=fraction)) if fraction < 1 else base
            yield run(top, rate, seed, fractions.of, train_rows, fraction, scope)


def _planned(
    experiment: Experiment,
    model: str,
    fisher: FisherSpec,
    size: TaskSize,
    selection: Selection,
    learning_rate: float | Searched | None,
    seed: int,
    method: str,
    train_rows: int,
    fraction: float | None = None,
    scope: Scope | None = None,
) -> Planned:
    """Return a run with the model, the task and the token ids of ``fisher``.

    Without a learning rate it fits to embeddings, of the two texts of a pair apart. A seed only
    draws its training rows, if these are limited.
    """
    task = fisher.tokens.data.task.name
    settings, fold = experiment.settings(task, method), experiment.fold_of(seed)
    limit = settings.limits_of_rows(size.train_rows)[train_rows]
    has_words = fisher.tokens.data.task.of_kind.has_label_words
    class_weights = settings.class_weights if has_words else None
    if learning_rate is None:
        run = RunSpec(
            model=fisher.model,
            tokens=fisher.tokens.replaced(apart=len(fisher.tokens.data.task.text) > 1),
            selection=selection,
            recipe=Fit(train_rows=limit, fold=fold, class_weights=class_weights),
            seed=0 if limit is None else seed,
        )
        return Planned(run, model, task, method, train_rows, seed)
    fields = Recipe.model_fields.keys() & Experiment.model_fields.keys()
    recipe = {name: getattr(settings, name) for name in fields} | {
        "learning_rate": learning_rate,
        "labels": fisher.labels,
        "train_rows": limit,
        "fold": fold,
        "class_weights": class_weights,
    }
    if isinstance(learning_rate, tuple):
        searching = size
        # Papers search as they say. Test rows or folds judge apart anyway, and few rows cannot be
        # spared.
        dev_judges = not (experiment.paper or fold or TEST in fisher.tokens.data.task.evaluation)
        if dev_judges and size.most_folds(SEARCH_FOLDS) == SEARCH_FOLDS:
            searching = size.divided(SEARCH_FOLDS, others=0)
            recipe["search_folds"] = SEARCH_FOLDS
        rows = searching.rows_within(train_rows)
        steps = math.ceil(rows / settings.batch_size) * settings.epochs
        # The first seed searches for all.
        recipe |= {"search_seed": experiment.seeds[0], "trial": trial_share(steps)}
        recipe["tie"] = tie_of_scores(searching.evaluation_rows)
    run = RunSpec(
        model=fisher.model,
        tokens=fisher.tokens,
        selection=selection,
        recipe=Recipe(**recipe),
        seed=seed,
    )
    return Planned(run, model, task, method, train_rows, seed, fraction, scope)
