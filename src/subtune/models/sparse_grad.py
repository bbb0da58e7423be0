"""Layers with a matrix in which some entries train.

The matrix gets no gradient. The backward pass holds at most three such matrices.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``e`` trainable entries.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from subtune.models.weights import SparseEntries


def sparse_linear(x: Tensor, weight: SparseEntries) -> Tensor:
    """Return ``x Wᵀ``, ``[k, t, o]``; entry ``W[o, i]`` has gradient Σ_t g[t, o]·x[t, i]."""
    return _SparseLinear.apply(x, weight.matrix, weight.values, weight.rows, weight.columns)


def sparse_embedding(ids: Tensor, table: SparseEntries) -> Tensor:
    """Return rows ``[t, h]`` of the table.

    An entry's gradient is Σ_t g[t, column] over the tokens that read its row.
    """
    return _SparseEmbedding.apply(ids, table.matrix, table.values, table.rows, table.columns)


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, values: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        y = functional.linear(x, weight)
        ctx.save_for_backward(x.to(y.dtype), weight, values, rows, columns)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, values, rows, columns = ctx.saved_tensors
        tokens, outputs = x.flatten(0, -2), g.flatten(0, -2)
        if len(tokens) * len(rows) <= weight.numel():
            gradient = (outputs[:, rows] * tokens[:, columns].to(values.dtype)).sum(0)
        else:
            # For many entries the product of everything is a hundred times faster.
            gradient = (outputs.mT @ tokens)[rows, columns].to(values.dtype)
        below = g @ weight.to(g.dtype) if ctx.needs_input_grad[0] else None
        return below, None, gradient, None, None


class _SparseEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ids: Tensor, table: Tensor, values: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        ctx.save_for_backward(ids, rows, columns)
        ctx.rows_of_table = len(table)
        return functional.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        ids, rows, columns = ctx.saved_tensors
        # One of the tokens that read a row gets the sum. Rows that no token reads get the last
        # sum, which is 0.
        nowhere = len(ids)
        reader = ids.new_full((ctx.rows_of_table,), nowhere)
        reader[ids] = torch.arange(len(ids), device=ids.device)
        sums = g.new_zeros(nowhere + 1, g.shape[1]).index_add_(0, reader[ids], g)
        return None, None, sums[reader[rows], columns], None, None
