"""The forward pass of runs side by side.

Runs share a weight, or each run has its own (`subtune.models.operations`). All runs read the same
batch under the same dropout masks, so their states are equal up to the first weight that differs.
Before that weight ``k`` is 1, and from that weight on it is the number of runs. Except for
rounding, a run's result does not depend on the others. In bfloat16 on a GPU, attention draws each
run's own dropout masks. This module computes packed families,
`subtune.models.transformers_pass` all others.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``h`` hidden size, ``i`` inputs, ``o`` outputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from subtune.methods.added import adapter_layers
from subtune.methods.roles import KEY, LAYERS, first_position, is_key_bias
from subtune.models.encoder import Encoder
from subtune.models.operations import (
    DropoutMasks,
    LowRankUpdate,
    PerRun,
    Weight,
    activation,
    look_up,
    stacked_linear,
    to_product_dtype,
)
from subtune.models.packing import WORDS, Bucket, Packed, bucket_of_all, mean_per_example

# A function that gets a module's name, input and output.
Watch = Callable[[str, Tensor, Tensor], None]


@dataclass(frozen=True)
class _ForwardPass:
    """The arguments of one forward pass."""

    encoder: Encoder
    trained: Mapping[str, Weight]
    batch: Packed
    masks: DropoutMasks | None
    watch: Watch | None

    def weight(self, name: str) -> Weight:
        return self.trained[name] if name in self.trained else self.encoder.parameters[name]


def logits(
    encoder: Encoder,
    batch: Packed,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
    watch: Watch | None = None,
) -> Tensor:
    """Return logits ``[k, q, o]`` of every run, token that the head reads, and output.

    Args:
        encoder: the model that all runs share.
        batch: the batch that every run reads.
        trained: the weights that replace the model's own tensors, by canonical name.
        masks: dropout masks; without them nothing is dropped.
        watch: a function that is called for every module of a packed family's model, with the
            module's name, its input ``[k, t, i]`` (an embedding's ids ``[t]``) and its output
            ``[k, t, o]``. It may request the output's gradient.
    """
    if encoder.transformers is not None:
        # Transformers' code takes seconds to import; our own pass does not need it.
        from subtune.models.transformers_pass import transformers_logits

        return transformers_logits(encoder, batch, trained, masks)
    p = encoder.config.attention_probs_dropout_prob
    if masks is not None and p and not batch.buckets and not _has_flash_attention(batch.ids.device):
        batch = replace(batch, buckets=(bucket_of_all(batch, encoder.config.num_attention_heads),))
    forward = _ForwardPass(encoder, trained or {}, batch, masks, watch)
    x = _compute_states(forward)
    for layer in encoder.family.heads[encoder.head]:
        x = _apply_dropout(forward, x, layer.dropout_probability(encoder.config))
        x = _apply_linear(forward, layer.module, x)
        x = activation(layer.activation)(x)
    return mean_per_example(x, batch) if encoder.averages else x


def _has_flash_attention(device: torch.device) -> bool:
    """Return whether jagged attention may drop weights.

    Torch's other kernel, for float32 and old GPUs, takes a jagged batch for one without keys when
    it draws dropout. Its backward pass then drops other weights than its forward pass.
    """
    is_short = torch.is_autocast_enabled(device.type)
    return is_short and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def hidden_states(encoder: Encoder, batch: Packed) -> Tensor:
    """Return the last hidden states ``[q, h]`` of the tokens that the batch reads."""
    if encoder.transformers is not None:
        from subtune.models.transformers_pass import transformers_hidden_states

        return transformers_hidden_states(encoder, batch)
    return _compute_states(_ForwardPass(encoder, {}, batch, None, None))[0]


def _compute_states(forward: _ForwardPass) -> Tensor:
    """Return the last hidden states ``[k, q, h]`` of the tokens that the batch reads."""
    config, reads = forward.encoder.config, forward.batch.reads
    x = _apply_layer_norm(forward, "embeddings.LayerNorm", _embed(forward))
    x = _apply_dropout(forward, x, config.hidden_dropout_prob)
    for number in range(config.num_hidden_layers):
        # If the head reads first tokens only, the last layer computes no others.
        last = number == config.num_hidden_layers - 1
        x = _apply_layer(forward, f"{LAYERS}{number}", x, last and reads is None)
    return x[:, : forward.batch.examples] if reads is None else x.index_select(1, reads)


def _embed(forward: _ForwardPass) -> Tensor:
    """Return the tokens' embeddings ``[k, t, h]``."""
    batch = forward.batch
    start = first_position(forward.encoder.config.model_type, forward.encoder.config.pad_token_id)
    types = torch.zeros_like(batch.ids) if batch.token_type_ids is None else batch.token_type_ids
    ids = {
        WORDS: batch.ids,
        "embeddings.position_embeddings": batch.positions + start,
        "embeddings.token_type_embeddings": types,
    }
    words, positions, types = (_look_up_rows(forward, name, ids[name]) for name in ids)
    x = words + types + positions
    for name in ids:
        _call_watch(forward, name, ids[name], x)
    return x


