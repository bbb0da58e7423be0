"""Groups of runs that train side by side."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, reason_of
from subtune.methods.roles import is_classifier
from subtune.methods.selection import LowRank
from subtune.models.dimensions import bytes_per_run
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.operations import DropoutMasks
from subtune.models.packing import pack
from subtune.tasks.examples import Examples
from subtune.training.limits import CPU_TOKENS
from subtune.training.matrices import is_matrix
from subtune.training.recipe import Member
from subtune.training.values import TrainedValues

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
        most = CPU_TOKENS / (train.lengths.mean() * examples)
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
