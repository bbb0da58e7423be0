"""Weights that differ between runs, products with them, compiled operations, dropout masks.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``r`` rank, ``u`` rows of an
embedding table, ``h`` its columns.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PretrainedConfig

from subtune.core.errors import error_reason
from subtune.methods.roles import LAYERS

# A draw of 64 bits decides four values of a dropout mask, by sixteen bits each.
VALUES_PER_DRAW = 4
PROBABILITY_STEPS = 1 << 16
# Importing transformers' own takes a second.
COMMON_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


@dataclass(frozen=True)
class PerRun:
    """A tensor of which each run has its own.

    Attributes:
        values: each run's values, ``[k, …]``.
        rows: of an embedding table, the indices ``[u]`` of the only rows that a training reads, in
            ascending order; ``values`` are then ``[k, u, h]``. None: the values of all rows.
    """

    values: Tensor
    rows: Tensor | None = None


@dataclass(frozen=True)
class LowRankUpdate:
    """A product ``lora_b @ lora_a`` that is added to the model's own matrix.

    Attributes:
        lora_a: ``[k, r, i]``.
        lora_b: ``[k, o, r]``, multiplied by the update's scale.
    """

    lora_a: Tensor
    lora_b: Tensor


# A plain tensor has the model's own shape, and all runs share it.
Weight = Tensor | PerRun | LowRankUpdate


class Fused(NamedTuple):
    """Pointwise operations after a matrix product ``[k, t, o]``, compiled to one kernel each.

    Attributes:
        activated: adds a bias and applies the activation.
        added_and_normed: adds a bias, applies a dropout mask, if there is one, adds the residual,
            and applies LayerNorm with its weight and bias.
    """

    activated: Callable[[Tensor, Tensor], Tensor]
    added_and_normed: Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor], Tensor]


@cache
def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return transformers' activation of this name."""
    if name in COMMON_ACTIVATIONS:
        return COMMON_ACTIVATIONS[name]
    from transformers.activations import ACT2FN

    return ACT2FN[name]


def to_product_dtype(x: Tensor) -> Tensor:
    """Return ``x`` in the dtype of matrix products."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def look_up(ids: Tensor, tables: Tensor) -> Tensor:
    """Return rows ``[k, t, h]`` of each run's table, from tables ``[k, u, h]``."""
    first = torch.arange(len(tables), device=ids.device) * tables.shape[1]
    return functional.embedding(ids + first[:, None], tables.flatten(0, 1))


def stacked_linear(x: Tensor, weights: Tensor) -> Tensor:
    """Return the product ``x Wᵀ`` of every run, ``[k, t, o]``.

    Args:
        x: ``[k, t, i]``, or ``[1, t, i]`` if all runs have the same input.
        weights: each run's matrix, ``[k, o, i]``.
    """
    if len(weights) == 1:
        return functional.linear(x, weights.squeeze(0))
    return _StackedLinear.apply(
        to_product_dtype(x).expand(len(weights), -1, -1), to_product_dtype(weights)
    )


