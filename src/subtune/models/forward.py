"""Batches without padding, and the forward pass of runs side by side.

A batch holds the tokens of all examples, one example after the other. Only attention compares
tokens, within an example. A GPU repeats a step only for batches of the same shape, so a batch for
training ends there with a *tail* of tokens that no example attends to, and that no head reads. This
module computes models of packed families, `subtune.models.transformers_pass` all others.

Runs share a weight, or each run has its own (`subtune.models.operations`). All runs read the same
batch under the same dropout masks, so their results are equal up to the first weight that differs.
Before that weight ``k`` is 1, and from that weight on the number of runs. Except for rounding, a
run's result does not depend on the others. On a GPU, attention draws each run's own dropout masks.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``h`` hidden size, ``i`` inputs, ``o`` outputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.families import first_position
from subtune.families.base import KEY, LAYERS, is_key_bias
from subtune.models.encoder import Encoder
from subtune.models.operations import (
    DropoutMasks,
    Grid,
    LowRankUpdate,
    PerRun,
    SparseEntries,
    TableRows,
    Weight,
    attention_within,
    from_grid,
    grid_of,
    lookup,
    sparse_embedding,
    sparse_linear,
    stacked_linear,
    to_grid,
)
from subtune.selections.added import down_and_up
from subtune.tasks.examples import IGNORED, Examples

# The number of padding tokens that cost as much time on a CPU as one more pass.
TOKENS_OF_A_PASS = 200
# The number of pairs of slots that cost as much time on a CPU as one more grid.
PAIRS_OF_A_GRID = 8000
# A batch of a fixed shape has 8 to 15 times a power of 2 of tokens, so that the tail is a twentieth
# of the batch on average.
EIGHTH = 3
# In a batch of a fixed shape, the longest example counts as a multiple of these numbers. Attention
# without padding takes as long for any length up to 128. Transformers' code computes padding.
LENGTH, PADDED_LENGTH = 128, 16
WORDS = "embeddings.word_embeddings"
Watch = Callable[[str, Tensor, Tensor], None]
# Common activations, without importing transformers' model code, which takes seconds.
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
}


@cache
def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return transformers' activation of this name."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    from transformers.activations import ACT2FN

    return ACT2FN[name]


@dataclass(frozen=True)
class Packed:
    """One batch: ``ids``, ``token_type_ids``, ``positions`` (from 0) of every token, each ``[t]``.

    ``example`` ``[t]``: the example of each token, ``n`` for the tail. ``starts`` ``[n]`` or, with
    a tail, ``[n + 1]``: the first token of each example and of the tail. ``reads`` ``[q]``: indices
    of the tokens that the head reads, or None if it reads each example's first token only.
    ``read_of`` ``[q]``: the example of each token that the head reads. ``labels``: for examples
    ``[n]`` numbers, ``[n, 2]`` positions or ``[n, o]`` of 0 and 1, or for read tokens ``[q]``. With
    a tail, ``reads`` may end with tokens of no example: their ``read_of`` is ``n``, and their label
    `IGNORED`. ``grids``: attention's grids, which together hold every example once, in order; a GPU
    needs none. ``examples``: ``n``. ``longest``: a number that no example exceeds in tokens.
    """

    ids: Tensor
    token_type_ids: Tensor | None
    positions: Tensor
    example: Tensor
    starts: Tensor
    reads: Tensor | None
    read_of: Tensor
    labels: Tensor
    grids: tuple[Grid, ...]
    examples: int
    longest: int

    @property
    def first(self) -> Tensor:
        """Each example's first token, ``[n]``."""
        return self.starts[: self.examples]

    @property
    def shape(self) -> tuple[int, ...]:
        """Everything that decides the shape of a training step: ``n``, ``t``, ``q``, the longest
        example."""
        return self.examples, len(self.ids), len(self.read_of), self.longest


