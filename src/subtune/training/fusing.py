"""Which runs of a sweep train side by side."""

from collections.abc import Callable, Sequence

import torch

from subtune.core.batch_sizes import CPU_TOKENS
from subtune.families.base import is_classifier
from subtune.models.encoder import Encoder
from subtune.selections.entries import Entries, LowRank
from subtune.tasks.examples import Examples
from subtune.training.activations import step_bytes
from subtune.training.proof import difference_side_by_side
from subtune.training.recipe import Member
from subtune.training.stacked import is_matrix

# Of a GPU's free memory; the rest is for its gaps and for the estimate's error.
GPU_SHARE = 0.7


def group_runs(
    model: Encoder,
    train: Examples,
    members: Sequence[Member],
    max_side_by_side: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[list[int]]:
    """Numbers of the runs that train side by side, in the runs' order.

    Args:
        model: on its device.
        train: the training split.
        members: the runs of a sweep.
        max_side_by_side: where memory and time allow more.
        report: is told of runs that could train side by side but for their model.
    """
    alike: dict[tuple, list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(_kind(model, member, number), []).append(number)
    groups = []
    for numbers in alike.values():
        size = runs_at_once(model, train, [members[number] for number in numbers])
        size = min(size, max_side_by_side or size, len(numbers))
        if model.skeleton is not None and size > 1:
            pair = [members[number] for number in numbers[:2]]
            difference = difference_side_by_side(model, train, pair)
            if difference:
                report(f"these runs train one by one: {difference}")
                size = 1
        groups += [numbers[start : start + size] for start in range(0, len(numbers), size)]
    return groups


def _kind(model: Encoder, member: Member, number: int) -> tuple:
    """Runs of one kind share batches, dropout and the work of a step."""
    if any(is_matrix(model, name, entry) for name, entry in member.entries.items()):
        return (number,)
    recipe = member.recipe
    ranks = {n: e for n, e in member.entries.items() if isinstance(e, LowRank)}
    reaches_encoder = not all(map(is_classifier, member.entries))
    return (
        *(member.seed, recipe.batch_size, recipe.epochs, recipe.train_rows, recipe.precision),
        *(tuple(ranks.items()), reaches_encoder),
    )


def runs_at_once(model: Encoder, train: Examples, members: Sequence[Member]) -> int:
    """How many runs of one kind a pass may hold: by tokens on a CPU, by free memory on a GPU."""
    batch = min(members[0].recipe.batch_size, len(train))
    if model.device.type == "cpu" and model.skeleton is not None:
        # Every run computes all of its pass, and on a CPU no kernel waits to be started.
        return 1
    if model.device.type == "cpu":
        return max(1, int(CPU_TOKENS / (train.lengths.mean() * batch)))
    free, _ = torch.cuda.mem_get_info(model.device)
    return runs_within(GPU_SHARE * free, model, train, members)


def runs_within(memory: float, model: Encoder, train: Examples, members: Sequence[Member]) -> int:
    """How many runs of one kind fit into so many bytes, whichever examples make up a batch."""
    batch = min(members[0].recipe.batch_size, len(train))
    longest = int(train.lengths.max())
    entries: Entries = {}
    for member in members:
        entries |= member.entries
    run, once = step_bytes(model, entries, batch * longest, [(batch, longest)])
    return max(1, int((memory - once) / run))
