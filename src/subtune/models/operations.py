"""Operations of the forward pass: products with the weights of several runs, dropout, compilation.

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

# Each random draw of 64 bits determines four values of a dropout mask, with 16 bits for each value.
VALUES_PER_DRAW = 4
PROBABILITY_STEPS = 1 << 16
# Common activation functions are defined here, because importing them from transformers takes a
# second.
COMMON_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


@dataclass(frozen=True)
class PerRun:
    """A tensor with different values ``[k, …]`` for each run.

    ``rows`` contains the ascending indices ``[u]`` of the rows of an embedding table that are read
    in training; ``values`` then contains only these rows, ``[k, u, h]``.
    """

    values: Tensor
    rows: Tensor | None = None


@dataclass(frozen=True)
class LowRankUpdate:
    """A low-rank update ``lora_b @ lora_a``, which is added to a matrix that all runs share.

    ``lora_a`` is ``[k, r, i]``; ``lora_b`` is ``[k, o, r]``, already multiplied by the scale.
    """

    lora_a: Tensor
    lora_b: Tensor


# All runs share a plain tensor, whose shape therefore has no ``k``.
Weight = Tensor | PerRun | LowRankUpdate


class CompiledOperations(NamedTuple):
    """Operations on the result of a matrix product, ``[k, t, o]``, each compiled to one kernel.

    Attributes:
        add_bias_and_activate: adds the bias and applies the activation function.
        add_residual_and_normalise: adds the bias, applies dropout if there is a mask, adds the
            residual, and applies LayerNorm with its weight and bias.
    """

    add_bias_and_activate: Callable[[Tensor, Tensor], Tensor]
    add_residual_and_normalise: Callable[
        [Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor], Tensor
    ]


@cache
def find_activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return the activation function that transformers calls ``name``."""
    if name in COMMON_ACTIVATIONS:
        return COMMON_ACTIVATIONS[name]
    from transformers.activations import ACT2FN

    return ACT2FN[name]


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Cast a tensor to the dtype of matrix products under autocast, if autocast is enabled."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def stacked_linear(x: Tensor, weights: Tensor) -> Tensor:
    """Compute ``x Wᵀ`` for each run, ``[k, t, o]``, from the matrices ``weights`` ``[k, o, i]``.

    The input is ``[k, t, i]``, or ``[1, t, i]`` if it is the same for all runs.
    """
    if len(weights) == 1:
        return functional.linear(x, weights.squeeze(0))
    return _StackedLinear.apply(
        to_autocast_dtype(x).expand(len(weights), -1, -1), to_autocast_dtype(weights)
    )


class _StackedLinear(torch.autograd.Function):
    """A batched product whose weight gradients have the same memory layout as the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(x, weights)
        return torch.bmm(x, weights.mT)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weights = ctx.saved_tensors
        needs_x, needs_weights = ctx.needs_input_grad
        for_x = torch.bmm(g, weights) if needs_x else None
        return for_x, torch.bmm(g.mT, x) if needs_weights else None


class DropoutMasks:
    """A reproducible sequence of dropout masks, determined by a seed.

    On a CPU, torch's own dropout takes a fifth of a training step. This class uses 16 random bits
    for each value, so dropout probabilities are rounded to multiples of 1/65536.

    On a GPU, flash attention in bfloat16 draws a mask for each run from torch's default generator.
    All other masks are drawn from a separate generator, and do not depend on the number of runs.
    """

    def __init__(self, seed: int, device: torch.device):
        self.device = device
        self._bits = np.random.SFC64(seed)
        self.generators = [torch.Generator(device).manual_seed(seed)]
        if device.type == "cuda":
            attention = torch.cuda.default_generators[torch.cuda.current_device()]
            # With the same seed, both generators would draw the same numbers.
            self.generators.append(attention.manual_seed(seed + 1))

    def draw_mask(self, shape: Sequence[int], p: float) -> Tensor:
        """Draw a mask whose values are 0 with probability ``p``, and otherwise ``1 / (1 - p)``."""
        if self.device.type != "cpu":
            mask = torch.empty(shape, device=self.device)
            return mask.bernoulli_(1 - p, generator=self.generators[0]).mul_(1 / (1 - p))
        count = math.prod(shape)
        draws = self._bits.random_raw(-(-count // VALUES_PER_DRAW))
        dropped = round(p * PROBABILITY_STEPS) - PROBABILITY_STEPS // 2
        kept = draws.view(np.int16)[:count].reshape(shape) >= dropped
        # NumPy computes this product five times as fast as torch.
        return torch.from_numpy(np.multiply(kept, 1 / (1 - p), dtype=np.float32))

    def draw_seed(self) -> int:
        """Draw a seed for code that uses torch's default generator."""
        return int(self._bits.random_raw() >> 1)

    def state(self) -> tuple[dict[str, Any], list[Tensor]]:
        """Return the state for a checkpoint: JSON values, and the states of torch's generators."""
        bits = self._bits.state
        plain = bits | {"state": {"state": bits["state"]["state"].tolist()}}
        states = [generator.get_state() for generator in self.generators]
        return {"device": self.device.type, "masks": plain}, states

    def restore(self, facts: Mapping[str, Any], states: Sequence[Tensor]) -> None:
        """Restore the states that `state` returned, if it was called on this type of device."""
        # The state of a GPU's random generator cannot be restored on a CPU, nor vice versa.
        if facts["device"] != self.device.type:
            return
        bits: Any = dict(facts["masks"])
        bits["state"] = {"state": np.array(bits["state"]["state"], np.uint64)}
        self._bits.state = bits
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)


