"""Batches without padding: the tokens of all examples, one example after the other.

Only attention looks from token to token, and only inside an example. For it each head's tokens are
copied to grids of examples by positions, and back.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``a`` heads of attention, ``d`` numbers per head, ``h`` = ``a·d`` numbers per token; ``m`` examples
and ``s`` tokens of a grid, ``l`` tokens of its longest example.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from subtune.models.encoder import Encoder
from subtune.tasks.examples import Examples

# One more pass of transformers' code costs as much time on a CPU as so many padding tokens.
TOKENS_OF_A_PASS = {"cpu": 200}
# One more grid costs as much time on a CPU as so many pairs of slots. On a GPU, where starting a
# kernel costs more than the work of a short batch, every batch has one grid.
PAIRS_OF_A_GRID = {"cpu": 8000}


@dataclass(frozen=True)
class Grid:
    """Neighbouring examples of a batch, laid out for attention: ``m`` examples by ``l`` slots.

    ``tokens``: their number ``s``. ``outside`` ``[m, l]``: 0 in slots with a token, -inf behind an
    example's end. ``row`` ``[m·a·l]``: the row of ``[s·a, d]`` in each slot; slots behind an
    example's end repeat its first token. ``slot`` ``[s·a]``: the slot of each such row.
    """

    tokens: int
    outside: Tensor
    row: Tensor
    slot: Tensor


@dataclass(frozen=True)
class Packed:
    """One batch: ``ids``, ``token_type_ids``, ``positions`` (from 0) of every token, each ``[t]``.

    ``example`` ``[t]``: the example of each token. ``first`` ``[n]``: each example's first token.
    ``reads`` ``[q]``: numbers of the tokens that the head reads, or None if it reads each example's
    first token only. ``read_of`` ``[q]``: the example of each token that the head reads.
    ``labels``: for examples ``[n]`` numbers, ``[n, 2]`` positions or ``[n, o]`` of 0 and 1, or for
    read tokens ``[q]``. ``grids``: for attention; together they hold every example once, in order.
    ``longest``: the number of tokens of the longest example.
    """

    ids: Tensor
    token_type_ids: Tensor | None
    positions: Tensor
    example: Tensor
    first: Tensor
    reads: Tensor | None
    read_of: Tensor
    labels: Tensor
    grids: tuple[Grid, ...]
    longest: int


def pack(examples: Examples, index: np.ndarray, model: Encoder) -> Packed:
    """Return the examples in ``index`` as one batch.

    Args:
        examples: of a split.
        index: numbers of examples in order. Sorted by length they need the smallest grids.
        model: the batch goes to its device, with slots for each of its heads of attention.
    """
    lengths = examples.lengths[index]
    first = lengths.cumsum() - lengths
    numbers = np.arange(len(index))
    example = numbers.repeat(lengths)
    reads, read_of = None, numbers
    if examples.reads is not None:
        positions = [examples.reads[number] for number in index]
        read_of = numbers.repeat([len(of_example) for of_example in positions])
        reads = np.concatenate(positions).astype(np.int64) + first[read_of]
    cost = PAIRS_OF_A_GRID.get(model.device.type)
    alike = [lengths] if cost is None else parts(lengths, cost, power=2)
    if model.transformers is not None:
        # Transformers' code needs no grids.
        alike = []

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(model.device, non_blocking=True)

    def column(name: str) -> Tensor:
        ids = [examples.inputs[name][number] for number in index]
        return tensor(np.concatenate(ids).astype(np.int64))

    return Packed(
        ids=column("input_ids"),
        token_type_ids=column("token_type_ids") if "token_type_ids" in examples.inputs else None,
        positions=tensor(np.arange(lengths.sum()) - first[example]),
        example=tensor(example),
        first=tensor(first),
        reads=None if reads is None else tensor(reads),
        read_of=tensor(read_of),
        labels=tensor(examples.labels_at(index)),
        grids=tuple(_grid(part, model.config.num_attention_heads, tensor) for part in alike),
        longest=int(lengths.max()),
    )


def means_of_examples(logits: Tensor, batch: Packed) -> Tensor:
    """Return logits ``[k, q, o]`` averaged over each example's tokens, ``[k, n, o]``."""
    # Adding by index would add in any order on a GPU.
    by_token = logits.transpose(0, 1).contiguous()
    means = torch.segment_reduce(by_token, "mean", lengths=batch.read_of.bincount())
    return means.transpose(0, 1)