def pack(
    examples: Examples, index: np.ndarray, model: Encoder, fixed_shape: bool = False
) -> Packed:
    """Return the examples in ``index`` as one batch.

    Args:
        examples: the examples of a split.
        index: indices of examples, in order. Examples sorted by length need the smallest grids.
        model: the model, which decides the device and the grids' attention heads.
        fixed_shape: add a tail, so that most batches have one of few shapes.
    """
    lengths = examples.lengths[index]
    starts = lengths.cumsum() - lengths
    numbers, count = np.arange(len(index)), int(lengths.sum())
    example = numbers.repeat(lengths)
    reads, read_of = None, numbers
    if examples.reads is not None:
        positions = [examples.reads[number] for number in index]
        read_of = numbers.repeat([len(places) for places in positions])
        reads = np.concatenate(positions).astype(np.int64) + starts[read_of]
    longest, tail, unread = int(lengths.max()), 0, 0
    if fixed_shape:
        size, longest = fixed_size(lengths, int(examples.lengths.max()), model)
        tail, starts = size - count, np.append(starts, count)
        # Some heads read as many tokens of each example; the number of others is rounded up.
        if len(read_of) != len(index):
            unread = rounded_up(len(read_of)) - len(read_of)
    has_grids = model.transformers is None and model.device.type != "cuda"
    alike = parts(lengths, PAIRS_OF_A_GRID, power=2) if has_grids else []

    def tensor(values: np.ndarray, more: int = 0, value: int = 0) -> Tensor:
        if more:
            values = np.append(values, np.full(more, value, values.dtype))
        held = torch.from_numpy(values)
        if model.device.type == "cuda":
            held = held.pin_memory()
        return held.to(model.device, non_blocking=True)

    def column(name: str) -> Tensor:
        ids = np.concatenate([examples.inputs[name][number] for number in index]).astype(np.int64)
        # The tail repeats a token, because a table may have no other rows.
        return tensor(ids, tail, ids[0])

    labels = examples.labels_at(index)
    of_words = len(labels) == len(read_of)
    return Packed(
        ids=column("input_ids"),
        token_type_ids=column("token_type_ids") if "token_type_ids" in examples.inputs else None,
        positions=tensor(np.arange(count) - starts[example], tail),
        example=tensor(example, tail, len(index)),
        starts=tensor(starts),
        reads=None if reads is None else tensor(reads, unread),
        read_of=tensor(read_of, unread, len(index)),
        labels=tensor(labels, unread if of_words else 0, IGNORED),
        grids=tuple(grid_of(part, model.config.num_attention_heads, tensor) for part in alike),
        examples=len(index),
        longest=longest,
    )


