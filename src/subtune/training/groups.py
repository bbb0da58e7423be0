"""Training of a job's runs, in groups of runs that train side by side."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, error_reason
from subtune.core.process import is_out_of_memory
from subtune.data.subsets import split_off_fold
from subtune.methods.added import Adapters, Peft
from subtune.methods.baselines import Estimator
from subtune.methods.selection import Mask, WholeTensors
from subtune.methods.single_entries import DiffPruning
from subtune.models.dimensions import bytes_per_run
from subtune.models.encoder import Encoder, add_adapters, with_new_classifier
from subtune.models.forward import compute_logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack_batch
from subtune.runs.spec import Fold, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import CPU_TRAINING_TOKENS, Examples
from subtune.training import embeddings, estimators, tf_idf
from subtune.training.checkpoints import Checkpoints, CheckpointStore
from subtune.training.diff_pruning import GateTraining
from subtune.training.evaluation import (
    Run,
    TrainingResult,
    autocast,
    check_padding,
    epoch_line,
)
from subtune.training.recipe import train
from subtune.training.values import TrainedValues, is_matrix

# A function that writes a line to the log. If a key is given as well, the line is also stored under
# this key in the provenance of the runs' records.
Report = Callable[..., None]
# The key in a record's provenance for the reason why the runs were trained one by one.
ONE_BY_ONE = "one_by_one"
# The key in a record's provenance for the reason why batches have no padding.
WITHOUT_PADDING = "without_padding"
# The number of tokens in a large batch, divided by the number in an average batch.
LARGE_BATCH = 1.3
# The estimated memory use of a group is at most this fraction of the free GPU memory.
SHARE_OF_MEMORY = 0.85
# Gradients of runs trained side by side and of runs trained alone may differ by this fraction of
# the largest gradient. The tolerance is about a hundred times the rounding error of float32.
GRADIENT_TOLERANCE = 1e-4


def split_into_groups(
    model: Encoder, train: Examples, runs: Sequence[Run], report: Report
) -> list[Sequence[Run]]:
    """Split runs into groups of runs that train side by side.

    If the model's code does not support several runs in one pass, each run is a group of its own,
    and the reason is reported.
    """
    size = runs_at_once(model, train, runs)
    if model.transformers is not None and size > 1:
        reason = reason_to_train_alone(model, train, runs[:2])
        if reason:
            report(f"these runs train one by one: {reason}", ONE_BY_ONE)
            size = 1
    return [runs[start : start + size] for start in range(0, len(runs), size)]


def runs_at_once(model: Encoder, train: Examples, runs: Sequence[Run]) -> int:
    """Estimate how many of these runs can train side by side.

    On a CPU, a pass is limited to ``CPU_TRAINING_TOKENS`` tokens. On a GPU, it is limited by the
    free memory; `train_side_by_side` corrects too high an estimate.
    """
    first = runs[0]
    examples = min(first.recipe.batch_size, len(train))
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
        memory, _ = torch.cuda.mem_get_info(model.device)
        # Transformers' code also processes padding tokens.
        lengths = train.lengths if model.transformers is None else train.lengths.max(initial=1)
        tokens = LARGE_BATCH * examples * np.mean(lengths)
        matrices = [name for name, entry in first.entries.items() if is_matrix(model, name, entry)]
        trained = sum(model.parameters[name].numel() for name in matrices)
        limit = SHARE_OF_MEMORY * memory / bytes_per_run(model.config, tokens, trained)
    elif model.transformers is not None:
        # Training several runs in one pass would only save kernel launches, which cost nothing on a
        # CPU.
        return 1
    else:
        limit = CPU_TRAINING_TOKENS / (train.lengths.mean() * examples)
    return min(len(runs), max(1, int(limit)))


def reason_to_train_alone(model: Encoder, train: Examples, runs: Sequence[Run]) -> str | None:
    """Return why `torch.func.vmap` cannot compute these runs side by side; None if it can.

    The gradients of a step with all runs are compared with the gradients of each run alone.
    """
    try:
        together = _compute_gradients(model, train, runs, first=0)
    except (SubtuneError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        return f"this model cannot compute several runs in one pass ({error_reason(cause)})"
    for number, gradient in enumerate(together):
        [alone] = _compute_gradients(model, train, [runs[number]], first=number)
        if (gradient - alone).abs().max() > GRADIENT_TOLERANCE * alone.abs().max():
            return "the gradients of this model change if several runs share a pass"
    return None


def _compute_gradients(
    model: Encoder, train: Examples, runs: Sequence[Run], first: int
) -> list[Tensor]:
    """Compute a vector of all gradients of each run, for one batch with dropout.

    A different constant, which depends on ``first``, is added to the trained values of each run.
    Otherwise, all runs would have equal gradients, because they start from the same values.
    """
    index = np.arange(min(runs[0].recipe.batch_size, len(train)))
    seed = runs[0].seed
    initial = with_new_classifier(model, seed)
    trained = TrainedValues(initial, [run.entries for run in runs], seed)
    with torch.no_grad():
        for position in range(len(runs)):
            for leaf in trained.leaves(position):
                leaf.add_(0.1 * (first + position + 1))
        trained.copy_leaves()
    masks = DropoutMasks(seed, model.device)
    # An earlier run may have chosen a precision whose rounding errors exceed the tolerance.
    with autocast(model.device, "fp32"):
        computed = compute_logits(model, pack_batch(train, index, model), trained.weights(), masks)
    # Each logit gets a different factor, because the gradients of a softmax's logits may sum to 0.
    factors = torch.linspace(-1, 1, computed[0].numel(), device=model.device)
    (computed * factors.view_as(computed[0])).sum().backward()
    gradients = map(trained.gradients, range(len(runs)))
    return [torch.cat([g.flatten() for g in of_run if g is not None]) for of_run in gradients]


def train_side_by_side(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    runs: Sequence[Run],
    report: Report,
    checkpoints: Checkpoints | None = None,
) -> Iterator[Run]:
    """Train runs that can share training steps, as many side by side as fit into memory.

    The result of a run depends neither on the other runs nor on their order, except for rounding
    and, on a GPU, for the dropout of attention weights. Runs whose newest checkpoints are from the
    same step continue together. If a group does not fit into memory, it is split in half, and each
    half continues from its last checkpoint. A run is yielded when all runs of its group have ended.

    Raises:
        StoppedError: the job was asked to stop.
        SubtuneError: a single run does not fit into memory.
    """
    model = check_padding(model, examples.values())
    if model.sees_padding:
        why = "padding changes this model's results"
        report(f"{why}, so each forward pass gets texts of equal length", WITHOUT_PADDING)
    by_step: dict[str | None, list[Run]] = {}
    for run in runs:
        newest = checkpoints.newest_name(run.id) if checkpoints else None
        by_step.setdefault(newest, []).append(run)
    waiting: list[Sequence[Run]] = []
    for same_step in by_step.values():
        waiting += split_into_groups(model, examples["train"], same_step, report)
    while waiting:
        group = waiting.pop(0)
        keeper = None
        if checkpoints:
            keeper = CheckpointStore(checkpoints, [run.id for run in group], report)
        try:
            trained = train(model, examples, task, group, report, keeper)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            waiting = [*_split_in_half(group, error, report), *waiting]
            continue
        yield from trained
        if keeper:
            keeper.remove()


def _split_in_half(
    group: Sequence[Run], error: Exception, report: Report
) -> tuple[Sequence[Run], Sequence[Run]]:
    """Split a group that does not fit into memory, or raise a `SubtuneError` for a single run."""
    if len(group) == 1:
        raise SubtuneError(
            f"run {group[0].id}: this run alone does not fit into memory with batch_size "
            f"{group[0].recipe.batch_size}; use a smaller batch_size or max_length, or a device "
            f"with more memory ({error_reason(error)})"
        ) from None
    half = len(group) // 2
    sizes = f"so they are split into groups of {half} and {len(group) - half}"
    report(f"{len(group)} runs side by side do not fit into memory, {sizes}")
    return group[:half], group[half:]


def train_runs(
    model: Encoder,
    examples: Mapping[str, Examples],
    specs: Mapping[str, RunSpec],
    masks: Mapping[str, Mask],
    report: Report,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, TrainingResult, Mapping[str, Examples]]]:
    """Train runs that share a pretrained model and a task, and yield each result once it is known.

    ``specs`` maps the names of runs in the log to specs, and ``masks`` the names of masks to masks.
    """
    masked = {name: WholeTensors(parameters=tuple(mask)) for name, mask in masks.items()}
    # Folds are cached, because splitting off a fold takes as long as a short training.
    split_off = cache(partial(split_off_fold, examples["train"]))
    by_step: dict[Hashable, dict[str, RunSpec]] = {}
    for name, spec in specs.items():
        key = spec.sharing_key(masked, model.device.type == "cuda")
        by_step.setdefault(key, {})[name] = spec
    for named in by_step.values():
        name, first = next(iter(named.items()))
        task, splits = first.tokens.data.task, _select_examples(first, examples, split_off)
        if first.is_baseline:
            settings = splits, task, first.fit_recipe, first.seed
            if isinstance(first.selection, Estimator):
                result = estimators.fit_and_evaluate(model, splits, first)
            elif first.reads_texts:
                result = tf_idf.fit_tf_idf(*settings)
            else:
                result = embeddings.fit_embedding_regression(model, *settings)
            report(f"{name}  {epoch_line(result.history[0], 1, task)}")
            yield name, result, splits
            continue
        initial = add_adapter_modules(first, model)
        runs = [
            _build_run(name, spec, initial, splits, masks, checkpoints, report)
            for name, spec in named.items()
        ]
        for run in train_side_by_side(initial, splits, task, runs, report, checkpoints):
            yield run.name, run, splits


def _select_examples(
    spec: RunSpec,
    examples: Mapping[str, Examples],
    split_off: Callable[[TaskSpec, Fold], tuple[Examples, Examples]],
) -> Mapping[str, Examples]:
    """Select the examples of a run, by split. ``split_off`` splits the training set at a fold.

    The run's fold, if any, replaces the first evaluation split. A refit uses no other split.
    """
    fold, task = spec.recipe.fold, spec.tokens.data.task
    if spec.recipe.refit:
        return {"train": examples["train"]}
    if fold is None:
        return examples
    others, held_out = split_off(task, fold)
    return {**examples, "train": others, task.evaluation[0]: held_out}


def _build_run(
    name: str,
    spec: RunSpec,
    model: Encoder,
    examples: Mapping[str, Examples],
    masks: Mapping[str, Mask],
    checkpoints: Checkpoints | None,
    report: Report,
) -> Run:
    """Build a run with its trained entries. For Diff pruning, take the first training's steps."""
    recipe, seed = spec.training_recipe, spec.seed
    if not isinstance(spec.selection, DiffPruning):
        mask = masks[spec.selection.mask_name] if spec.selection.mask_name else None
        entries = spec.selection.resolve(model.shapes, seed, mask)
        return Run(entries, recipe, seed, name=name, id=spec.id)
    # The first training has its own subfolder in the run's folder of checkpoints, so that its
    # checkpoints are removed together with those of the run.
    keeper = CheckpointStore(checkpoints, [f"{spec.id}/first"], report) if checkpoints else None
    task, settings = spec.tokens.data.task, spec.selection.diff_pruning
    model = check_padding(model, examples.values())
    training = GateTraining(model, examples["train"], task, recipe, seed, settings)
    entries, start, seconds = training.run(keeper)
    return Run(entries, recipe, seed, start, seconds, name, spec.id)


def add_adapter_modules(spec: RunSpec, pretrained: Encoder) -> Encoder:
    """Add the adapters or PEFT modules of a run's selection, if any, to the pretrained model."""
    match spec.selection:
        case Adapters(adapter=settings) if pretrained.transformers is None:
            return add_adapters(pretrained, settings, spec.seed)
        case Peft(peft=settings):
            # This import is local, because importing PEFT takes seconds and is rarely needed.
            from subtune.models.peft import inject_peft

            return inject_peft(pretrained, settings, spec.seed)
    return pretrained
