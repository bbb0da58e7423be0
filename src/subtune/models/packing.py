"""Batches without padding: the tokens of all examples, one example after the other.

On a GPU, a training step is repeated as a CUDA graph, which needs batches of the same shape. There
a batch ends with a *tail* of tokens that no example attends to and that no head reads.

Attention compares the tokens of one example with each other. A GPU has kernels that do this for
packed tokens. A CPU has only batched products of equally long examples. Therefore neighbouring
examples of similar length form a *bucket*. For attention alone, they are padded to the longest of
them. Here two buckets have two examples each::

    tokens of a batch       a a a b b c c c c d d d d d      [k, t, h]
                            └─ s = 5 ─┘└───── s = 9 ─────┘

    padded buckets          a a a          c c c c ·         [k·m·a, l, d]
                            b b ·          d d d d d
                            m = 2, l = 3   m = 2, l = 5

Each head reads ``d`` of a token's ``h`` numbers, so a bucket has one such picture per run and head.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``o`` outputs, ``h`` = ``a·d`` numbers per token, ``a`` heads, ``d`` numbers per token and head; in
one bucket ``m`` examples, ``s`` tokens, ``l`` tokens of the longest example.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.models.encoder import Encoder
from subtune.tasks.examples import IGNORED, Examples

# The number of padding tokens that cost as much time on a CPU as one more forward pass.
TOKENS_PER_PASS = 200
# The number of padded attention scores of a head that cost as much time as one more bucket.
SCORES_PER_BUCKET = 8000
# A batch of a fixed shape has 8 to 15 times a power of 2 of tokens, so that the tail is a twentieth
# of the batch on average.
EIGHTH_BITS = 3
# In a batch of a fixed shape, the longest example's length is rounded up to a multiple of these
# numbers: the first in our own pass, where attention takes as long for any length up to 128; the
# second in transformers' code, which computes padding.
LENGTH, PADDED_LENGTH = 128, 16
WORDS = "embeddings.word_embeddings"


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


@dataclass(frozen=True)
class Packed:
    """A batch of packed examples.

    Attributes:
        ids: every token's id, ``[t]``.
        token_type_ids: every token's type, ``[t]``, if the model has types.
        positions: every token's position in its example, from 0, ``[t]``.
        example: every token's example, ``[t]``; ``n`` for the tail.
        starts: the index of the first token of each example, ``[n]``, and of the tail, if there is
            one, ``[n + 1]``.
        reads: indices of the tokens that the head reads, ``[q]``, or None if it reads each
            example's first token. With a tail, the last ones may belong to no example.
        read_of: the example of each token that the head reads, ``[q]``; ``n`` if there is none.
        labels: for each example a number ``[n]``, two positions ``[n, 2]`` or zeros and ones
            ``[n, o]``; or for each token that the head reads a number ``[q]``, `IGNORED` if the
            token belongs to no example.
        buckets: buckets for attention, which hold all examples in order; a GPU needs none.
        examples: the number ``n`` of examples.
        longest: a number that no example exceeds in tokens.
    """

    ids: Tensor
    token_type_ids: Tensor | None
    positions: Tensor
    example: Tensor
    starts: Tensor
    reads: Tensor | None
    read_of: Tensor
    labels: Tensor
    buckets: tuple[Bucket, ...]
    examples: int
    longest: int

    @property
    def first(self) -> Tensor:
        """The index of each example's first token, ``[n]``."""
        return self.starts[: self.examples]

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers that decide the shape of a training step: ``n``, ``t``, ``q``, `longest`."""
        return self.examples, len(self.ids), len(self.read_of), self.longest


def pack(
    examples: Examples, index: np.ndarray, encoder: Encoder, fixed_shape: bool = False
) -> Packed:
    """Return some examples as one batch.

    Args:
        examples: the examples of a split.
        index: indices of the batch's examples. Examples sorted by length need the least padding in
            buckets.
        encoder: the model that will compute the batch, on the device of the batch.
        fixed_shape: whether to add a tail of unused tokens. Then most batches have one of a few
            shapes.
    """
    lengths = examples.lengths[index]
    count, starts = int(lengths.sum()), lengths.cumsum() - lengths
    example = np.arange(len(index)).repeat(lengths)
    position = np.arange(count) - starts[example]
    reads, read_of = _find_tokens_read(examples, index, starts)
    labels = examples.labels_at(index)
    longest, tail, unread = int(lengths.max()), 0, 0
    if fixed_shape:
        size, longest = fixed_size(lengths, int(examples.lengths.max()), encoder)
        tail, starts = size - count, np.append(starts, count)
        # The number of tokens that the head reads is rounded up, unless it is one per example.
        if len(read_of) != len(index):
            unread = round_up(len(read_of)) - len(read_of)
    unlabelled = unread if len(labels) == len(read_of) else 0
    tensor, columns = partial(_to_tensor, encoder.device), dict[str, Tensor]()
    for name, rows in examples.inputs.items():
        ids = _concatenate(rows, index)
        # The tail repeats a token, because a table may have no other rows.
        columns[name] = tensor(ids, tail, ids[0])
    return Packed(
        ids=columns["input_ids"],
        token_type_ids=columns.get("token_type_ids"),
        positions=tensor(position, tail),
        example=tensor(example, tail, len(index)),
        starts=tensor(starts),
        reads=None if reads is None else tensor(reads, unread),
        read_of=tensor(read_of, unread, len(index)),
        labels=tensor(labels, unlabelled, IGNORED),
        buckets=_make_buckets(lengths, encoder),
        examples=len(index),
        longest=longest,
    )


def _find_tokens_read(
    examples: Examples, index: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return ``reads`` and ``read_of`` of `Packed`, without a tail."""
    numbers = np.arange(len(index))
    if examples.reads is None:
        return None, numbers
    positions = [examples.reads[number] for number in index]
    read_of = numbers.repeat([len(places) for places in positions])
    return _concatenate(examples.reads, index) + starts[read_of], read_of


