"""Attention within the examples of a packed batch, without padding or in buckets.

A packed batch holds the tokens of all examples, one example after the other. Attention compares the
tokens of one example with each other. A GPU has kernels that do this for packed tokens
(`jagged_attention`). A CPU has only batched products of equally long examples. Therefore
neighbouring examples of similar length form a *bucket*. For attention alone, they are padded to the
longest of them (`bucket_attention`). Here two buckets have two examples each::

    tokens of a batch       a a a b b c c c c d d d d d      [k, t, h]
                            └─ s = 5 ─┘└───── s = 9 ─────┘

    padded buckets          a a a          c c c c ·         [k·m·a, l, d]
                            b b ·          d d d d d
                            m = 2, l = 3   m = 2, l = 5

Each head reads ``d`` of a token's ``h`` numbers, so a bucket has one such picture per run and head.

Shapes: ``k`` runs, ``t`` tokens of the batch, ``h`` = ``a·d`` numbers per token, ``a`` heads, ``d``
numbers per token and head; in one bucket ``m`` examples, ``s`` tokens, ``l`` tokens of the longest
example.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.models.operations import DropoutMasks, to_product_dtype


@dataclass(frozen=True)
class Bucket:
    """Neighbouring examples of a batch that are padded to the longest of them for attention.

    Attributes:
        examples: the number ``m`` of examples.
        tokens: the number ``s`` of their tokens, without padding.
        longest: the number ``l`` of tokens of the longest example.
        heads: the number ``a`` of attention heads.
        padding: ``[m·a, 1, l]``, the same for every head: 0 at an example's tokens, -inf behind
            them. Added to attention scores.
        places: ``[s·a]``, for each head of each token its index among the ``m·a·l`` places of the
            padded bucket.
    """

    examples: int
    tokens: int
    longest: int
    heads: int
    padding: Tensor
    places: Tensor


def make_bucket(lengths: np.ndarray, heads: int, tensor: Callable[[np.ndarray], Tensor]) -> Bucket:
    """Return the bucket of neighbouring examples.

    Args:
        lengths: the number of tokens of each example.
        heads: the number of attention heads.
        tensor: copies an array to the model's device.
    """
    longest = int(lengths.max())
    is_token = np.arange(longest) < lengths[:, None]
    # One of each per token, in the order of the batch.
    example, position = is_token.nonzero()
    index = example[:, None], np.arange(heads), position[:, None]
    padding = np.where(is_token, np.float32(0), np.float32("-inf"))
    return Bucket(
        examples=len(lengths),
        tokens=len(example),
        longest=longest,
        heads=heads,
        padding=tensor(padding.repeat(heads, axis=0)[:, None]),
        places=tensor(np.ravel_multi_index(index, (len(lengths), heads, longest)).ravel()),
    )


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