def micro_batches(index: np.ndarray, lengths: np.ndarray, model: Encoder) -> list[np.ndarray]:
    """Return a batch in parts: padding may cost more time than one more pass.

    A model that sees padding gets parts of one length.

    Args:
        index: numbers of the batch's examples. Sorted by length they need the least padding.
        lengths: tokens of each of these examples.
        model: a packed family's batches have no padding, and are one part.
    """
    if model.transformers is not None and model.transformers.sees_padding:
        return np.split(index, np.flatnonzero(np.diff(lengths)) + 1)
    cost = TOKENS_OF_A_PASS.get(model.device.type)
    if model.transformers is None or cost is None:
        return [index]
    counts = [len(part) for part in parts(lengths, cost, power=1)]
    return np.split(index, np.cumsum(counts)[:-1])


def parts(lengths: np.ndarray, cost: int, power: int) -> list[np.ndarray]:
    """Cut examples into neighbours of similar length, while a cut saves more than it costs.

    Args:
        lengths: tokens of each example.
        cost: of one more part, in the same unit as the work.
        power: of the longest length that each example's work grows with: 1 for matrices, which read
            padded tokens, 2 for attention, which computes pairs of slots.
    """
    before = np.maximum.accumulate(lengths)[:-1]
    after = np.maximum.accumulate(lengths[::-1])[::-1][1:]
    count = np.arange(1, len(lengths))
    in_two = count * before**power + (len(lengths) - count) * after**power
    if len(lengths) == 1 or len(lengths) * lengths.max() ** power - in_two.min() < cost:
        return [lengths]
    cut = int(in_two.argmin()) + 1
    return parts(lengths[:cut], cost, power) + parts(lengths[cut:], cost, power)


def _grid(lengths: np.ndarray, heads: int, tensor: Callable[[np.ndarray], Tensor]) -> Grid:
    longest = int(lengths.max())
    first = lengths.cumsum() - lengths
    example = np.arange(len(lengths)).repeat(lengths)
    position = np.arange(lengths.sum()) - first[example]
    inside = np.arange(longest) < lengths[:, None]
    head = np.arange(heads)
    token = first[:, None] + np.arange(longest) * inside
    row = token[:, None, :] * heads + head[:, None]
    slot = (example[:, None] * heads + head) * longest + position[:, None]
    return Grid(
        tokens=int(lengths.sum()),
        outside=tensor(np.where(inside, np.float32(0), np.float32("-inf"))),
        row=tensor(row.ravel()),
        slot=tensor(slot.ravel()),
    )


def to_grid(x: Tensor, grid: Grid, heads: int) -> Tensor:
    """Copy a grid's tokens ``[k, s, h]`` to every head's slots ``[k·m·a, l, d]``.

    Slots without a token must get no gradient: attention's mask ensures it for keys and values,
    `from_grid` for queries.
    """
    rows = x.unflatten(2, (heads, -1)).flatten(1, 2)
    return _Gather.apply(rows, grid.row, grid.slot).view(-1, grid.outside.shape[1], rows.shape[2])


def from_grid(x: Tensor, grid: Grid, heads: int) -> Tensor:
    """Copy every head's slots ``[k·m·a, l, d]`` back to tokens ``[k, s, h]``."""
    rows = x.reshape(-1, len(grid.row), x.shape[2])
    tokens = _Scatter.apply(rows, grid.slot)
    return tokens.unflatten(1, (-1, heads)).flatten(2)


class _Gather(torch.autograd.Function):
    """Gathers rows. Its backward pass gathers too, where autograd's own would add into zeros."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, grid: Tensor, slot: Tensor) -> Tensor:
        ctx.save_for_backward(slot)
        return rows.index_select(1, grid)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slot,) = ctx.saved_tensors
        return gradient.index_select(1, slot), None, None


class _Scatter(torch.autograd.Function):
    """Gathers the slots that hold a token; the other slots' gradient is 0."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slot: Tensor) -> Tensor:
        ctx.save_for_backward(slot)
        ctx.slots = rows.shape[1]
        return rows.index_select(1, slot)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slot,) = ctx.saved_tensors
        rows = gradient.new_zeros(gradient.shape[0], ctx.slots, gradient.shape[2])
        return rows.index_copy_(1, slot, gradient), None
