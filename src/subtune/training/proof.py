"""Whether transformers' own models compute side by side what they compute by themselves.

That is asked of runs in one pass, and of examples in one batch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subtune.core.hardware import is_out_of_memory
from subtune.data.batches import by_length
from subtune.models.dropout import DropoutMasks
from subtune.models.encoder import Encoder, new_classifier
from subtune.models.packed import pack
from subtune.models.passes import logits
from subtune.tasks.examples import Examples
from subtune.training.recipe import Member
from subtune.training.stacked import StackedParameters

# Of the largest value: a hundred times what float32 rounds away.
TOLERANCE = 1e-4
# How many are computed with padding and without.
EXAMPLES = 8


def difference_side_by_side(
    model: Encoder, train: Examples, members: Sequence[Member]
) -> str | None:
    """What differs in a batch of runs, with dropout, when they are computed one by one; or nothing.

    Args:
        model: a skeleton.
        train: the training split, of whose first examples the batch is.
        members: the runs, of one kind.
    """
    from subtune.models.folded import NotFoldableError

    size = min(members[0].recipe.batch_size, len(train))
    index = np.arange(size)
    try:
        folded = _logits_and_gradients(model, train, index, members)
    except NotFoldableError as error:
        return f"this model cannot fold them into one batch ({error})"
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return "two of them do not fit into memory"
    alone = [
        _logits_and_gradients(model, train, index, [member], number)
        for number, member in enumerate(members)
    ]
    for what, together, parts in zip(
        ("logits", "gradients"), folded, zip(*alone, strict=True), strict=True
    ):
        of_runs = [run for part in parts for run in part]
        for run, reference in zip(together, of_runs, strict=True):
            if (run - reference).abs().max() > TOLERANCE * reference.abs().max():
                return f"their {what} side by side are not those of each by itself"
    return None


def without_padding_where_it_is_seen(model: Encoder, splits: Iterable[Examples]) -> Encoder:
    """The same model; one whose skeleton says so, where padding changes what it computes.

    Examples of all lengths, each by itself, are compared with the same in one batch, padded to the
    longest of all.
    """
    every = [split for split in splits if len(split)]
    if model.skeleton is None or not every:
        return model
    longest = max(int(split.lengths.max()) for split in every)
    in_order = by_length(np.arange(len(every[0])), every[0].lengths)
    index = np.unique(in_order[np.linspace(0, len(in_order) - 1, EXAMPLES).astype(int)])
    with_classifier = replace(model, parameters=model.parameters | new_classifier(model, seed=0))
    with torch.inference_mode():
        together = replace(pack(every[0], index, model), longest=longest)
        padded = logits(with_classifier, together)
        alone = torch.cat(
            [
                logits(with_classifier, pack(every[0], index[n : n + 1], model))
                for n in range(len(index))
            ],
            dim=1,
        )
    # Of texts none of whose tokens is read there is nothing to compare.
    if not alone.numel() or (padded - alone).abs().max() <= TOLERANCE * alone.abs().max():
        return model
    return replace(model, skeleton=replace(model.skeleton, sees_padding=True))


def _logits_and_gradients(
    model: Encoder, train: Examples, index: np.ndarray, members: Sequence[Member], first: int = 0
) -> tuple[list[Tensor], list[Tensor]]:
    """Of every run, and of a sum of its logits with fixed weights.

    ``first``: the number of the first of ``members``.
    """
    seed = members[0].seed
    stacked = StackedParameters(model, [member.entries for member in members], seed)
    with torch.no_grad():
        # Runs that are still alike would hide what mixes them up.
        for number, values in enumerate(stacked.values, first):
            values.add_(0.1 * (number + 1))
    masks = DropoutMasks(seed, model.device)
    computed = logits(model, pack(train, index, model), stacked.weights(), masks)
    weights = torch.linspace(-1, 1, computed[0].numel(), device=model.device)
    (computed * weights.view_as(computed[0])).sum().backward()
    return list(computed.detach()), [
        torch.zeros_like(values) if values.grad is None else values.grad
        for values in stacked.values
    ]
