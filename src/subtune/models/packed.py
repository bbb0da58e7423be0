"""Batches without padding: the tokens of all examples, one example after the other.

Only attention looks from token to token, and only inside an example; there each head's tokens are
laid out on a grid of examples by positions, and taken off it again.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``l`` tokens of its longest example,
``a`` heads, ``d`` numbers per head, ``h`` = ``a·d`` numbers per token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from subtune.models.encoder import Encoder


@dataclass(frozen=True)
class Packed:
    """One batch: ``ids``, ``segments`` and ``positions`` (from 0) of every token, each ``[t]``.

    ``example`` ``[t]``: the example that each token belongs to. ``first`` ``[n]``: where each
    example starts. ``inside`` ``[n, l]``: which places of the grid hold a token.

    ``grid`` ``[n·a·l]``: the row of ``[t·a, d]`` at each place of the grid; on places behind an
    example's end stands its first token. ``place`` ``[t·a]``: the place of each such row.
    """

    ids: Tensor
    segments: Tensor | None
    positions: Tensor
    example: Tensor
    first: Tensor
    inside: Tensor
    grid: Tensor
    place: Tensor

    @property
    def size(self) -> tuple[int, int]:
        """``n`` and ``l``."""
        return self.inside.shape[0], self.inside.shape[1]


def pack(inputs: Mapping[str, Sequence[np.ndarray]], index: np.ndarray, model: Encoder) -> Packed:
    """The examples in ``index`` as one batch.

    Args:
        inputs: ``input_ids`` and, where the model has them, ``token_type_ids`` of every example.
        index: which examples, in which order.
        model: the batch goes where it is, and has a grid for each of its heads.
    """
    lengths = np.array([len(inputs["input_ids"][example]) for example in index])
    longest = int(lengths.max())
    first = lengths.cumsum() - lengths
    example = np.arange(len(index)).repeat(lengths)
    positions = np.arange(lengths.sum()) - first[example]
    inside = np.arange(longest) < lengths[:, None]
    head = np.arange(model.config.num_attention_heads)
    token = first[:, None] + np.arange(longest) * inside
    grid = token[:, None, :] * len(head) + head[:, None]
    place = (example[:, None] * len(head) + head) * longest + positions[:, None]

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(model.device, non_blocking=True)

    def column(name: str) -> Tensor:
        return tensor(np.concatenate([inputs[name][row] for row in index]).astype(np.int64))

    return Packed(
        ids=column("input_ids"),
        segments=column("token_type_ids") if "token_type_ids" in inputs else None,
        positions=tensor(positions),
        example=tensor(example),
        first=tensor(first),
        inside=tensor(inside),
        grid=tensor(grid.ravel()),
        place=tensor(place.ravel()),
    )


def to_grid(x: Tensor, batch: Packed, heads: int) -> Tensor:
    """Tokens ``[k, t, h]`` onto every head's grid ``[k·n·a, l, d]``.

    No gradient may come back from places that hold no token: those of keys and values have none
    behind attention's mask, those of queries none behind `from_grid`.
    """
    rows = x.unflatten(2, (heads, -1)).flatten(1, 2)
    return _Gather.apply(rows, batch.grid, batch.place).view(-1, batch.size[1], rows.shape[2])


def from_grid(x: Tensor, batch: Packed, heads: int) -> Tensor:
    """Every head's grid ``[k·n·a, l, d]`` back to tokens ``[k, t, h]``."""
    rows = x.reshape(-1, len(batch.grid), x.shape[2])
    tokens = _Scatter.apply(rows, batch.place)
    return tokens.unflatten(1, (-1, heads)).flatten(2)


class _Gather(torch.autograd.Function):
    """Gathers; so does its backward pass, where autograd's own would add up into zeros."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, grid: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return rows.index_select(1, grid)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return gradient.index_select(1, place), None, None


class _Scatter(torch.autograd.Function):
    """Gathers the places that hold a token; the others' gradient is 0."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.places = rows.shape[1]
        return rows.index_select(1, place)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (place,) = ctx.saved_tensors
        rows = gradient.new_zeros(gradient.shape[0], ctx.places, gradient.shape[2])
        return rows.index_copy_(1, place, gradient), None
