"""Operations of the forward pass: weights that differ by run, grids, dropout masks.

A matrix in which some entries train gets no gradient. The backward pass holds at most three such
matrices.

Shapes: ``k`` runs, ``t`` tokens, ``o`` outputs, ``i`` inputs, ``r`` rank, ``e`` trainable entries.
On grids: ``m`` examples, ``s`` tokens, ``l`` tokens of the longest example, ``a`` heads of
attention, ``d`` numbers per head, ``h`` = ``a·d`` numbers per token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

# A 64-bit draw serves four values of a dropout mask, sixteen bits each.
LANES = 4
STEPS = 1 << 16


@dataclass(frozen=True)
class PerRun:
    """One tensor per run: ``values`` are ``[k, …]``."""

    values: Tensor


@dataclass(frozen=True)
class SparseEntries:
    """A matrix ``[o, i]`` with some trainable entries.

    The matrix holds their ``values`` ``[e]`` at ``rows`` and ``columns`` ``[e]``. The values get a
    gradient, the matrix gets none.
    """

    matrix: Tensor
    values: Tensor
    rows: Tensor
    columns: Tensor


@dataclass(frozen=True)
class TableRows:
    """The ``values`` ``[k, u, h]`` of the only ``rows`` ``[u]`` of a table that are read.

    ``rows`` are in ascending order.
    """

    values: Tensor
    rows: Tensor


@dataclass(frozen=True)
class LowRankUpdate:
    """A product ``lora_b @ lora_a`` that is added to the model's own matrix.

    ``lora_a`` is ``[k, r, i]``; ``lora_b`` is ``[k, o, r]`` and includes the update's scale.
    """

    lora_a: Tensor
    lora_b: Tensor


# A plain tensor has the model's own shape, and all runs share it.
Weight = Tensor | PerRun | SparseEntries | TableRows | LowRankUpdate


class Fused(NamedTuple):
    """Pointwise operations after a product ``y`` ``[k, t, o]``, as one kernel each.

    ``activated`` adds a bias and applies the activation. ``added_and_normed`` adds a bias, applies
    a dropout mask, if there is one, adds the residual, and applies LayerNorm with its weight and
    bias.
    """

    activated: Callable[[Tensor, Tensor], Tensor]
    added_and_normed: Callable[[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor], Tensor]


def in_products(x: Tensor) -> Tensor:
    """Return ``x`` in the dtype of matrix products."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def lookup(ids: Tensor, tables: Tensor) -> Tensor:
    """Return rows ``[k, t, h]`` of each run's table, from tables ``[k, u, h]``."""
    first = torch.arange(len(tables), device=ids.device) * tables.shape[1]
    return functional.embedding(ids + first[:, None], tables.flatten(0, 1))


def stacked_linear(x: Tensor, weights: Tensor) -> Tensor:
    """Return ``x Wᵀ``, ``[k, t, o]``, from an input ``[k, t, i]`` or ``[1, t, i]`` and each run's
    matrix ``[k, o, i]``."""
    if len(weights) == 1:
        return functional.linear(x, weights.squeeze(0))
    return _StackedLinear.apply(in_products(x).expand(len(weights), -1, -1), in_products(weights))


class _StackedLinear(torch.autograd.Function):
    """A batched product whose gradient of the matrices has their own order in memory."""

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


def attention_within(
    query: Tensor, key: Tensor, value: Tensor, heads: int, starts: Tensor, longest: int, p: float
) -> Tensor:
    """Return attention within examples, ``[k, s, h]``, without padding.

    Args:
        query: ``[k, s, h]``, of all tokens or of the first tokens of ``m`` sequences.
        key: ``[k, t, h]``, as is ``value``.
        heads: the number of attention heads.
        starts: the first token of each sequence, ``[m]``. No sequence is without tokens.
        longest: a number that no sequence exceeds in tokens.
        p: the probability that an attention weight is dropped.
    """

    def jagged(x: Tensor, starts: Tensor, longest: int) -> Tensor:
        runs, tokens, _ = x.shape
        first = torch.arange(runs, device=x.device)[:, None] * tokens
        offsets = functional.pad((first + starts).flatten(), (0, 1), value=runs * tokens)
        values = in_products(x).reshape(runs * tokens, heads, -1)
        nested = torch.nested.nested_tensor_from_jagged(
            values, offsets, min_seqlen=1, max_seqlen=min(longest, len(values))
        )
        return nested.transpose(1, 2)

    key_of, value_of = (jagged(x, starts, longest) for x in (key, value))
    if query.shape[1] == key.shape[1]:
        query_of = jagged(query, starts, longest)
    else:
        query_of = jagged(query, torch.arange(len(starts), device=starts.device), 1)
    attended = functional.scaled_dot_product_attention(query_of, key_of, value_of, dropout_p=p)
    return attended.transpose(1, 2).values().reshape(query.shape)


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
            # With many entries, computing the full product is a hundred times faster.
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
        # If several tokens read a row, one of them gets the sum of all. A row that no token reads
        # gets the last sum, which is 0.
        nowhere = len(ids)
        reader = ids.new_full((ctx.rows_of_table,), nowhere)
        reader[ids] = torch.arange(len(ids), device=ids.device)
        sums = g.new_zeros(nowhere + 1, g.shape[1]).index_add_(0, reader[ids], g)
        return None, None, sums[reader[rows], columns], None, None


