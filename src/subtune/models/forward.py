"""The forward pass of several runs side by side, for BERT, RoBERTa and XLM-RoBERTa.

A weight is either shared by all runs or different for each run (`subtune.models.operations`). All
runs read the same batch with the same dropout masks, so their hidden states are equal up to the
first weight that differs. The dimension ``k`` of hidden states is 1 before this weight, and the
number of runs after it. Except for rounding, the result of a run does not depend on the other runs.
There is one exception: in bfloat16 on a GPU, attention draws different dropout masks for each run.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``h`` hidden size, ``i`` inputs, ``o`` outputs. For buckets, see `subtune.models.packing`.
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
    find_activation,
    stacked_linear,
    to_autocast_dtype,
)
from subtune.models.packing import (
    WORD_EMBEDDINGS,
    AttentionBucket,
    PackedBatch,
    average_logits_per_example,
    make_single_bucket,
)

# A function that is called with the name, the input and the output of a module.
Watch = Callable[[str, Tensor, Tensor], None]


@dataclass(frozen=True)
class _ForwardPass:
    encoder: Encoder
    trained: Mapping[str, Weight]
    batch: PackedBatch
    masks: DropoutMasks | None
    watch: Watch | None

    def find_weight(self, name: str) -> Weight:
        """Return the trained weight of this name, or the model's own tensor if there is none."""
        return self.trained[name] if name in self.trained else self.encoder.parameters[name]


def compute_logits(
    encoder: Encoder,
    batch: PackedBatch,
    trained: Mapping[str, Weight] | None = None,
    masks: DropoutMasks | None = None,
    watch: Watch | None = None,
) -> Tensor:
    """Compute the logits of every run, ``[k, q, o]``, with subtune's or transformers' code.

    Args:
        trained: maps canonical names to weights that replace the model's own tensors.
        masks: dropout masks; None means no dropout.
        watch: a function that is called for every module, with the module's name, its input ``[k,
            t, i]`` and its output ``[k, t, o]``, whose gradient the function can retain. The input
            of an embedding table is the ids ``[t]``; its output is the sum of all embeddings.
            Models that run transformers' code do not call the function.
    """
    if encoder.transformers is not None:
        # Transformers' code takes seconds to import, and subtune's forward pass does not need it.
        from subtune.models.transformers_pass import transformers_logits

        return transformers_logits(encoder, batch, trained or {}, masks)
    p = encoder.config.attention_probs_dropout_prob
    if masks is not None and p and not batch.buckets and not _has_flash_attention(batch.ids.device):
        batch = replace(
            batch, buckets=(make_single_bucket(batch, encoder.config.num_attention_heads),)
        )
    forward = _ForwardPass(encoder, trained or {}, batch, masks, watch)
    x = _compute_states(forward)
    for layer in encoder.family.heads[encoder.head]:
        x = _apply_dropout(forward, x, layer.dropout_probability(encoder.config))
        x = _apply_linear(forward, layer.module, x)
        x = find_activation(layer.activation)(x)
    return average_logits_per_example(x, batch) if encoder.averages_logits else x


def _has_flash_attention(device: torch.device) -> bool:
    """Return whether attention on jagged batches uses flash attention, which supports dropout.

    With dropout, torch's other kernel, for float32 and old GPUs, treats a jagged batch as a batch
    without keys, and drops different attention weights in its backward pass than in its forward
    pass.
    """
    is_short = torch.is_autocast_enabled(device.type)
    return is_short and device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)


def compute_hidden_states(encoder: Encoder, batch: PackedBatch) -> Tensor:
    """Compute the last hidden states ``[q, h]`` of ``batch.reads``, by default the first tokens."""
    if encoder.transformers is not None:
        from subtune.models.transformers_pass import transformers_hidden_states

        return transformers_hidden_states(encoder, batch)
    return _compute_states(_ForwardPass(encoder, {}, batch, None, None))[0]


def _compute_states(forward: _ForwardPass) -> Tensor:
    """Compute the last hidden states ``[k, q, h]`` of the tokens that the head reads."""
    config, reads = forward.encoder.config, forward.batch.reads
    x = _apply_layer_norm(forward, "embeddings.LayerNorm", _embed(forward))
    x = _apply_dropout(forward, x, config.hidden_dropout_prob)
    for number in range(config.num_hidden_layers):
        # If the head reads only first tokens, the last layer computes only the states of first
        # tokens.
        last = number == config.num_hidden_layers - 1
        x = _apply_layer(forward, f"{LAYERS}{number}", x, last and reads is None)
    return x[:, : forward.batch.examples] if reads is None else x.index_select(1, reads)