def fixed_size(lengths: np.ndarray, most: int, model: Encoder) -> tuple[int, int]:
    """Return the tokens of a batch of a fixed shape, tail included, and its longest sequence.

    Args:
        lengths: tokens of each example of the batch.
        most: the most tokens of any example.
    """
    unit = PADDED_LENGTH if model.transformers else LENGTH
    longest = min(-(-int(lengths.max()) // unit) * unit, most)
    # The tail has a token at least, because attention wants no sequence without tokens.
    if model.transformers:
        return len(lengths) * longest + 1, longest
    size = rounded_up(int(lengths.sum()) + 1)
    # The tail is a sequence too; it has at most an eighth of all tokens.
    return size, max(longest, size >> EIGHTH, 1)


def rounded_up(count: int) -> int:
    """Return the next number that is 8 to 15 times a power of 2."""
    unit = 1 << max(0, count.bit_length() - 1 - EIGHTH)
    return -(-count // unit) * unit


def rows_read(examples: Examples, index: np.ndarray, model: Encoder) -> dict[str, Tensor]:
    """Return, by the name of an embedding table, the only rows that examples read, in order.

    Transformers' code may read other rows; its tables are left out.
    """
    if model.transformers is not None:
        return {}
    ids = np.unique(np.concatenate([examples.inputs["input_ids"][number] for number in index]))
    return {f"{WORDS}.weight": torch.from_numpy(ids.astype(np.int64)).to(model.device)}


def means_of_examples(logits: Tensor, batch: Packed) -> Tensor:
    """Return logits ``[k, q, o]`` averaged over each example's tokens, ``[k, n, o]``."""
    # Adding by index has no defined order on a GPU.
    by_token = logits.transpose(0, 1).contiguous()
    numbers = torch.arange(len(batch.starts), device=logits.device)
    lengths = (batch.read_of == numbers[:, None]).sum(1)
    means = torch.segment_reduce(by_token, "mean", lengths=lengths, unsafe=True)
    return means[: batch.examples].transpose(0, 1)


def micro_batches(index: np.ndarray, lengths: np.ndarray, model: Encoder) -> list[np.ndarray]:
    """Split a batch into parts if padding costs more time than further passes.

    If the model sees padding, all examples of a part have the same length.

    Args:
        index: indices of the batch's examples. Examples sorted by length need the least padding.
        lengths: tokens of each of these examples.
        model: the model; batches of packed families have no padding, and are one part.
    """
    if model.transformers is not None and model.transformers.sees_padding:
        return np.split(index, np.flatnonzero(np.diff(lengths)) + 1)
    if model.transformers is None or model.device.type != "cpu":
        return [index]
    counts = [len(part) for part in parts(lengths, TOKENS_OF_A_PASS, power=1)]
    return np.split(index, np.cumsum(counts)[:-1])


def parts(lengths: np.ndarray, cost: int, power: int) -> list[np.ndarray]:
    """Cut examples into parts of similar length, while a cut saves more than it costs.

    Args:
        lengths: tokens of each example.
        cost: the cost of one more part, in the same unit as the work.
        power: the exponent of the longest length in each example's work: 1 for matrices, which read
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


@dataclass(frozen=True)
class _Pass:
    """The inputs that all parts of one forward pass read."""

    model: Encoder
    trained: Mapping[str, Weight]
    batch: Packed
    masks: DropoutMasks | None
    watch: Watch | None

    def weight(self, name: str) -> Weight:
        return self.trained[name] if name in self.trained else self.model.parameters[name]


def logits(
    model: Encoder,
    batch: Packed,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
    watch: Watch | None = None,
) -> Tensor:
    """Return logits ``[k, q, o]`` of every run, token that the head reads, and output.

    Args:
        model: the model that all runs share.
        batch: the batch that every run reads.
        trained: the weights that replace the model's own tensors, by canonical name.
        masks: dropout masks; without them nothing is dropped.
        watch: a function, only for packed families. It gets every module's name, input
            ``[k, t, i]`` (for embeddings ids ``[t]``) and output ``[k, t, o]``, and may request the
            output's gradient.
    """
    if model.transformers is not None:
        # Transformers' code takes seconds to import; packed models do not need it.
        from subtune.models import transformers_pass

        return transformers_pass.logits(model, batch, trained, masks)
    run = _Pass(model, trained or {}, batch, masks, watch)
    x = _read_states(run)
    for layer in model.family.heads[model.head]:
        x = _linear(run, layer.module, _dropped(run, x, layer.dropout_of(model.config)))
        x = activation(layer.activation)(x)
    return means_of_examples(x, batch) if model.averages else x


def hidden_states(model: Encoder, batch: Packed) -> Tensor:
    """Return the last hidden states ``[q, h]`` of the tokens that the batch reads."""
    if model.transformers is not None:
        from subtune.models import transformers_pass

        return transformers_pass.hidden_states(model, batch)
    return _read_states(_Pass(model, {}, batch, None, None))[0]


def _read_states(run: _Pass) -> Tensor:
    """Return the last hidden states ``[k, q, h]`` of the tokens that the batch reads."""
    config, reads = run.model.config, run.batch.reads
    x = _layer_norm(run, "embeddings.LayerNorm", _embedded(run))
    x = _dropped(run, x, config.hidden_dropout_prob)
    for number in range(config.num_hidden_layers):
        # If only first tokens are read, the last layer computes no others.
        last = number == config.num_hidden_layers - 1
        x = _layer(run, f"{LAYERS}{number}", x, last and reads is None)
    return x[:, : run.batch.examples] if reads is None else x.index_select(1, reads)


def _embedded(run: _Pass) -> Tensor:
    """Return the tokens' embeddings ``[k, t, h]``."""
    batch = run.batch
    start = first_position(run.model.config.model_type, run.model.config.pad_token_id)
    types = torch.zeros_like(batch.ids) if batch.token_type_ids is None else batch.token_type_ids
    ids = {
        WORDS: batch.ids,
        "embeddings.position_embeddings": batch.positions + start,
        "embeddings.token_type_embeddings": types,
    }
    words, positions, types = (_embedding(run, name, ids[name]) for name in ids)
    x = words + types + positions
    for name in ids:
        _show(run, name, ids[name], x)
    return x


def _embedding(run: _Pass, module: str, ids: Tensor) -> Tensor:
    """Return rows ``[k, t, h]`` of a table."""
    match table := run.weight(f"{module}.weight"):
        case SparseEntries():
            return sparse_embedding(ids, table)[None]
        case TableRows(values, rows):
            return lookup(torch.searchsorted(rows, ids), values)
        case PerRun(values):
            return lookup(ids, values)
    return functional.embedding(ids, _shared(table))[None]


def _layer(run: _Pass, layer: str, x: Tensor, first_only: bool) -> Tensor:
    """Return a layer's output ``[k, t, h]``, or only first tokens ``[k, n, h]``, the tail's too."""
    asking = x.index_select(1, run.batch.starts) if first_only else x
    readers = (("attention.self.query", asking), (KEY, x), ("attention.self.value", x))
    projected = [_linear(run, f"{layer}.{component}", read) for component, read in readers]
    runs = max(map(len, projected))
    query, key, value = (each.expand(runs, -1, -1) for each in projected)
    attended = _attention(run, query, key, value)
    attended = _add_and_norm(run, f"{layer}.attention.output", attended, asking)
    between, fused = f"{layer}.intermediate.dense", run.model.fused
    if fused is None:
        activated = activation(run.model.config.hidden_act)(_linear(run, between, attended))
    else:
        activated = fused.activated(
            _product(run, between, attended), _vector(run, f"{between}.bias")
        )
    return _add_and_norm(run, f"{layer}.output", activated, attended)


def _attention(run: _Pass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return ``[k, t, h]`` for queries of all tokens, ``[k, n, h]`` for queries of first tokens."""
    grids, heads = run.batch.grids, run.model.config.num_attention_heads
    if not grids:
        p = run.model.config.attention_probs_dropout_prob if run.masks is not None else 0.0
        return attention_within(query, key, value, heads, run.batch.starts, run.batch.longest, p)
    tokens = [grid.tokens for grid in grids]
    asking = tokens if query.shape[1] == key.shape[1] else [len(grid.outside) for grid in grids]
    pieces = zip(
        grids, query.split(asking, 1), key.split(tokens, 1), value.split(tokens, 1), strict=True
    )
    return torch.cat([_attention_on_grid(run, *piece) for piece in pieces], 1)


def _attention_on_grid(run: _Pass, grid: Grid, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return `_attention` for the examples of one grid."""
    heads = run.model.config.num_attention_heads
    examples, longest = grid.outside.shape
    first_only = query.shape[1] == examples
    key, value = to_grid(key, grid, heads), to_grid(value, grid, heads)
    query = query.reshape(len(key), 1, -1) if first_only else to_grid(query, grid, heads)
    outside = grid.outside.to(key.dtype)[None, :, None]
    outside = outside.expand(len(key) // (examples * heads), -1, heads, -1)
    scores = torch.baddbmm(
        outside.reshape(len(key), 1, longest), query, key.mT, alpha=query.shape[-1] ** -0.5
    )
    weights = scores.softmax(-1)
    if run.masks is not None and run.model.config.attention_probs_dropout_prob:
        every = weights.view(-1, examples * heads, *weights.shape[1:])
        mask = run.masks.draw(every.shape[1:], run.model.config.attention_probs_dropout_prob)
        weights = (every * mask).view_as(weights)
    attended = weights @ value
    if first_only:
        return attended.view(-1, examples, heads * value.shape[2])
    return from_grid(attended, grid, heads)


def _add_and_norm(run: _Pass, part: str, x: Tensor, residual: Tensor) -> Tensor:
    """Apply the last steps of attention or a feed-forward part, with its adapter, if any."""
    norm, dense, p = f"{part}.LayerNorm", f"{part}.dense", run.model.config.hidden_dropout_prob
    down, up = down_and_up(part)
    adapters, fused = run.model.adapters, run.model.fused
    if f"{down}.weight" not in run.model.parameters:
        adapters = None
    if fused is not None and adapters is None:
        y = _product(run, dense, x)
        mask = None if run.masks is None or p == 0.0 else run.masks.draw(y.shape[1:], p)
        vectors = [_vector(run, name) for name in (f"{norm}.weight", f"{norm}.bias")]
        return fused.added_and_normed(y, _vector(run, f"{dense}.bias"), mask, residual, *vectors)
    x = _dropped(run, _linear(run, dense, x), p)
    if adapters is not None:
        if adapters.type == "houlsby":
            bottleneck = functional.gelu(_linear(run, down, x), approximate="tanh")
        else:
            bottleneck = torch.relu(_linear(run, down, _layer_norm(run, norm, x + residual)))
        x = x + _linear(run, up, bottleneck)
    return _layer_norm(run, norm, x + residual)


def _linear(run: _Pass, module: str, x: Tensor) -> Tensor:
    """Return ``[k, t, o]`` for an input ``[k, t, i]``.

    A product may be bfloat16; biases are added in float32, whether or not runs share them.
    """
    y, bias = _product(run, module, x), f"{module}.bias"
    # The keys' bias has no effect.
    if not is_key_bias(bias):
        y = y + _vector(run, bias)
    _show(run, module, x, y)
    return y


def _product(run: _Pass, module: str, x: Tensor) -> Tensor:
    """Return a module's product ``[k, t, o]``, without its bias."""
    match weight := run.weight(f"{module}.weight"):
        case PerRun(values):
            return stacked_linear(x, values)
        case SparseEntries():
            return sparse_linear(x, weight)
        case LowRankUpdate(lora_a, lora_b):
            shared = run.model.parameters[f"{module}.weight"]
            return functional.linear(x, shared) + x @ lora_a.mT @ lora_b.mT
    return functional.linear(x, _shared(weight))


def _layer_norm(run: _Pass, module: str, x: Tensor) -> Tensor:
    weight, bias = (_vector(run, f"{module}.{part}") for part in ("weight", "bias"))
    normalised = functional.layer_norm(x, x.shape[-1:], eps=run.model.config.layer_norm_eps)
    y = torch.addcmul(bias, normalised, weight)
    _show(run, module, x, y)
    return y


def _vector(run: _Pass, name: str) -> Tensor:
    """Return a shared vector as it is, ``[h]``, and each run's own as ``[k, 1, h]``."""
    vector = run.weight(name)
    return vector.values[:, None] if isinstance(vector, PerRun) else _shared(vector)


def _shared(weight: Weight) -> Tensor:
    assert isinstance(weight, Tensor), f"{type(weight).__name__} cannot train here"
    return weight


def _dropped(run: _Pass, x: Tensor, p: float) -> Tensor:
    return x if run.masks is None or p == 0.0 else x * run.masks.draw(x.shape[1:], p)


def _show(run: _Pass, module: str, x: Tensor, y: Tensor) -> None:
    if run.watch is not None:
        run.watch(module, x, y)
