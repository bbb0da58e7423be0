"""The runs of one job, and the groups of them that train side by side."""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, error_reason
from subtune.core.process import is_out_of_memory
from subtune.methods.added import Adapter, Peft
from subtune.methods.selection import Entries, WholeTensors
from subtune.methods.single_entries import DiffPruning
from subtune.models.encoder import Encoder, add_adapters, with_new_classifier
from subtune.models.forward import logits
from subtune.models.model_config import bytes_per_run
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack
from subtune.runs.spec import Fit, Fold, RunSpec
from subtune.tasks import TaskSpec
from subtune.tasks.examples import CPU_TRAINING_TOKENS, Examples, split_fold
from subtune.training import embeddings, tf_idf
from subtune.training.checkpoints import Checkpoints, Keeper
from subtune.training.diff_pruning import first_training
from subtune.training.evaluation import Result, check_padding, epoch_line
from subtune.training.recipe import Run, train
from subtune.training.values import TrainedValues, is_matrix

# A function that writes a line to the log and, if the line has a name, to the runs' records.
Report = Callable[..., None]
# In a record's provenance, the key of the reason why runs train one by one.
ONE_BY_ONE = "one_by_one"
# In a record's provenance, the key of the reason why batches have no padding.
WITHOUT_PADDING = "without_padding"
# The number of tokens in a large batch, relative to an average batch.
LARGE_BATCH = 1.3
# The share of a GPU's free memory that estimates may fill.
SHARE_OF_MEMORY = 0.85
# The allowed difference of gradients, relative to the largest one: a hundred times float32's
# rounding.
TOLERANCE = 1e-4


def split_into_groups(
    model: Encoder, train: Examples, runs: Mapping[str, Run], report: Report
) -> list[list[str]]:
    """Return the ids of the runs in each pass, in the runs' order.

    If the model is the reason why runs train one by one, ``report`` gets that reason.
    """
    ids, size = [*runs], runs_at_once(model, train, [*runs.values()])
    if model.transformers is not None and size > 1:
        reason = reason_to_train_alone(model, train, [*runs.values()][:2])
        if reason:
            report(f"these runs train one by one: {reason}", ONE_BY_ONE)
            size = 1
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def runs_at_once(model: Encoder, train: Examples, runs: Sequence[Run]) -> int:
    """Return the number of these runs that one pass may compute.

    On a CPU the number of tokens in a pass is limited, on a GPU the memory. If the estimate is too
    low, `train_side_by_side` halves the group.
    """
    first = runs[0]
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
    return min(len(runs), max(1, int(most)))


def reason_to_train_alone(model: Encoder, train: Examples, runs: Sequence[Run]) -> str | None:
    """Return why `torch.func.vmap` cannot compute these runs side by side, or None if it can.

    One step of all runs is compared with a step of each run.
    """
    try:
        together = _gradients(model, train, runs, first=0)
    except (SubtuneError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        return f"this model cannot compute several runs in one pass ({error_reason(cause)})"
    for number, gradient in enumerate(together):
        [alone] = _gradients(model, train, [runs[number]], first=number)
        if (gradient - alone).abs().max() > TOLERANCE * alone.abs().max():
            return "this model computes other gradients for several runs in one pass"
    return None


def _gradients(model: Encoder, train: Examples, runs: Sequence[Run], first: int) -> list[Tensor]:
    """Return each run's gradients for one batch with dropout.

    Each run's values are shifted by its number, so that runs differ.

    Args:
        first: the number of the first run.
    """
    index = np.arange(min(runs[0].recipe.batch_size, len(train)))
    seed = runs[0].seed
    initial = with_new_classifier(model, seed)
    trained = TrainedValues(initial, [run.entries for run in runs], seed)
    with torch.no_grad():
        for position in range(len(runs)):
            for leaf in trained.leaves(position):
                leaf.add_(0.1 * (first + position + 1))
        trained.write()
    masks = DropoutMasks(seed, model.device)
    computed = logits(model, pack(train, index, model), trained.weights(), masks)
    # Factors must be unequal, because the gradients of a softmax's logits may sum to 0.
    factors = torch.linspace(-1, 1, computed[0].numel(), device=model.device)
    (computed * factors.view_as(computed[0])).sum().backward()
    gradients = map(trained.gradients, range(len(runs)))
    return [torch.cat([each.flatten() for each in of if each is not None]) for of in gradients]


def train_side_by_side(
    model: Encoder,
    examples: Mapping[str, Examples],
    task: TaskSpec,
    runs: Mapping[str, Run],
    report: Report,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, Result]]:
    """Train runs that share steps, as many side by side as fit into memory.

    Except for rounding, and for dropout on a GPU, a run's result depends neither on the other runs
    nor on their order. Runs with a common checkpoint continue from it. If memory is not enough for
    a group, each half continues from its last checkpoint.

    Args:
        runs: the runs by their ids.
        report: a function that gets lines about each run's epochs.

    Yields:
        A run's id and result, as soon as it is known.

    Raises:
        StoppedError: the job was asked to stop.
        SubtuneError: a single run does not fit into memory.
    """
    model = check_padding(model, examples.values())
    if model.transformers is not None and model.transformers.sees_padding:
        line = "padding changes this model's results: every pass has texts of one length"
        report(line, WITHOUT_PADDING)
    waiting: list[list[str]] = []
    for ids in checkpoints.groups(runs) if checkpoints else [runs]:
        alike = {run_id: runs[run_id] for run_id in ids}
        waiting += split_into_groups(model, examples["train"], alike, report)
    while waiting:
        ids = waiting.pop(0)
        keeper = Keeper(checkpoints, ids, report) if checkpoints else None
        try:
            results = train(model, examples, task, [runs[one] for one in ids], report, keeper)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            waiting = [*_halves(ids, runs, error, report), *waiting]
            continue
        yield from zip(ids, results, strict=True)
        if keeper:
            keeper.clear()