@dataclass(frozen=True)
class Grid:
    """Neighbouring examples of a batch, laid out for attention: ``m`` examples by ``l`` slots.

    ``tokens``: the number ``s`` of tokens. ``outside`` ``[m, l]``: 0 in slots with a token, -inf
    after an example's end. ``slot`` ``[s·a]``: the slot of each row of ``[s·a, d]``, in
    ``[m·a·l, d]``.
    """

    tokens: int
    outside: Tensor
    slot: Tensor


def grid_of(lengths: np.ndarray, heads: int, tensor: Callable[[np.ndarray], Tensor]) -> Grid:
    """Return the grid of neighbouring examples with these numbers of tokens."""
    longest = int(lengths.max())
    first = lengths.cumsum() - lengths
    example = np.arange(len(lengths)).repeat(lengths)
    position = np.arange(lengths.sum()) - first[example]
    inside = np.arange(longest) < lengths[:, None]
    slot = (example[:, None] * heads + np.arange(heads)) * longest + position[:, None]
    return Grid(
        tokens=int(lengths.sum()),
        outside=tensor(np.where(inside, np.float32(0), np.float32("-inf"))),
        slot=tensor(slot.ravel()),
    )


def to_grid(x: Tensor, grid: Grid, heads: int) -> Tensor:
    """Copy a grid's tokens ``[k, s, h]`` to every head's slots ``[k·m·a, l, d]``, others are 0."""
    rows = x.unflatten(2, (heads, -1)).flatten(1, 2)
    slots = rows.new_zeros(len(rows), grid.outside.numel() * heads, rows.shape[2])
    slots = slots.index_copy(1, grid.slot, rows)
    return slots.view(-1, grid.outside.shape[1], rows.shape[2])


def from_grid(x: Tensor, grid: Grid, heads: int) -> Tensor:
    """Copy every head's slots ``[k·m·a, l, d]`` back to tokens ``[k, s, h]``."""
    rows = x.reshape(-1, grid.outside.numel() * heads, x.shape[2])
    return rows.index_select(1, grid.slot).unflatten(1, (-1, heads)).flatten(2)


class DropoutMasks:
    """A sequence of dropout masks, decided by the seed.

    These masks are cheap on a CPU, where torch's own masks take a fifth of a training step. Sixteen
    random bits decide whether a value is kept, so the probability is exact to 1/65536. On a GPU,
    attention's kernels draw a mask for each run from torch's default generator. All other masks
    have a generator of their own, so that they do not depend on the number of runs.
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
        """Return a mask that is 0 with probability ``p``, and 1/(1-p) elsewhere."""
        if self.device.type != "cpu":
            mask = torch.empty(shape, device=self.device)
            return mask.bernoulli_(1 - p, generator=self.generators[0]).mul_(1 / (1 - p))
        count = math.prod(shape)
        draws = self._bits.random_raw(-(-count // LANES))
        kept = draws.view(np.int16)[:count].reshape(shape) >= round(p * STEPS) - STEPS // 2
        # Numpy does this five times faster than torch.
        return torch.from_numpy(np.multiply(kept, 1 / (1 - p), dtype=np.float32))

    def draw_seed(self) -> int:
        """Return a seed for code that draws from torch's own generator."""
        return int(self._bits.random_raw() >> 1)

    def state(self) -> tuple[dict[str, Any], list[Tensor]]:
        """Return the generators' states: facts that JSON can hold, and tensors.

        CPUs draw from the state in the facts. Other devices draw from the states in the tensors,
        which only the same kind of device can read.
        """
        bits = self._bits.state
        plain = bits | {"state": {"state": bits["state"]["state"].tolist()}}
        states = [generator.get_state() for generator in self.generators]
        return {"device": self.device.type, "masks": plain}, states

    def restore(self, facts: Mapping[str, Any], states: Sequence[Tensor]) -> None:
        """Restore a state from the same kind of device."""
        bits: Any = dict(facts["masks"])
        bits["state"] = {"state": np.array(bits["state"]["state"], np.uint64)}
        self._bits.state = bits
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)
