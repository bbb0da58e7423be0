"""Groups of a sweep's runs that train side by side."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from subtune.core.errors import SubtuneError, reason_of
from subtune.data.batches import CPU_TOKENS
from subtune.families.base import is_classifier
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder, with_new_classifier
from subtune.models.forward import logits
from subtune.models.packed import pack
from subtune.selections.kind import LowRank
from subtune.tasks.examples import Examples
from subtune.training.recipe import Member
from subtune.training.stacked import StackedParameters, is_matrix

# Relative to the largest gradient: a hundred times the rounding of float32.
TOLERANCE = 1e-4


def group_runs(
    model: Encoder,
    train: Examples,
    members: Sequence[Member],
    max_side_by_side: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[list[int]]:
    """Return the numbers of the runs in each group, in the runs' order.

    Args:
        model: on its device.
        train: the training split.
        members: the runs of a sweep.
        max_side_by_side: the largest size of a group.
        report: is told why runs train one by one, where the model is the reason.
    """
    alike: dict[tuple, list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(_shared_settings(model, member, number), []).append(number)
    groups = []
    for numbers in alike.values():
        of_group = [members[number] for number in numbers]
        size = runs_at_once(model, train, of_group)
        size = min(size, max_side_by_side or size)
        if model.transformers is not None and size > 1:
            reason = reason_to_train_alone(model, train, of_group[:2])
            if reason:
                report(f"these runs train one by one: {reason}")
                size = 1
        groups += [numbers[start : start + size] for start in range(0, len(numbers), size)]
    return groups


def runs_at_once(model: Encoder, train: Examples, members: Sequence[Member]) -> int:
    """Return how many of these runs a pass may hold.

    On a CPU the tokens of a pass are bounded. On a GPU all runs start side by side, and halve where
    memory is not enough (`subtune.training.sweeps.train_sweep`).
    """
    if model.device.type != "cpu":
        return len(members)
    if model.transformers is not None:
        # Every run computes its whole pass, and on a CPU no kernel waits to be started.
        return 1
    tokens = train.lengths.mean() * min(members[0].recipe.batch_size, len(train))
    return min(len(members), max(1, int(CPU_TOKENS / tokens)))


def reason_to_train_alone(model: Encoder, train: Examples, members: Sequence[Member]) -> str | None:
    """Return why `torch.func.vmap` cannot compute these runs side by side, or None if it can.

    One step of all of them is compared with a step of each.
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
    """Return the gradients of all values of each run, for one batch with dropout.

    The number of the ``first`` member decides how far its values are moved, so that runs differ.
    """
    index = np.arange(min(members[0].recipe.batch_size, len(train)))
    seed = members[0].seed
    begun = with_new_classifier(model, seed)
    stacked = StackedParameters(begun, [member.entries for member in members], seed)
    for number, values in enumerate(stacked.values, first):
        values.data.add_(0.1 * (number + 1))
    masks = DropoutMasks(seed, model.device)
    computed = logits(model, pack(train, index, model), stacked.weights(), masks)
    # Unequal factors: the logits of a softmax may have gradients that add up to 0.
    factors = torch.linspace(-1, 1, computed[0].numel(), device=model.device)
    (computed * factors.view_as(computed[0])).sum().backward()
    return [
        values.new_zeros(()) if values.grad is None else values.grad for values in stacked.values
    ]


def _shared_settings(model: Encoder, member: Member, number: int) -> tuple:
    """Return what runs of a group have in common: batches, dropout and the work of a step."""
    matrices = any(is_matrix(model, name, entry) for name, entry in member.entries.items())
    if matrices or member.start:
        return (number,)
    of = member.recipe
    ranks = [(n, e) for n, e in member.entries.items() if isinstance(e, LowRank)]
    reaches_encoder = not all(map(is_classifier, member.entries))
    settings = (of.batch_size, of.epochs, of.refit, of.train_rows, of.precision)
    return (member.seed, *settings, of.labels, of.class_weights, *ranks, reaches_encoder)