def _halves(
    ids: list[str], runs: Mapping[str, Run], error: Exception, report: Report
) -> tuple[list[str], list[str]]:
    """Return the halves of a group that does not fit into memory.

    Raises:
        SubtuneError: the group is a single run.
    """
    if len(ids) == 1:
        batch_size = runs[ids[0]].recipe.batch_size
        raise SubtuneError(
            f"run {ids[0]} alone does not fit into memory with batch_size {batch_size}; "
            "try a smaller batch_size or max_length, or a device with more memory "
            f"({error_reason(error)})"
        ) from None
    half = len(ids) // 2
    sizes = f"{half} and {len(ids) - half}"
    report(f"{len(ids)} runs side by side do not fit into memory: now {sizes}")
    return ids[:half], ids[half:]


def train_runs(
    model: Encoder,
    examples: Mapping[str, Examples],
    specs: Mapping[str, RunSpec],
    rankings: Mapping[str, Mapping[str, np.ndarray]],
    report: Report,
    checkpoints: Checkpoints | None = None,
) -> Iterator[tuple[str, Result, Mapping[str, Examples]]]:
    """Train runs that share a pretrained model and the splits of a task.

    Args:
        specs: the runs, by their names in the log.
        rankings: by ranking id, the rank of every entry, for masks.
        report, checkpoints: arguments of `train_side_by_side`.

    Yields:
        The name, the result and the examples of each run, as soon as it is done.
    """
    ranked = {id: WholeTensors(parameters=tuple(ranks)) for id, ranks in rankings.items()}
    # Each fold is read once: that takes as long as a short training.
    divide = cache(partial(split_fold, examples["train"]))
    alike: dict[Hashable, dict[str, tuple[str, RunSpec]]] = {}
    for name, spec in specs.items():
        if isinstance(spec.recipe, Fit):
            task, own = spec.tokens.data.task, _own_examples(spec, examples, divide)
            if spec.reads_texts:
                result = tf_idf.fit(own, task, spec.recipe, spec.seed)
            else:
                result = embeddings.fit(model, own, task, spec.recipe, spec.seed)
            report(f"{name}  {epoch_line(result.history[0], 1, task)}")
            yield name, result, own
        else:
            key = spec.step_key(ranked, model.device.type == "cuda")
            alike.setdefault(key, {})[spec.id] = name, spec
    for named in alike.values():
        _, first = next(iter(named.values()))
        initial, own = add_modules(first, model), _own_examples(first, examples, divide)
        runs = {}
        for id, (name, spec) in named.items():
            entries, start = _entries(spec, initial, own["train"], rankings, checkpoints, report)
            runs[id] = Run(entries, spec.training_recipe, spec.seed, start, name)
        task = first.tokens.data.task
        for id, result in train_side_by_side(initial, own, task, runs, report, checkpoints):
            yield runs[id].name, result, own


def _own_examples(
    spec: RunSpec,
    examples: Mapping[str, Examples],
    divide: Callable[[TaskSpec, Fold], tuple[Examples, Examples]],
) -> Mapping[str, Examples]:
    """Return a run's examples; its fold, if any, replaces the first evaluation split.

    ``divide`` returns the training rows outside a fold, and those of the fold.
    """
    fold, task = spec.recipe.fold, spec.tokens.data.task
    if spec.recipe.refit:
        return {"train": examples["train"]}
    if fold is None:
        return examples
    others, judging = divide(task, fold)
    return {**examples, "train": others, task.evaluation[0]: judging}


def _entries(
    spec: RunSpec,
    model: Encoder,
    train: Examples,
    rankings: Mapping[str, Mapping[str, np.ndarray]],
    checkpoints: Checkpoints | None,
    report: Report,
) -> tuple[Entries, Mapping[str, Tensor]]:
    """Return a run's entries, and their initial values if these are not the model's."""
    if isinstance(spec.selection, DiffPruning):
        # This folder is inside the run's folder, which is removed when the run is done.
        keeper = Keeper(checkpoints, [f"{spec.id}/first"], report) if checkpoints else None
        task, settings = spec.tokens.data.task, spec.selection.diff_pruning
        return first_training(model, train, task, spec.training_recipe, spec.seed, settings, keeper)
    ranks = rankings[spec.selection.ranking] if spec.selection.ranking else None
    return spec.selection.resolve(model.shapes, spec.seed, ranks), {}


def add_modules(spec: RunSpec, pretrained: Encoder) -> Encoder:
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