class _StackedLinear(torch.autograd.Function):
    """A batched product. The gradient of the matrices is laid out in memory as the matrices are."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, weights)
        return torch.bmm(x, weights.mT)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weights = ctx.saved_tensors
        needs_x, needs_weights = ctx.needs_input_grad
        return (
            torch.bmm(g, weights) if needs_x else None,
            torch.bmm(g.mT, x) if needs_weights else None,
        )


class DropoutMasks:
    """A sequence of dropout masks that a seed decides.

    On a CPU these masks are cheap; torch's own masks take a fifth of a training step. Sixteen
    random bits decide whether a value is kept, so the probability is exact to 1/65536. On a GPU,
    flash attention, which computes bfloat16, draws a mask for each run from torch's default
    generator. All other masks have a generator of their own, so that they do not depend on the
    number of runs.
    """

    def __init__(self, seed: int, device: torch.device):
        self.device = device
        self._bits = np.random.SFC64(seed)
        self.generators = [torch.Generator(device).manual_seed(seed)]
        if device.type == "cuda":
            attention = torch.cuda.default_generators[torch.cuda.current_device()]
            # Another seed, because equal ones would draw equal numbers.
            self.generators.append(attention.manual_seed(seed + 1))

    def draw(self, shape: Sequence[int], p: float) -> Tensor:
        """Return a mask whose values are 0 with probability ``p``, and else 1/(1-p)."""
        if self.device.type != "cpu":
            mask = torch.empty(shape, device=self.device)
            return mask.bernoulli_(1 - p, generator=self.generators[0]).mul_(1 / (1 - p))
        count = math.prod(shape)
        draws = self._bits.random_raw(-(-count // VALUES_PER_DRAW))
        kept = (
            draws.view(np.int16)[:count].reshape(shape)
            >= round(p * PROBABILITY_STEPS) - PROBABILITY_STEPS // 2
        )
        # Numpy does this five times faster than torch.
        return torch.from_numpy(np.multiply(kept, 1 / (1 - p), dtype=np.float32))

    def draw_seed(self) -> int:
        """Return a seed for code that draws from torch's own generator."""
        return int(self._bits.random_raw() >> 1)

    def state(self) -> tuple[dict[str, Any], list[Tensor]]:
        """Return the states of the generators.

        Returns:
            Values that JSON can hold, with the state from which a CPU draws; and tensors, with the
            states from which other devices draw. Only the same kind of device can read the tensors.
        """
        bits = self._bits.state
        plain = bits | {"state": {"state": bits["state"]["state"].tolist()}}
        states = [generator.get_state() for generator in self.generators]
        return {"device": self.device.type, "masks": plain}, states

    def restore(self, facts: Mapping[str, Any], states: Sequence[Tensor]) -> None:
        """Continue from states of the same kind of device."""
        bits: Any = dict(facts["masks"])
        bits["state"] = {"state": np.array(bits["state"]["state"], np.uint64)}
        self._bits.state = bits
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


def fuse_operations(
    config: PretrainedConfig, parameters: Mapping[str, Tensor], report: Callable[[str], None]
) -> Fused | None:
    """Return compiled operations for the training steps of a packed family's model.

    Without compiling, every bias, activation, dropout mask, sum and LayerNorm is a kernel that
    reads and writes all tokens of all runs. Compiling took ten seconds on an H200, so short
    trainings do not compile. It needs a C compiler and Python's headers, which some machines lack:
    if it fails, report why, and return None.
    """
    fused = _compile_operations(config.hidden_act, config.layer_norm_eps)
    try:
        _try_operations(fused, parameters)
    except Exception as error:
        report(f"operations are not compiled, which takes longer: {error_reason(error)}")
        return None
    return fused


def _try_operations(fused: Fused, parameters: Mapping[str, Tensor]) -> None:
    """Compile the operations and their backward passes, for two runs and a few tokens.

    Raises:
        Exception: torch cannot compile them.
    """
    parts = ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")
    matrix, bias, weight, shift = (parameters[f"{LAYERS}0.output.{part}"] for part in parts)
    wide_bias = parameters[f"{LAYERS}0.intermediate.dense.bias"]

    def tokens(width: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(2, 8, width, dtype=dtype, device=matrix.device, requires_grad=True)

    def per_run(vector: Tensor) -> Tensor:
        return vector.repeat(2, 1, 1).requires_grad_()

    outputs, inputs = matrix.shape
    activated = fused.activated(tokens(inputs, matrix.dtype), per_run(wide_bias))
    normed = fused.added_and_normed(
        tokens(outputs, matrix.dtype),
        per_run(bias),
        torch.ones(8, outputs, device=matrix.device),
        tokens(outputs, bias.dtype),
        per_run(weight),
        per_run(shift),
    )
    (activated.sum() + normed.sum()).backward()


# Cached, because new functions would be compiled again for every group of runs.
@cache
def _compile_operations(activation_name: str, eps: float) -> Fused:
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

    return Fused(_compile_for_any_size(activated), _compile_for_any_size(added_and_normed))


def _compile_for_any_size(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function, compiled once for all numbers of tokens and runs."""
    compiled = torch.compile(function)

    def call(*operands: Tensor | None) -> Tensor:
        for tensor in operands:
            for dimension in range(tensor.ndim - 1 if tensor is not None else 0):
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        return compiled(*operands)

    return call
