"""Modules that read a matrix of which some entries train.

The matrix gets no gradient, so that none is ever formed for all of it.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``e`` entries that train.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from subtune.models.weights import SparseEntries


def sparse_linear(x: Tensor, weight: SparseEntries) -> Tensor:
    """``x Wᵀ``, ``[k, t, o]``; entry ``W[o, i]`` has gradient Σ_t g[t, o]·x[t, i]."""
    return _SparseLinear.apply(x, weight.matrix, weight.values, weight.rows, weight.columns)


def sparse_embedding(ids: Tensor, table: SparseEntries) -> Tensor:
    """Rows ``[t, h]`` of the table; an entry's gradient is Σ_t g[t, column] where it is read."""
    return _SparseEmbedding.apply(ids, table.matrix, table.values, table.rows, table.columns)


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, values: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, weight, rows, columns)
        return functional.linear(x, weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rows, columns = ctx.saved_tensors
        tokens, outputs = x.flatten(0, -2).float(), g.flatten(0, -2).float()
        gradient = (outputs[:, rows] * tokens[:, columns]).sum(0)
        below = g @ weight.to(g.dtype) if ctx.needs_input_grad[0] else None
        return below, None, gradient, None, None


class _SparseEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ids: Tensor, table: Tensor, values: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        ctx.save_for_backward(ids, values, rows, columns)
        return functional.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        ids, values, rows, columns = ctx.saved_tensors
        token, entry = (ids[:, None] == rows).nonzero(as_tuple=True)
        gradient = torch.zeros_like(values)
        gradient.index_add_(0, entry, g[token, columns[entry]].float())
        return None, None, gradient, None, None
