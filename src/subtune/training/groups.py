"""The runs of one job, and the groups of them that train side by side."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, reason_of
from subtune.core.machine import is_out_of_memory
from subtune.data.batches import CPU_TRAINING_TOKENS, split_fold
from subtune.methods.added import Adapter, Peft
from subtune.methods.roles import is_classifier
from subtune.methods.selection import Entries, LowRank
from subtune.methods.single_entries import DiffPruning
from subtune.models.dimensions import bytes_per_run
from subtune.models.encoder import Encoder, add_adapters, with_new_classifier
from subtune.models.forward import logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack
from subtune.runs.spec import Fit, Fold, Recipe, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import Examples
from subtune.training import embeddings
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.diff_pruning import first_training
from subtune.training.evaluation import Result, checked_for_padding, line_of_epoch
from subtune.training.recipe import Member, train
from subtune.training.values import TrainedValues, is_matrix

# A function that writes a line to the log and, if the line has a name, to the runs' records.
Report = Callable[..., None]
# In a record's provenance, the key of the reason why runs train one by one.
ONE_BY_ONE = "one_by_one"
# The number of tokens in a large batch, relative to an average batch.
LARGE_BATCH = 1.3
# The share of a GPU's free memory that estimates may fill.
SHARE_OF_MEMORY = 0.85
# The allowed difference of gradients, relative to the largest one: a hundred times float32's
# rounding.
TOLERANCE = 1e-4


def group_runs(
    model: Encoder,
    train: Examples,
    members: Mapping[str, Member],
    max_side_by_side: int | None,
    report: Report,
) -> list[list[str]]:
    """Return the ids of the runs in each group, in the runs' order.

    If the model is the reason why runs train one by one, ``report`` gets that reason.
    """
    alike: dict[tuple, list[str]] = {}
    for run, member in members.items():
        alike.setdefault(_shared_settings(model, member, run), []).append(run)
    groups = []
    for runs in alike.values():
        candidates = [members[run] for run in runs]
        size = runs_at_once(model, train, candidates)
        size = min(size, max_side_by_side or size)
        if model.transformers is not None and size > 1:
            reason = reason_to_train_alone(model, train, candidates[:2])
            if reason:
                report(f"these runs train one by one: {reason}", ONE_BY_ONE)
                size = 1
        groups += [runs[start : start + size] for start in range(0, len(runs), size)]
    return groups


def _shared_settings(model: Encoder, member: Member, run: str) -> tuple:
    """Return what all runs of a group have in common: batches, dropout and the work of a step.

    `RunSpec.step_key` tells the same from a spec, before a model and masks are known.
    """
    entries, recipe = member.entries, member.recipe
    matrices = {name: type(e) for name, e in entries.items() if is_matrix(model, name, e)}
    if member.start or (matrices and model.device.type == "cpu"):
        return (run,)
    low_rank = {name: entry for name, entry in entries.items() if isinstance(entry, LowRank)}
    # If only classifiers train, a step needs no backward pass through the encoder.
    is_frozen = all(map(is_classifier, entries))
    # Only with weight decay do the embeddings of words train that no text has.
    decays = bool(matrices) and recipe.weight_decay > 0
    varying = {"learning_rate", "schedule", "warmup", "weight_decay", "max_grad_norm"}
    shared = recipe.model_dump_json(exclude=varying | {"patience", "fold"})
    return (member.seed, shared, *low_rank.items(), is_frozen, *matrices.items(), decays)


def runs_at_once(model: Encoder, train: Examples, members: Sequence[Member]) -> int:
    """Return the number of these runs that one pass may compute.

    On a CPU the number of tokens in a pass is limited, on a GPU the memory. If the estimate is too
    low, `train_sweep` halves the group.
    """
    first = members[0]
    examples = min(first.recipe.batch_size, len(train))
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
        memory, _ = torch.cuda.mem_get_info(model.device)
        # Transformers' code also computes padding tokens.
        lengths = train.lengths if model.transformers is None else train.lengths.max(initial=1)
        tokens = LARGE_BATCH * examples * np.mean(lengths)
        shapes = model.shapes
        trained = sum(
            math.prod(shapes[name])
            for name, entry in first.entries.items()
            if is_matrix(model, name, entry)
        )
        most = SHARE_OF_MEMORY * memory / bytes_per_run(model.config, tokens, trained)
    elif model.transformers is not None:
        # Each run computes its whole pass, and on a CPU starting kernels costs nothing.
        return 1
    else:
        most = CPU_TRAINING_TOKENS / (train.lengths.mean() * examples)
    return min(len(members), max(1, int(most)))


def reason_to_train_alone(model: Encoder, train: Examples, members: Sequence[Member]) -> str | None:
    """Return why `torch.func.vmap` cannot compute these runs side by side, or None if it can.

    One step of all runs is compared with a step of each run.
    """
    try:
        together = _gradients(model, train, members, first=0)
    except (SubtuneError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        return f"this model cannot compute several runs in one pass ({reason_of(cause)})"
    for number, gradient in enumerate(together):
        [alone] = _gradients(model, train, [members[number]], first=number)
        if (gradient - alone).abs().max() > TOLERANCE * alone.abs().max():
            return "this model computes other gradients for several runs in one pass"
    return None


def _gradients(
    model: Encoder, train: Examples, members: Sequence[Member], first: int
) -> list[Tensor]:
    """Return each run's gradients for one batch with dropout.

    Each run's values are shifted by its number, so that runs differ.

    Args:
        first: the number of the first run.
    """
    index = np.arange(min(members[0].recipe.batch_size, len(train)))
    seed = members[0].seed
    initial = with_new_classifier(model, seed)
    trained = TrainedValues(initial, [member.entries for member in members], seed)
    with torch.no_grad():
        for run in range(len(members)):
            for leaf in trained.leaves(run):
                leaf.add_(0.1 * (first + run + 1))
        trained.write()
    masks = DropoutMasks(seed, model.device)
    computed = logits(model, pack(train, index, model), trained.weights(), masks)
    # Factors must be unequal, because the gradients of a softmax's logits may sum to 0.
    factors = torch.linspace(-1, 1, computed[0].numel(), device=model.device)
    (computed * factors.view_as(computed[0])).sum().backward()
    gradients = map(trained.gradients, range(len(members)))
    return [torch.cat([each.flatten() for each in of if each is not None]) for of in gradients]


# In a record's provenance, the key of the reason why batches have no padding.
WITHOUT_PADDING = "without_padding"


def train_sweep(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    members: Mapping[str, Member],
    report: Report,
    max_side_by_side: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, Result]]:
    """Train every member of a sweep, side by side if that is faster.

    Except for rounding, and for dropout on a GPU, a member's result depends neither on the other
    members nor on their order. Runs with a common checkpoint continue from it. If memory is not
    enough for a group, each half continues from its last checkpoint.

    Args:
        members: the runs by their ids.
        report: a function that gets lines about each run's epochs.
        max_side_by_side: the largest number of runs in a group.

    Yields:
        A member's id and result, as soon as it is known.

    Raises:
        StoppedError: the sweep was asked to stop.
        SubtuneError: a single run does not fit into memory.
    """
    model = checked_for_padding(model, examples.values())
    if model.transformers is not None and model.transformers.sees_padding:
        line = "padding changes this model's results: every pass has texts of one length"
        report(line, WITHOUT_PADDING)
    waiting: list[list[str]] = []
    for runs in checkpoints.groups(members) if checkpoints else [members]:
        alike = {run: members[run] for run in runs}
        waiting += group_runs(model, examples["train"], alike, max_side_by_side, report)
    while waiting:
        runs = waiting.pop(0)
        keeper = Keeper(checkpoints, runs, report) if checkpoints else None
        try:
            results = train(model, examples, task, [members[n] for n in runs], report, keeper)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            waiting = [*_halves(runs, members, error, report), *waiting]
            continue
        yield from zip(runs, results, strict=True)
        if keeper:
            keeper.clear()


def _halves(
    runs: list[str], members: Mapping[str, Member], error: Exception, report: Report
) -> tuple[list[str], list[str]]:
    """Return the halves of a group that does not fit into memory.

    Raises:
        SubtuneError: the group is a single run.
    """
    if len(runs) == 1:
        batch_size = members[runs[0]].recipe.batch_size
        raise SubtuneError(
            f"run {runs[0]} alone does not fit into memory with batch_size {batch_size}; "
            "try a smaller batch_size or max_length, or a device with more memory "
            f"({reason_of(error)})"
        ) from None
    half = len(runs) // 2
    sizes = f"{half} and {len(runs) - half}"
    report(f"{len(runs)} runs side by side do not fit into memory: now {sizes}")
    return runs[:half], runs[half:]


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
