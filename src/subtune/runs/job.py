"""Training of runs that share a model and a task."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from subtune.data.batches import divided
from subtune.models.encoder import Encoder, shapes_of, with_adapters
from subtune.selections.added import Adapter, Peft
from subtune.selections.entries import DiffPruning
from subtune.selections.specs import Fit, Fold, Recipe, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.delta import applied, entries_of
from subtune.training.diff_pruning import first_training
from subtune.training.recipe import Member, line_of_epoch
from subtune.training.run import Result
from subtune.training.sweeps import Report, train_sweep


@dataclass(frozen=True)
class Job:
    """A pretrained model, a task's examples by split, and rankings for masks.

    ``rankings``: ranking id to the rank of every entry. The rest goes to `train_sweep`.
    """

    model: Encoder
    examples: Mapping[str, Examples]
    task: TaskSpec
    rankings: Mapping[str, Mapping[str, np.ndarray]]
    max_side_by_side: int | None
    checkpoints: Checkpoints | None
    _of_folds: dict[Fold, Mapping[str, Examples]] = field(default_factory=dict)

    def examples_of(self, recipe: Recipe | Fit) -> Mapping[str, Examples]:
        """Return the examples of runs with a recipe: the rows that judge may be those of a fold."""
        fold = recipe.fold
        if recipe.refit:
            return {"train": self.examples["train"]}
        if fold is None:
            return self.examples
        if fold not in self._of_folds:
            train = self.examples["train"]
            others, judging = divided(train, self.task, fold)
            parts = {"train": others, self.task.evaluation[0]: judging}
            self._of_folds[fold] = {**self.examples, **parts}
        return self._of_folds[fold]

    def train(
        self, runs: Mapping[str, RunSpec], report: Report, share: float = 1.0
    ) -> Iterator[tuple[str, Result]]:
        """Train runs, named as in the log, for a share of their steps.

        Yields:
            The name and the result of each run, as soon as it is done.
        """
        # Checkpoints of a share of the steps are not those of the whole run.
        part = "" if share == 1 else f"@{share}"
        alike: dict[tuple, dict[str, RunSpec]] = {}
        for name, spec in runs.items():
            if isinstance(spec.recipe, Fit):
                settings = self.task, spec.recipe, spec.seed
                examples = self.examples_of(spec.recipe)
                result = embeddings.fit(self.model, examples, *settings)
                report(f"{name}  {line_of_epoch(result.history[0], 1, self.task)}")
                yield name, result
                continue
            alike.setdefault(_start_of(spec), {})[name] = spec
        for of_start in alike.values():
            first = next(iter(of_start.values()))
            model = model_of(first, self.model)
            names = {spec.id + part: name for name, spec in of_start.items()}
            keepers = {
                key: Keeper(self.checkpoints, [f"{key}@first"], report)
                for key, name in names.items()
                if self.checkpoints and isinstance(of_start[name].selection, DiffPruning)
            }
            members = {
                key: self._member(of_start[name], model, keepers.get(key), share)
                for key, name in names.items()
            }
            results = train_sweep(
                model,
                self.examples_of(first.recipe),
                self.task,
                members,
                report,
                self.max_side_by_side,
                self.checkpoints,
                share,
                names,
            )
            for key, result in results:
                yield names[key], result
                if key in keepers:
                    keepers[key].clear()

    def _member(self, spec: RunSpec, model: Encoder, keeper: Keeper | None, share: float) -> Member:
        if isinstance(spec.selection, DiffPruning):
            settings = spec.selection.diff_pruning
            examples = self.examples_of(spec.recipe)
            arguments = model, examples, self.task, spec.training, spec.seed, settings
            delta = first_training(*arguments, keeper, share)
            begun = applied(model.parameters, delta)
            start = {name: begun[name] for name in delta}
            return Member(entries_of(delta), spec.training, spec.seed, start)
        ranking = spec.selection.ranking
        ranks = self.rankings[ranking] if ranking else None
        entries = spec.selection.resolve(shapes_of(model), spec.seed, ranks)
        return Member(entries, spec.training, spec.seed)


def _start_of(spec: RunSpec) -> tuple:
    """Return what runs have in common that train on the same rows from the same values.

    Only they share a sweep.
    """
    rows = spec.recipe.fold, spec.recipe.refit
    match spec.selection:
        case DiffPruning():
            return (spec.id,)
        case Adapter() | Peft():
            # The start of added modules is drawn.
            return (*rows, spec.selection, spec.seed)
    return rows


def model_of(spec: RunSpec, pretrained: Encoder) -> Encoder:
    """Return the model in which a run trains, with the modules that its selection adds.

    Raises:
        SubtuneError: the model cannot have them.
    """
    match spec.selection:
        case Adapter(adapter=settings) if pretrained.transformers is None:
            return with_adapters(pretrained, settings, spec.seed)
        case Peft(peft=of_peft):
            # Importing PEFT takes seconds, and other runs do not need it.
            from subtune.models.injected import injected

            return injected(pretrained, of_peft, spec.seed)
    return pretrained