def _look_up_rows(forward: _ForwardPass, module: str, ids: Tensor) -> Tensor:
    """Return an embedding table's rows of all ids, ``[k, t, h]``."""
    match table := forward.weight(f"{module}.weight"):
        case PerRun(values, rows):
            return look_up(ids if rows is None else torch.searchsorted(rows, ids), values)
    return functional.embedding(ids, _require_shared(table))[None]


def _apply_layer(forward: _ForwardPass, layer: str, x: Tensor, first_only: bool) -> Tensor:
    """Return a layer's output: ``[k, t, h]``, or of first tokens only, ``[k, n, h]``.

    The tail has a first token, too.
    """
    asking = x.index_select(1, forward.batch.starts) if first_only else x
    readers = (("attention.self.query", asking), (KEY, x), ("attention.self.value", x))
    projected = [
        _apply_linear(forward, f"{layer}.{component}", read) for component, read in readers
    ]
    runs = max(map(len, projected))
    query, key, value = (each.expand(runs, -1, -1) for each in projected)
    attended = _apply_attention(forward, query, key, value)
    attended = _apply_add_and_norm(forward, f"{layer}.attention.output", attended, asking)
    between, fused = f"{layer}.intermediate.dense", forward.encoder.fused
    if fused is None:
        activated = activation(forward.encoder.config.hidden_act)(
            _apply_linear(forward, between, attended)
        )
    else:
        activated = fused.activated(
            _apply_weight(forward, between, attended), _find_vector(forward, f"{between}.bias")
        )
    return _apply_add_and_norm(forward, f"{layer}.output", activated, attended)


def _apply_attention(forward: _ForwardPass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return attention in the shape of the query: ``[k, t, h]``, or first tokens ``[k, n, h]``."""
    config, batch, buckets = forward.encoder.config, forward.batch, forward.batch.buckets
    p = 0.0 if forward.masks is None else config.attention_probs_dropout_prob
    if not buckets:
        heads = config.num_attention_heads
        return jagged_attention(query, key, value, heads, batch.starts, batch.longest, p)
    tokens = [bucket.tokens for bucket in buckets]
    first_only = query.shape[1] != key.shape[1]
    queries = [bucket.examples for bucket in buckets] if first_only else tokens
    pieces = zip(
        query.split(queries, 1), key.split(tokens, 1), value.split(tokens, 1), buckets, strict=True
    )
    return torch.cat([bucket_attention(*piece, forward.masks, p) for piece in pieces], 1)


def _apply_add_and_norm(forward: _ForwardPass, part: str, x: Tensor, residual: Tensor) -> Tensor:
    """Return the output of attention or of the feed-forward part.

    The last steps of both are a linear layer, dropout, an adapter, if there is one, the residual,
    and LayerNorm.
    """
    norm, dense = f"{part}.LayerNorm", f"{part}.dense"
    p = forward.encoder.config.hidden_dropout_prob
    down, up = adapter_layers(part)
    adapters, fused = forward.encoder.adapters, forward.encoder.fused
    if f"{down}.weight" not in forward.encoder.parameters:
        adapters = None
    if fused is not None and adapters is None:
        y = _apply_weight(forward, dense, x)
        mask = None if forward.masks is None or p == 0.0 else forward.masks.draw(y.shape[1:], p)
        bias = _find_vector(forward, f"{dense}.bias")
        vectors = [_find_vector(forward, name) for name in (f"{norm}.weight", f"{norm}.bias")]
        return fused.added_and_normed(y, bias, mask, residual, *vectors)
    x = _apply_dropout(forward, _apply_linear(forward, dense, x), p)
    if adapters is not None:
        if adapters.type == "houlsby":
            bottleneck = functional.gelu(_apply_linear(forward, down, x), approximate="tanh")
        else:
            bottleneck = torch.relu(
                _apply_linear(forward, down, _apply_layer_norm(forward, norm, x + residual))
            )
        x = x + _apply_linear(forward, up, bottleneck)
    return _apply_layer_norm(forward, norm, x + residual)


def pad(x: Tensor, bucket: Bucket) -> Tensor:
    """Return a bucket's tokens ``[k, s, h]`` with padding of 0, ``[k·m·a, l, d]``."""
    heads_of_tokens = x.unflatten(2, (bucket.heads, -1)).flatten(1, 2)
    runs, _, numbers = heads_of_tokens.shape
    places = x.new_zeros(runs, bucket.examples * bucket.heads * bucket.longest, numbers)
    padded = places.index_copy(1, bucket.places, heads_of_tokens)
    return padded.view(-1, bucket.longest, numbers)


def unpad(x: Tensor, bucket: Bucket) -> Tensor:
    """Return a bucket's tokens ``[k, s, h]`` without their padding: the inverse of `pad`."""
    places = x.reshape(-1, bucket.examples * bucket.heads * bucket.longest, x.shape[2])
    heads_of_tokens = places.index_select(1, bucket.places)
    return heads_of_tokens.unflatten(1, (-1, bucket.heads)).flatten(2)


def bucket_attention(
    query: Tensor, key: Tensor, value: Tensor, bucket: Bucket, masks: DropoutMasks | None, p: float
) -> Tensor:
    """Return attention within the examples of a bucket, in the shape of the query.

    Args:
        query: ``[k, s, h]``, or ``[k, m, h]`` of each example's first token alone.
        key: ``[k, s, h]``.
        value: ``[k, s, h]``.
        bucket: the bucket.
        masks: dropout masks, which all runs share.
        p: the probability that an attention weight is dropped.
    """
    shape, examples_and_heads = query.shape, len(bucket.padding)
    first_only = query.shape[1] == bucket.examples
    key, value = pad(key, bucket), pad(value, bucket)
    # One query per example needs no padding: [k·m·a, 1, d].
    query = query.reshape(len(key), 1, -1) if first_only else pad(query, bucket)
    padding = bucket.padding.to(key.dtype).repeat(shape[0], 1, 1)
    scores = torch.baddbmm(padding, query, key.mT, alpha=query.shape[2] ** -0.5)
    weights = scores.softmax(-1)
    if masks is not None and p:
        of_runs = weights.unflatten(0, (-1, examples_and_heads))
        weights = (of_runs * masks.draw(of_runs.shape[1:], p)).flatten(0, 1)
    attended = weights @ value
    return attended.view(shape) if first_only else unpad(attended, bucket)


def jagged_attention(
    query: Tensor, key: Tensor, value: Tensor, heads: int, starts: Tensor, longest: int, p: float
) -> Tensor:
    """Return attention within examples without padding, in the shape of the query.

    Args:
        query: ``[k, t, h]``, or ``[k, n, h]`` of the first tokens of ``n`` sequences alone.
        key: ``[k, t, h]``.
        value: ``[k, t, h]``.
        heads: the number of attention heads.
        starts: the index of the first token of each sequence, ``[n]``. Every sequence has a token.
        longest: a number that no sequence exceeds in tokens.
        p: the probability that an attention weight is dropped.
    """

    def jagged(x: Tensor, starts: Tensor, longest: int) -> Tensor:
        runs, tokens, _ = x.shape
        first = torch.arange(runs, device=x.device)[:, None] * tokens
        offsets = functional.pad((first + starts).flatten(), (0, 1), value=runs * tokens)
        values = to_product_dtype(x).reshape(runs * tokens, heads, -1)
        nested = torch.nested.nested_tensor_from_jagged(
            values, offsets, min_seqlen=1, max_seqlen=min(longest, len(values))
        )
        return nested.transpose(1, 2)

    keys, values = (jagged(x, starts, longest) for x in (key, value))
    if query.shape[1] == key.shape[1]:
        queries = jagged(query, starts, longest)
    else:
        queries = jagged(query, torch.arange(len(starts), device=starts.device), 1)
    attended = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=p)
    return attended.transpose(1, 2).values().reshape(query.shape)


