"""Modules of which some entries train: a matrix that holds their values, and the values themselves.

The matrix gets no gradient, so that none is ever formed for all of it.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``e`` chosen entries.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def chosen_linear(x: Tensor, weight: Tensor, values: Tensor, rows: Tensor, columns: Tensor):
    """``x Wᵀ``, ``[k, t, o]``; entry ``W[o, i]`` has gradient Σ_t g[t, o]·x[t, i]."""
    return _ChosenLinear.apply(x, weight, values, rows, columns)


def chosen_embedding(ids: Tensor, table: Tensor, values: Tensor, rows: Tensor, columns: Tensor):
    """Rows ``[t, h]`` of the table; an entry's gradient is Σ_t g[t, column] where it is read."""
    return _ChosenEmbedding.apply(ids, table, values, rows, columns)


class _ChosenLinear(torch.autograd.Function):
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
        chosen = (outputs[:, rows] * tokens[:, columns]).sum(0)
        below = g @ weight.to(g.dtype) if ctx.needs_input_grad[0] else None
        return below, None, chosen, None, None


class _ChosenEmbedding(torch.autograd.Function):
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
        found = torch.zeros_like(values)
        found.index_add_(0, entry, g[token, columns[entry]].float())
        return None, None, found, None, None
