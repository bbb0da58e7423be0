"""The runs of one job: same model, task and data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from subtune.data.batches import split_fold
from subtune.methods.added import Adapter, Peft
from subtune.methods.selection import Entries
from subtune.methods.single_entries import DiffPruning
from subtune.models.encoder import Encoder, add_adapters
from subtune.runs.spec import Fit, Fold, Recipe, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.diff_pruning import first_training
from subtune.training.groups import Report
from subtune.training.recipe import Member
from subtune.training.results import Result, line_of_epoch
from subtune.training.sweeps import train_sweep


@dataclass(frozen=True)
class Job:
    """The inputs that all runs of a job share.

    Attributes:
        model: the pretrained model.
        examples: the splits of the task.
        rankings: by ranking id, the rank of every entry, for masks.
        max_side_by_side: an argument of `train_sweep`, like ``checkpoints``.
    """

    model: Encoder
    examples: Mapping[str, Examples]
    task: TaskSpec
    rankings: Mapping[str, Mapping[str, np.ndarray]]
    max_side_by_side: int | None
    checkpoints: Checkpoints | None
    _fold_examples: dict[Fold, Mapping[str, Examples]] = field(default_factory=dict)

    def examples_of(self, recipe: Recipe | Fit) -> Mapping[str, Examples]:
        """Return a recipe's examples; its fold, if any, replaces the first evaluation split."""
        fold = recipe.fold
        if recipe.refit:
            return {"train": self.examples["train"]}
        if fold is None:
            return self.examples
        if fold not in self._fold_examples:
            others, judging = split_fold(self.examples["train"], self.task, fold)
            parts = {"train": others, self.task.evaluation[0]: judging}
            self._fold_examples[fold] = {**self.examples, **parts}
        return self._fold_examples[fold]

    def train(self, runs: Mapping[str, RunSpec], report: Report) -> Iterator[tuple[str, Result]]:
        """Train runs, by their names in the log.

        Yields:
            The name and the result of each run, as soon as it is done.
        """
        sweeps: dict[tuple, dict[str, tuple[str, RunSpec]]] = {}
        for name, spec in runs.items():
            if isinstance(spec.recipe, Fit):
                examples = self.examples_of(spec.recipe)
                result = embeddings.fit(self.model, examples, self.task, spec.recipe, spec.seed)
                report(f"{name}  {line_of_epoch(result.history[0], 1, self.task)}")
                yield name, result
            else:
                sweeps.setdefault(_shared_start(spec), {})[spec.id] = name, spec
        for sweep in sweeps.values():
            _, first = next(iter(sweep.values()))
            model = model_of(first, self.model)
            members = {}
            for run, (name, spec) in sweep.items():
                entries, start = self._entries(spec, model, report)
                members[run] = Member(entries, spec.training, spec.seed, start, name)
            shared = model, self.examples_of(first.recipe), self.task
            limits = self.max_side_by_side, self.checkpoints
            for run, result in train_sweep(*shared, members, report, *limits):
                yield members[run].name, result

    def _entries(
        self, spec: RunSpec, model: Encoder, report: Report
    ) -> tuple[Entries, Mapping[str, Tensor]]:
        """Return a run's entries, and their initial values if these are not the model's."""
        if isinstance(spec.selection, DiffPruning):
            settings = spec.selection.diff_pruning
            examples = self.examples_of(spec.recipe)["train"]
            keeper = None
            if self.checkpoints:
                # This folder is inside the run's folder, which is removed when the run is done.
                keeper = Keeper(self.checkpoints, [f"{spec.id}/first"], report)
            arguments = model, examples, self.task, spec.training, spec.seed, settings
            return first_training(*arguments, keeper)
        ranking = spec.selection.ranking
        ranks = self.rankings[ranking] if ranking else None
        return spec.selection.resolve(model.shapes, spec.seed, ranks), {}


def model_of(spec: RunSpec, pretrained: Encoder) -> Encoder:
    """Return the model of a run, with the modules that its selection adds.

    Raises:
        SubtuneError: the model cannot have these modules.
    """
    match spec.selection:
        case Adapter(adapter=settings) if pretrained.transformers is None:
            return add_adapters(pretrained, settings, spec.seed)
        case Peft(peft=settings):
            # Importing PEFT takes seconds and is only needed here.
            from subtune.models.peft import inject_peft

            return inject_peft(pretrained, settings, spec.seed)
    return pretrained


def _shared_start(spec: RunSpec) -> tuple:
    """Return what the runs of a sweep have in common: the training rows and initial values."""
    rows = spec.recipe.fold, spec.recipe.refit
    match spec.selection:
        case DiffPruning():
            return (spec.id,)
        case Adapter() | Peft():
            # The initial values of added modules depend on the seed.
            return (*rows, spec.selection, spec.seed)
    return rows