def _apply_linear(forward: _ForwardPass, module: str, x: Tensor) -> Tensor:
    """Return a linear layer's output ``[k, t, o]``.

    The product may be bfloat16; the bias is added in float32, whether or not runs share it.
    """
    y, bias = _apply_weight(forward, module, x), f"{module}.bias"
    # A key's bias has no effect on attention.
    if not is_key_bias(bias):
        y = y + _find_vector(forward, bias)
    _call_watch(forward, module, x, y)
    return y


def _apply_weight(forward: _ForwardPass, module: str, x: Tensor) -> Tensor:
    """Return a linear layer's output without its bias, ``[k, t, o]``."""
    match weight := forward.weight(f"{module}.weight"):
        case PerRun(values):
            return stacked_linear(x, values)
        case LowRankUpdate(lora_a, lora_b):
            shared = forward.encoder.parameters[f"{module}.weight"]
            return functional.linear(x, shared) + x @ lora_a.mT @ lora_b.mT
    return functional.linear(x, _require_shared(weight))


def _apply_layer_norm(forward: _ForwardPass, module: str, x: Tensor) -> Tensor:
    weight, bias = (_find_vector(forward, f"{module}.{part}") for part in ("weight", "bias"))
    normalised = functional.layer_norm(x, x.shape[-1:], eps=forward.encoder.config.layer_norm_eps)
    y = torch.addcmul(bias, normalised, weight)
    _call_watch(forward, module, x, y)
    return y


def _find_vector(forward: _ForwardPass, name: str) -> Tensor:
    """Return a vector that all runs share, ``[h]``, or each run's own, ``[k, 1, h]``."""
    vector = forward.weight(name)
    return vector.values[:, None] if isinstance(vector, PerRun) else _require_shared(vector)


def _require_shared(weight: Weight) -> Tensor:
    assert isinstance(weight, Tensor), f"{type(weight).__name__} cannot train here"
    return weight


def _apply_dropout(forward: _ForwardPass, x: Tensor, p: float) -> Tensor:
    return x if forward.masks is None or p == 0.0 else x * forward.masks.draw(x.shape[1:], p)


def _call_watch(forward: _ForwardPass, module: str, x: Tensor, y: Tensor) -> None:
    if forward.watch is not None:
        forward.watch(module, x, y)