def _embed(forward: _ForwardPass) -> Tensor:
    """Compute the sum of the embeddings of each token, ``[k, t, h]``."""
    batch = forward.batch
    start = first_position(forward.encoder.config.model_type, forward.encoder.config.pad_token_id)
    types = torch.zeros_like(batch.ids) if batch.token_type_ids is None else batch.token_type_ids
    ids = {
        WORD_EMBEDDINGS: batch.ids,
        "embeddings.position_embeddings": batch.positions + start,
        "embeddings.token_type_embeddings": types,
    }
    words, positions, types = (_look_up_rows(forward, name, ids[name]) for name in ids)
    x = words + types + positions
    for name in ids:
        _call_watch(forward, name, ids[name], x)
    return x


def _look_up_rows(forward: _ForwardPass, module: str, ids: Tensor) -> Tensor:
    """Return the rows ``[k, t, h]`` of an embedding table for ids ``[t]``."""
    match table := forward.find_weight(f"{module}.weight"):
        case PerRun(values, rows):
            ids = ids if rows is None else torch.searchsorted(rows, ids)
            # The tables of all runs are looked up as one table.
            first = torch.arange(len(values), device=ids.device) * values.shape[1]
            return functional.embedding(ids + first[:, None], values.flatten(0, 1))
    return functional.embedding(ids, _require_shared(table))[None]


def _apply_layer(forward: _ForwardPass, layer: str, x: Tensor, first_only: bool) -> Tensor:
    """Compute a layer's output ``[k, t, h]``, if ``first_only`` for first tokens and any tail."""
    queries = x.index_select(1, forward.batch.starts) if first_only else x
    readers = (("attention.self.query", queries), (KEY, x), ("attention.self.value", x))
    projected = [
        _apply_linear(forward, f"{layer}.{component}", read) for component, read in readers
    ]
    runs = max(map(len, projected))
    query, key, value = (each.expand(runs, -1, -1) for each in projected)
    attended = _apply_attention(forward, query, key, value)
    attended = _apply_add_and_norm(forward, f"{layer}.attention.output", attended, queries)
    between, fused = f"{layer}.intermediate.dense", forward.encoder.fused
    if fused is None:
        activated = find_activation(forward.encoder.config.hidden_act)(
            _apply_linear(forward, between, attended)
        )
    else:
        activated = fused.add_bias_and_activate(
            _apply_weight(forward, between, attended), _find_vector(forward, f"{between}.bias")
        )
    return _apply_add_and_norm(forward, f"{layer}.output", activated, attended)