def compile_operations(
    config: PretrainedConfig, parameters: Mapping[str, Tensor], report: Callable[[str], None]
) -> CompiledOperations | None:
    """Compile the pointwise operations of subtune's forward pass for training; None if this fails.

    Without compilation, each bias, activation, dropout mask, sum and LayerNorm is a separate kernel
    that reads and writes all tokens of all runs. Compilation took ten seconds on an H200, so it is
    not worthwhile for short trainings. It needs a C compiler and Python's headers.
    """
    fused = _compile_operations(config.hidden_act, config.layer_norm_eps)
    try:
        _warm_up_operations(fused, parameters)
    except Exception as error:
        report(f"operations are not compiled, so training is slower: {error_reason(error)}")
        return None
    return fused


def _warm_up_operations(fused: CompiledOperations, parameters: Mapping[str, Tensor]) -> None:
    """Call each operation and its backward pass once, because torch compiles at the first call."""
    parts = ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")
    matrix, bias, weight, shift = (parameters[f"{LAYERS}0.output.{part}"] for part in parts)
    wide_bias = parameters[f"{LAYERS}0.intermediate.dense.bias"]

    def tokens(width: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(2, 8, width, dtype=dtype, device=matrix.device, requires_grad=True)

    def per_run(vector: Tensor) -> Tensor:
        return vector.repeat(2, 1, 1).requires_grad_()

    outputs, inputs = matrix.shape
    activated = fused.add_bias_and_activate(tokens(inputs, matrix.dtype), per_run(wide_bias))
    normed = fused.add_residual_and_normalise(
        tokens(outputs, matrix.dtype),
        per_run(bias),
        torch.ones(8, outputs, device=matrix.device),
        tokens(outputs, bias.dtype),
        per_run(weight),
        per_run(shift),
    )
    (activated.sum() + normed.sum()).backward()


# Without the cache, torch would compile the functions again for every group of runs.
@cache
def _compile_operations(activation_name: str, eps: float) -> CompiledOperations:
    activate = find_activation(activation_name)
    # Each vector is shared by all runs or not, and trained or frozen. torch compiles one version of
    # a function for each combination.
    torch._dynamo.config.recompile_limit = 64

    def add_bias_and_activate(y: Tensor, bias: Tensor) -> Tensor:
        # The result is the input of a matrix product, which needs the dtype of products.
        return activate(y + bias).to(y.dtype)

    def add_residual_and_normalise(
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

    return CompiledOperations(
        _compile_for_any_size(add_bias_and_activate),
        _compile_for_any_size(add_residual_and_normalise),
    )


def _compile_for_any_size(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile a function once for any number of tokens and runs."""
    compiled = torch.compile(function)

    def call(*operands: Tensor | None) -> Tensor:
        for tensor in operands:
            for dimension in range(tensor.ndim - 1 if tensor is not None else 0):
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)
        return compiled(*operands)

    return call
