"""Attention in buckets and on jagged tensors beside attention within one example at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subtune.models.attention import bucket_attention, jagged_attention, make_bucket, pad, unpad

RUNS, HEADS, WIDTH = 2, 3, 12
LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def plain(query, key, value):
    """Return attention ``[k, q, h]`` of one example."""
    query, key, value = (
        x.unflatten(2, (HEADS, -1)).transpose(1, 2).double() for x in (query, key, value)
    )
    weights = (query @ key.mT / (WIDTH / HEADS) ** 0.5).softmax(-1)
    return (weights @ value).transpose(1, 2).flatten(2).float()


def drawn(lengths):
    generator = torch.Generator().manual_seed(sum(lengths))
    return torch.randn(3, RUNS, sum(lengths), WIDTH, generator=generator)


@settings(max_examples=40)
@given(LENGTHS)
def test_without_padding_padded_tokens_are_the_tokens(lengths):
    bucket = make_bucket(np.array(lengths), HEADS, torch.from_numpy)
    tokens = drawn(lengths)[0]
    padded = pad(tokens, bucket)
    assert padded.shape == (RUNS * len(lengths) * HEADS, max(lengths), WIDTH // HEADS)
    assert torch.equal(unpad(padded, bucket), tokens)


@pytest.mark.parametrize("first_only", [False, True])
@settings(max_examples=40)
@given(LENGTHS)
def test_examples_attend_as_if_they_were_alone(first_only, lengths):
    query, key, value = drawn(lengths)
    counts = np.array(lengths)
    starts = torch.from_numpy(counts.cumsum() - counts)
    queries = [1 if first_only else length for length in lengths]
    if first_only:
        query = query[:, starts]
    pieces = zip(
        query.split(queries, 1), key.split(lengths, 1), value.split(lengths, 1), strict=True
    )
    expected = torch.cat([plain(*piece) for piece in pieces], 1)
    bucket = make_bucket(counts, HEADS, torch.from_numpy)
    in_bucket = bucket_attention(query, key, value, bucket, None, 0.0)
    torch.testing.assert_close(in_bucket, expected, rtol=1e-4, atol=1e-5)
    jagged = jagged_attention(query, key, value, HEADS, starts, max(lengths), 0.0)
    torch.testing.assert_close(jagged, expected, rtol=1e-4, atol=1e-5)
