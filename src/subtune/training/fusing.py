"""Which runs of a sweep train side by side.

Shapes: ``t`` tokens of a batch, ``l`` tokens of its longest example.
"""

from collections.abc import Sequence

import torch
from transformers import PretrainedConfig

from subtune.data.batches import Rows
from subtune.models.encoder import Encoder
from subtune.selection import CLASSIFIER, LowRankUpdate
from subtune.training.bank import is_matrix
from subtune.training.recipe import Member

# A pass of so many tokens keeps a CPU busy; more of them take memory and save little.
CPU_TOKENS = 4000
# Of a GPU's free memory; the rest is for evaluation, gradients and what the estimate leaves out.
GPU_SHARE = 0.5


def groups(
    model: Encoder, train: Rows, members: Sequence[Member], most: int | None = None
) -> list[list[int]]:
    """Numbers of the runs that train side by side, in the runs' order.

    Args:
        model: on its device.
        train: the training split.
        members: the runs of a sweep.
        most: at most so many at once, where memory and time allow more.
    """
    alike: dict[tuple, list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(_kind(model, member, number), []).append(number)
    size = runs_at_once(model, train, members[0].recipe.batch_size)
    size = min(size, most or size)
    return [
        same[start : start + size] for same in alike.values() for start in range(0, len(same), size)
    ]


def _kind(model: Encoder, member: Member, number: int) -> tuple:
    """Runs of one kind share batches, dropout and the work of a step."""
    if any(is_matrix(model, name, entry) for name, entry in member.entries.items()):
        return (number,)
    recipe = member.recipe
    ranks = {n: e for n, e in member.entries.items() if isinstance(e, LowRankUpdate)}
    reaches_encoder = len(member.entries) > len(CLASSIFIER)
    return (
        *(member.seed, recipe.batch_size, recipe.epochs, recipe.train_rows, recipe.precision),
        *(tuple(ranks.items()), reaches_encoder),
    )


def runs_at_once(model: Encoder, train: Rows, batch_size: int) -> int:
    """How many runs a pass may hold: by its tokens on a CPU, by free memory on a GPU."""
    batch = min(batch_size, len(train))
    if model.device.type == "cpu":
        return max(1, int(CPU_TOKENS / (train.lengths.mean() * batch)))
    free, _ = torch.cuda.mem_get_info(model.device)
    longest = int(train.lengths.max())
    one, every = activation_bytes(model.config, batch * longest, batch, longest)
    return max(1, int((GPU_SHARE * free - every) / one))


def activation_bytes(
    config: PretrainedConfig, tokens: int, examples: int, longest: int
) -> tuple[int, int]:
    """What a pass keeps for its way back, if vectors of every layer train: per run, and once.

    Per layer and token: two LayerNorms' inputs and outputs and the activation's input; on the
    grid: queries, keys and values, and attention's weights before and after dropout. Masks are
    kept once. Of the last layer keys and values are kept.
    """
    hidden, places = config.hidden_size, examples * longest
    pairs = config.num_attention_heads * places * longest
    layers = config.num_hidden_layers - 1
    one = layers * (tokens * (4 * hidden + config.intermediate_size) + places * 3 * hidden)
    one += layers * 2 * pairs + places * 2 * hidden
    every = layers * (tokens * 2 * hidden + pairs)
    return 4 * one, 4 * every