def _concatenate(rows: Sequence[np.ndarray], index: np.ndarray) -> np.ndarray:
    """Return the numbers of some rows, one row after the other."""
    return np.concatenate([rows[number] for number in index]).astype(np.int64)


def _to_tensor(
    device: torch.device, values: np.ndarray, padding: int = 0, value: int = 0
) -> Tensor:
    """Return an array on a device, with ``padding`` copies of a value at its end."""
    if padding:
        values = np.append(values, np.full(padding, value, values.dtype))
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _make_buckets(lengths: np.ndarray, encoder: Encoder) -> tuple[Bucket, ...]:
    """Return the buckets in which our own forward pass computes attention on a CPU."""
    if encoder.transformers is not None or encoder.device.type == "cuda":
        return ()
    heads, tensor = encoder.config.num_attention_heads, partial(_to_tensor, encoder.device)
    pieces = split_by_length(lengths, SCORES_PER_BUCKET, power=2)
    return tuple(make_bucket(piece, heads, tensor) for piece in pieces)


def fixed_size(lengths: np.ndarray, maximum: int, encoder: Encoder) -> tuple[int, int]:
    """Return the number of tokens of a batch of a fixed shape, and of its longest sequence.

    The tail counts as tokens and as a sequence.

    Args:
        lengths: the number of tokens of each example of the batch.
        maximum: the largest number of tokens of any example of the split.
        encoder: the model.
    """
    unit = PADDED_LENGTH if encoder.transformers else LENGTH
    longest = min(-(-int(lengths.max()) // unit) * unit, maximum)
    # The tail has a token at least, because attention wants no sequence without tokens.
    if encoder.transformers:
        return len(lengths) * longest + 1, longest
    size = round_up(int(lengths.sum()) + 1)
    # The tail has at most an eighth of all tokens.
    return size, max(longest, size >> EIGHTH_BITS, 1)


def round_up(count: int) -> int:
    """Return the smallest number from ``count`` on that is 8 to 15 times a power of 2."""
    unit = 1 << max(0, count.bit_length() - 1 - EIGHTH_BITS)
    return -(-count // unit) * unit


def rows_read(examples: Examples, index: np.ndarray, encoder: Encoder) -> dict[str, Tensor]:
    """Return the rows of embedding tables that examples read, in ascending order, by table name.

    Transformers' code may read other rows; its tables are left out.
    """
    if encoder.transformers is not None:
        return {}
    ids = np.unique(_concatenate(examples.inputs["input_ids"], index))
    return {f"{WORDS}.weight": torch.from_numpy(ids).to(encoder.device)}


def mean_per_example(logits: Tensor, batch: Packed) -> Tensor:
    """Return logits ``[k, q, o]`` averaged over each example's tokens, ``[k, n, o]``."""
    # Adding by index has no defined order on a GPU.
    by_token = logits.transpose(0, 1).contiguous()
    numbers = torch.arange(len(batch.starts), device=logits.device)
    lengths = (batch.read_of == numbers[:, None]).sum(1)
    means = torch.segment_reduce(by_token, "mean", lengths=lengths, unsafe=True)
    return means[: batch.examples].transpose(0, 1)


def micro_batches(index: np.ndarray, lengths: np.ndarray, encoder: Encoder) -> list[np.ndarray]:
    """Split a batch if padding costs more time than further forward passes.

    If padding changes the model's results, all examples of a micro-batch have the same length.

    Args:
        index: indices of the batch's examples. Examples sorted by length need the least padding.
        lengths: the number of tokens of each of these examples.
        encoder: the model; our own forward pass has no padding, and needs no split.
    """
    if encoder.transformers is not None and encoder.transformers.sees_padding:
        return np.split(index, np.flatnonzero(np.diff(lengths)) + 1)
    if encoder.transformers is None or encoder.device.type != "cpu":
        return [index]
    counts = [len(piece) for piece in split_by_length(lengths, TOKENS_PER_PASS, power=1)]
    return np.split(index, np.cumsum(counts)[:-1])


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


def bucket_of_all(batch: Packed, heads: int) -> Bucket:
    """Return one bucket with all examples of a batch, and with its tail as one more example.

    It is made on the batch's device, and its shape depends on the batch's shape alone.
    """
    tokens, device, longest = len(batch.ids), batch.ids.device, batch.longest
    lengths = functional.pad(batch.starts, (0, 1), value=tokens).diff()
    is_padding = torch.arange(longest, device=device) >= lengths[:, None]
    padding = torch.zeros(is_padding.shape, device=device).masked_fill(is_padding, -math.inf)
    positions = torch.arange(tokens, device=device) - batch.starts.index_select(0, batch.example)
    rows = batch.example[:, None] * heads + torch.arange(heads, device=device)
    return Bucket(
        examples=len(batch.starts),
        tokens=tokens,
        longest=longest,
        heads=heads,
        padding=padding[:, None].expand(-1, heads, -1).reshape(-1, 1, longest),
        places=(rows * longest + positions[:, None]).flatten(),
    )


def split_by_length(lengths: np.ndarray, cost: int, power: int) -> list[np.ndarray]:
    """Split a sequence of examples while a split saves more work in padding than it costs.

    Args:
        lengths: the number of tokens of each example.
        cost: the cost of one more piece, in the unit of the work.
        power: the work of each example, as a power of the longest length in its piece: 1 for
            matrices, which multiply padded tokens; 2 for attention, which compares them in pairs.
    """
    longest_before = np.maximum.accumulate(lengths)[:-1]
    longest_after = np.maximum.accumulate(lengths[::-1])[::-1][1:]
    count = np.arange(1, len(lengths))
    in_two = count * longest_before**power + (len(lengths) - count) * longest_after**power
    if len(lengths) == 1 or len(lengths) * lengths.max() ** power - in_two.min() < cost:
        return [lengths]
    cut = int(in_two.argmin()) + 1
    first, second = lengths[:cut], lengths[cut:]
    return split_by_length(first, cost, power) + split_by_length(second, cost, power)
