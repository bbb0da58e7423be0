"""Pointwise operations between matrix products, which torch compiles to one GPU kernel each.

Without compiling, every bias, activation, dropout mask, sum and LayerNorm is a kernel that reads
and writes all tokens of all runs. Compiling took ten seconds on an H200, so short trainings do not
compile.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from subtune.core.errors import reason_of
from subtune.families.base import LAYERS
from subtune.models.encoder import Encoder
from subtune.models.forward import activation
from subtune.models.operations import Fused


def with_fused_operations(model: Encoder, report: Callable[[str], None]) -> Encoder:
    """Return a model of a packed family whose training steps use compiled operations.

    Compiling needs a C compiler and Python's headers, which some machines lack. If it fails, report
    why, and return the model as it is.
    """
    fused = _fused(model.config.hidden_act, model.config.layer_norm_eps)
    try:
        _require_working(fused, model)
    except Exception as error:
        report(f"operations are not compiled, which takes longer: {reason_of(error)}")
        return model
    return replace(model, fused=fused)


def _require_working(fused: Fused, model: Encoder) -> None:
    """Compile the operations and their backward passes, for two runs and a few tokens.

    Raises:
        Exception: torch cannot compile them.
    """
    parts = ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")
    matrix, bias, weight, shift = (model.parameters[f"{LAYERS}0.output.{part}"] for part in parts)
    wide_bias = model.parameters[f"{LAYERS}0.intermediate.dense.bias"]

    def tokens(width: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(2, 8, width, dtype=dtype, device=model.device, requires_grad=True)

    def per_run(vector: Tensor) -> Tensor:
        return vector.repeat(2, 1, 1).requires_grad_()

    outputs, inputs = matrix.shape
    activated = fused.activated(tokens(inputs, matrix.dtype), per_run(wide_bias))
    normed = fused.added_and_normed(
        tokens(outputs, matrix.dtype),
        per_run(bias),
        torch.ones(8, outputs, device=model.device),
        tokens(outputs, bias.dtype),
        per_run(weight),
        per_run(shift),
    )
    (activated.sum() + normed.sum()).backward()


# Cached, because new functions would be compiled again for every group of runs.
@cache
def _fused(activation_name: str, eps: float) -> Fused:
    activate = activation(activation_name)
    # A vector is shared or each run's own, and trains or not: torch compiles each case.
    torch._dynamo.config.recompile_limit = 64

    def activated(y: Tensor, bias: Tensor) -> Tensor:
        # The next product reads the products' dtype.
        return activate(y + bias).to(y.dtype)

    def added_and_normed(
        y: Tensor,
        bias: Tensor,
        mask: Tensor | None,
        residual: Tensor,
        weight: Tensor,
        shift: Tensor,
    ) -> Tensor:
        x = y + bias if mask is None else (y + bias) * mask
        normalised = functional.layer_norm(x + residual, residual.shape[-1:], eps=eps)
        return torch.addcmul(shift, normalised, weight)

    return Fused(_for_any_size(activated), _for_any_size(added_and_normed))


def _for_any_size(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function, compiled once for all numbers of tokens and runs."""
    compiled = torch.compile(function)

    def call(*operands: Tensor | None) -> Tensor:
        for tensor in operands:
            for dimension in range(tensor.ndim - 1 if tensor is not None else 0):
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        return compiled(*operands)

    return call