def _apply_attention(forward: _ForwardPass, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute attention for queries ``[k, t, h]``, or ``[k, n, h]`` for first tokens only."""
    config, batch, buckets = forward.encoder.config, forward.batch, forward.batch.buckets
    p = 0.0 if forward.masks is None else config.attention_probs_dropout_prob
    if not buckets:
        heads = config.num_attention_heads
        return jagged_attention(query, key, value, heads, batch.starts, batch.longest, p)
    tokens = [bucket.tokens for bucket in buckets]
    first_only = query.shape[1] != key.shape[1]
    queries = [bucket.examples for bucket in buckets] if first_only else tokens
    inputs = zip(
        query.split(queries, 1), key.split(tokens, 1), value.split(tokens, 1), buckets, strict=True
    )
    return torch.cat([bucket_attention(*each, forward.masks, p) for each in inputs], 1)


def _apply_add_and_norm(forward: _ForwardPass, part: str, x: Tensor, residual: Tensor) -> Tensor:
    """Apply a linear layer, dropout, the adapter if any, the residual connection, and LayerNorm."""
    norm, dense = f"{part}.LayerNorm", f"{part}.dense"
    p = forward.encoder.config.hidden_dropout_prob
    down, up = adapter_layers(part)
    adapters, fused = forward.encoder.adapters, forward.encoder.fused
    if f"{down}.weight" not in forward.encoder.parameters:
        adapters = None
    if fused is not None and adapters is None:
        y = _apply_weight(forward, dense, x)
        mask = (
            None if forward.masks is None or p == 0.0 else forward.masks.draw_mask(y.shape[1:], p)
        )
        bias = _find_vector(forward, f"{dense}.bias")
        vectors = [_find_vector(forward, name) for name in (f"{norm}.weight", f"{norm}.bias")]
        return fused.add_residual_and_normalise(y, bias, mask, residual, *vectors)
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


def pad(x: Tensor, bucket: AttentionBucket) -> Tensor:
    """Pad the tokens of a bucket with zeros, which turns ``[k, s, h]`` into ``[k·m·a, l, d]``."""
    heads_of_tokens = x.unflatten(2, (bucket.heads, -1)).flatten(1, 2)
    runs, _, numbers = heads_of_tokens.shape
    zeros = x.new_zeros(runs, bucket.examples * bucket.heads * bucket.longest, numbers)
    padded = zeros.index_copy(1, bucket.padded_positions, heads_of_tokens)
    return padded.view(-1, bucket.longest, numbers)


def unpad(x: Tensor, bucket: AttentionBucket) -> Tensor:
    """Remove the padding that `pad` added, which turns ``[k·m·a, l, d]`` into ``[k, s, h]``."""
    padded = x.reshape(-1, bucket.examples * bucket.heads * bucket.longest, x.shape[2])
    heads_of_tokens = padded.index_select(1, bucket.padded_positions)
    return heads_of_tokens.unflatten(1, (-1, bucket.heads)).flatten(2)


def bucket_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bucket: AttentionBucket,
    masks: DropoutMasks | None,
    p: float,
) -> Tensor:
    """Compute attention within the examples of a bucket, for keys and values ``[k, s, h]``.

    The query and the result are ``[k, s, h]``, or ``[k, m, h]`` for first tokens only. Attention
    weights are dropped with probability ``p``. All runs share the ``masks``.
    """
    shape, examples_and_heads = query.shape, len(bucket.padding)
    first_only = query.shape[1] == bucket.examples
    key, value = pad(key, bucket), pad(value, bucket)
    # If each example has only one query, the queries [k·m·a, 1, d] need no padding.
    query = query.reshape(len(key), 1, -1) if first_only else pad(query, bucket)
    padding = bucket.padding.to(key.dtype).repeat(shape[0], 1, 1)
    scores = torch.baddbmm(padding, query, key.mT, alpha=query.shape[2] ** -0.5)
    weights = scores.softmax(-1)
    if masks is not None and p:
        per_run = weights.unflatten(0, (-1, examples_and_heads))
        weights = (per_run * masks.draw_mask(per_run.shape[1:], p)).flatten(0, 1)
    attended = weights @ value
    return attended.view(shape) if first_only else unpad(attended, bucket)


def jagged_attention(
    query: Tensor, key: Tensor, value: Tensor, heads: int, starts: Tensor, longest: int, p: float
) -> Tensor:
    """Compute attention within sequences without padding, for keys and values ``[k, t, h]``.

    The query and the result are ``[k, t, h]``, or ``[k, n, h]`` for first tokens only. ``starts``
    contains the index of each sequence's first token ``[n]``. No sequence may be empty or longer
    than ``longest``.
    """

    def to_jagged(x: Tensor, starts: Tensor, longest: int) -> Tensor:
        runs, tokens, _ = x.shape
        first = torch.arange(runs, device=x.device)[:, None] * tokens
        offsets = functional.pad((first + starts).flatten(), (0, 1), value=runs * tokens)
        values = to_autocast_dtype(x).reshape(runs * tokens, heads, -1)
        nested = torch.nested.nested_tensor_from_jagged(
            values, offsets, min_seqlen=1, max_seqlen=min(longest, len(values))
        )
        return nested.transpose(1, 2)

    keys, values = (to_jagged(x, starts, longest) for x in (key, value))
    if query.shape[1] == key.shape[1]:
        queries = to_jagged(query, starts, longest)
    else:
        queries = to_jagged(query, torch.arange(len(starts), device=starts.device), 1)
    attended = functional.scaled_dot_product_attention(queries, keys, values, dropout_p=p)
    return attended.transpose(1, 2).values().reshape(query.shape)


def _apply_linear(forward: _ForwardPass, module: str, x: Tensor) -> Tensor:
    """Compute the output of a linear layer, ``[k, t, o]``, with a bias added in float32."""
    y, bias = _apply_weight(forward, module, x), f"{module}.bias"
    # The bias of the key projection is left out, because it does not affect attention weights.
    if not is_key_bias(bias):
        # In float32, the result does not depend on whether runs share the bias.
        y = y + _find_vector(forward, bias)
    _call_watch(forward, module, x, y)
    return y


def _apply_weight(forward: _ForwardPass, module: str, x: Tensor) -> Tensor:
    """Compute the output of a linear layer without its bias, ``[k, t, o]``."""
    match weight := forward.find_weight(f"{module}.weight"):
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
    """Return a vector: ``[h]`` if all runs share it, or ``[k, 1, h]`` if each run has its own."""
    vector = forward.find_weight(name)
    return vector.values[:, None] if isinstance(vector, PerRun) else _require_shared(vector)


def _require_shared(weight: Weight) -> Tensor:
    assert isinstance(weight, Tensor), f"{type(weight).__name__} is not supported for this tensor"
    return weight


def _apply_dropout(forward: _ForwardPass, x: Tensor, p: float) -> Tensor:
    return x if forward.masks is None or p == 0.0 else x * forward.masks.draw_mask(x.shape[1:], p)


def _call_watch(forward: _ForwardPass, module: str, x: Tensor, y: Tensor) -> None:
    if forward.watch is not None:
        forward.watch(module, x, y)
