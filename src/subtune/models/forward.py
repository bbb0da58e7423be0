"""Batches without padding, and the forward pass of runs side by side.

A batch holds the tokens of all examples, one example after the other. Only attention compares
tokens, within an example. This module computes models of packed families,
`subtune.models.transformers_pass` all others.

Runs share a weight, or each run has its own (`subtune.models.operations`). All runs read the same
batch under the same dropout masks, so their results are equal up to the first weight that differs.
Before that weight ``k`` is 1, and from that weight on the number of runs. Except for rounding, a
run's result does not depend on the others.

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
    from_grid,
    grid_of,
    sparse_embedding,
    sparse_linear,
    to_grid,
)
from subtune.selections.added import down_and_up
from subtune.tasks.examples import Examples

# The number of padding tokens that cost as much time on a CPU as one more pass.
TOKENS_OF_A_PASS = {"cpu": 200}
# The number of pairs of slots that cost as much time on a CPU as one more grid. On a GPU every
# batch has one grid, because starting a kernel costs more than a short batch's work.
PAIRS_OF_A_GRID = {"cpu": 8000}
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

    ``example`` ``[t]``: the example of each token. ``first`` ``[n]``: each example's first token.
    ``reads`` ``[q]``: indices of the tokens that the head reads, or None if it reads each example's
    first token only. ``read_of`` ``[q]``: the example of each token that the head reads.
    ``labels``: for examples ``[n]`` numbers, ``[n, 2]`` positions or ``[n, o]`` of 0 and 1, or for
    read tokens ``[q]``. ``grids``: attention's grids, which together hold every example once, in
    order. ``longest``: the number of tokens of the longest example.
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
        examples: the examples of a split.
        index: indices of examples, in order. Examples sorted by length need the smallest grids.
        model: the model, which decides the device and the grids' attention heads.
    """
    lengths = examples.lengths[index]
    first = lengths.cumsum() - lengths
    numbers = np.arange(len(index))
    example = numbers.repeat(lengths)
    reads, read_of = None, numbers
    if examples.reads is not None:
        positions = [examples.reads[number] for number in index]
        read_of = numbers.repeat([len(places) for places in positions])
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
        grids=tuple(grid_of(part, model.config.num_attention_heads, tensor) for part in alike),
        longest=int(lengths.max()),
    )


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
    means = torch.segment_reduce(by_token, "mean", lengths=batch.read_of.bincount())
    return means.transpose(0, 1)


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
    cost = TOKENS_OF_A_PASS.get(model.device.type)
    if model.transformers is None or cost is None:
        return [index]
    counts = [len(part) for part in parts(lengths, cost, power=1)]
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
    return x if reads is None else x.index_select(1, reads)


def _embedded(run: _Pass) -> Tensor:
    """Return the tokens' embeddings ``[1, t, h]``."""
    batch = run.batch
    start = first_position(run.model.config.model_type, run.model.config.pad_token_id)
    types = torch.zeros_like(batch.ids) if batch.token_type_ids is None else batch.token_type_ids
    ids = {
        WORDS: batch.ids,
        "embeddings.position_embeddings": batch.positions + start,
        "embeddings.token_type_embeddings": types,
    }
    words, positions, types = (_embedding(run, name, ids[name]) for name in ids)
    x = (words + types + positions)[None]
    for name in ids:
        _show(run, name, ids[name], x)
    return x


def _embedding(run: _Pass, module: str, ids: Tensor) -> Tensor:
    match table := run.weight(f"{module}.weight"):
        case SparseEntries():
            return sparse_embedding(ids, table)
        case TableRows(values, rows):
            return functional.embedding(torch.searchsorted(rows, ids), values)
    return functional.embedding(ids, _shared(table))


def _layer(run: _Pass, layer: str, x: Tensor, first_only: bool) -> Tensor:
    """Return a layer's output ``[k, t, h]``, or only first tokens ``[k, n, h]``."""
    asking = x.index_select(1, run.batch.first) if first_only else x
    readers = (("attention.self.query", asking), (KEY, x), ("attention.self.value", x))
    projected = [_linear(run, f"{layer}.{component}", read) for component, read in readers]
    runs = max(map(len, projected))
    query, key, value = (each.expand(runs, -1, -1) for each in projected)
    attended = _attention(run, query, key, value)
    attended = _add_and_norm(run, f"{layer}.attention.output", attended, asking)
    between = _linear(run, f"{layer}.intermediate.dense", attended)
    between = activation(run.model.config.hidden_act)(between)
    return _add_and_norm(run, f"{layer}.output", between, attended)


def _attention(run: _Pass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return ``[k, t, h]`` for queries of all tokens, ``[k, n, h]`` for queries of first tokens."""
    grids = run.batch.grids
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
    norm = f"{part}.LayerNorm"
    x = _dropped(run, _linear(run, f"{part}.dense", x), run.model.config.hidden_dropout_prob)
    down, up = down_and_up(part)
    adapters = run.model.adapters
    if adapters is not None and f"{down}.weight" in run.model.parameters:
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
    weight, bias_name = run.weight(f"{module}.weight"), f"{module}.bias"
    match weight:
        case PerRun(values):
            y = x @ values.mT
        case SparseEntries():
            y = sparse_linear(x, weight)
        case LowRankUpdate(lora_a, lora_b):
            shared = run.model.parameters[f"{module}.weight"]
            y = functional.linear(x, shared) + x @ lora_a.mT @ lora_b.mT
        case _:
            y = functional.linear(x, _shared(weight))
    if not is_key_bias(bias_name):
        y = y + _over_tokens(run.weight(bias_name))
    _show(run, module, x, y)
    return y


def _layer_norm(run: _Pass, module: str, x: Tensor) -> Tensor:
    weight, bias = (_over_tokens(run.weight(f"{module}.{part}")) for part in ("weight", "bias"))
    normalised = functional.layer_norm(x, x.shape[-1:], eps=run.model.config.layer_norm_eps)
    y = torch.addcmul(bias, normalised, weight)
    _show(run, module, x, y)
    return y


def _over_tokens(vector: Weight) -> Tensor:
    """Return a shared vector as it is, ``[h]``, and each run's own as ``[k, 1, h]``."""
    return vector.values[:, None] if isinstance(vector, PerRun) else _shared(vector)


def _shared(weight: Weight) -> Tensor:
    assert isinstance(weight, Tensor), f"{type(weight).__name__} cannot train here"
    return weight


def _dropped(run: _Pass, x: Tensor, p: float) -> Tensor:
    return x if run.masks is None or p == 0.0 else x * run.masks.draw(x.shape[1:], p)


def _show(run: _Pass, module: str, x: Tensor, y: Tensor) -> None:
    if run.watch is not None:
        run.watch(module, x, y)
