"""Packed batches, in which the tokens of all examples are concatenated without padding.

On a GPU, training steps are replayed as CUDA graphs, which need batches of the same shape.
Therefore a *tail* of tokens is appended, to which no example attends and which no head reads.

On a CPU, attention consists of batched products, which need examples of equal length. Therefore
neighbouring examples of similar length form a *bucket*, in which they are padded to the length of
the longest one, but only for attention. Here, a batch has two buckets::

    tokens of a batch       a a a b b c c c c d d d d d      [k, t, h]
                            └─ s = 5 ─┘└───── s = 9 ─────┘
    padded buckets          a a a          c c c c ·         [k·m·a, l, d]
                            b b ·          d d d d d
                            m = 2, l = 3   m = 2, l = 5

For example, a head for token classification reads no word of the text ``2 3``, the word 7 of
``2 7 3``, and three words of ``2 8 9 8 3``. All arrays of the batch are printed below; those with a
fixed shape continue after the bar with the tail. The only bucket is that of a model with one
attention head; each row of its ``padding`` belongs to one example::

    ids               2 3  2 7 3  2 8 9 8 3  |  2
    positions         0 1  0 1 2  0 1 2 3 4  |  0
    example           0 0  1 1 1  2 2 2 2 2  |  3
    starts            0    2      5          |  10
    reads                    3      6 7 8    |
    read_of                  1      2 2 2    |
    labels                   1      0 1 0    |
    padding           0 0 -inf -inf -inf, 0 0 0 -inf -inf, 0 0 0 0 0
    padded_positions  0 1  5 6 7  10 11 12 13 14

If a head reads more than 15 tokens of a batch with a fixed shape, their number is rounded up, too.
Then ``reads`` ends with zeros, ``read_of`` with ``n`` (here: 3), and ``labels`` with `IGNORED`.

Shapes: ``k`` runs, ``n`` examples, ``t`` tokens of the batch, ``q`` tokens that the head reads,
``o`` outputs, ``h`` = ``a·d`` hidden size, ``a`` attention heads, ``d`` size of a head; in one
bucket ``m`` examples, ``s`` tokens, ``l`` tokens of the longest example.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from subtune.methods.roles import first_position
from subtune.models.encoder import Encoder
from subtune.tasks.examples import IGNORED, Examples

# On a CPU, one more forward pass takes as much time as this number of padding tokens.
TOKENS_PER_PASS = 200
# On a CPU, one more bucket takes as much time as this number of padded attention scores per head.
SCORES_PER_BUCKET = 8000
# In a batch with a fixed shape, the number of tokens is ``m * 2**n``, where ``m`` is between 8 and
# 15. The smallest ``m`` is ``2**EIGHTH_BITS``. On average, the tail is a twentieth of the batch.
EIGHTH_BITS = 3
# In a batch with a fixed shape, the length of the longest example is rounded up. subtune's forward
# pass rounds up to a multiple of `LENGTH` (128), because attention is equally fast for all lengths
# up to 128. transformers' forward pass rounds up to a multiple of only `PADDED_LENGTH`, because it
# spends time on padding.
LENGTH, PADDED_LENGTH = 128, 16
WORD_EMBEDDINGS = "embeddings.word_embeddings"


@dataclass(frozen=True)
class AttentionBucket:
    """Neighbouring examples of a batch that are padded to the same length for attention.

    Attributes:
        examples: the number ``m`` of examples.
        tokens: the number ``s`` of tokens of the examples, without padding.
        longest: the number ``l`` of tokens of the longest example.
        heads: the number ``a`` of attention heads.
        padding: a mask ``[m·a, 1, l]`` that is added to attention scores: 0 for tokens and -inf for
            padding.
        padded_positions: ``[s·a]``, for each pair of a token and a head, the index of the pair
            among the ``m·a·l`` positions of the padded bucket.
    """

    examples: int
    tokens: int
    longest: int
    heads: int
    padding: Tensor
    padded_positions: Tensor


@dataclass(frozen=True)
class PackedBatch:
    """A batch of packed examples.

    Attributes:
        ids: the id of each token, ``[t]``.
        token_type_ids: the type of each token, ``[t]``; None if the model has no token types.
        positions: the position of each token in its example, from 0, ``[t]``. In RoBERTa, the name
            of the padding token in a text has position -1.
        example: the index of each token's example, ``[t]``; ``n`` for tokens of the tail.
        starts: the index of the first token of each example and of the tail, if any, ``[n]`` or
            ``[n + 1]``.
        reads: the indices of the tokens that the head reads, ``[q]``; None for first tokens.
        read_of: the example of each token that the head reads, ``[q]``; ``n`` after the last one.
        labels: classes or numbers ``[n]``, positions ``[n, 2]``, zeros and ones ``[n, o]``, or for
            token classification ``[q]``, `IGNORED` in the tail.
        buckets: the buckets of attention on a CPU, which contain all examples in order, or none.
        examples: the number ``n`` of examples.
        longest: an upper bound of the number of tokens of an example.
    """

    ids: Tensor
    token_type_ids: Tensor | None
    positions: Tensor
    example: Tensor
    starts: Tensor
    reads: Tensor | None
    read_of: Tensor
    labels: Tensor
    buckets: tuple[AttentionBucket, ...]
    examples: int
    longest: int

    @property
    def first_tokens(self) -> Tensor:
        """The index of each example's first token, ``[n]``. The tail is not an example."""
        return self.starts[: self.examples]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the batch: ``n``, ``t``, ``q`` and `longest`."""
        return self.examples, len(self.ids), len(self.read_of), self.longest


def pack_batch(
    examples: Examples, index: np.ndarray, encoder: Encoder, fixed_shape: bool = False
) -> PackedBatch:
    """Pack the examples at ``index`` into one batch on the model's device.

    Buckets have the least padding if examples are sorted by length. With ``fixed_shape``, a tail is
    added, so that most batches have one of a few shapes.
    """
    lengths = examples.lengths[index]
    count, starts = int(lengths.sum()), lengths.cumsum() - lengths
    example = np.arange(len(index)).repeat(lengths)
    position = np.arange(count) - starts[example]
    if encoder.transformers is None and first_position(encoder.config.model_type, 0):
        # As in transformers' RoBERTa, a text can contain the padding token's name. Such tokens have
        # position -1, and positions of other tokens do not count them.
        is_padding = (
            _concatenate(examples.inputs["input_ids"], index) == encoder.config.pad_token_id
        )
        counts = np.append(0, is_padding.cumsum())
        position = np.where(is_padding, -1, position - counts[1:] + counts[starts][example])
    read_of = np.arange(len(index)).repeat(examples.read_counts[index])
    reads = None
    if examples.reads is not None:
        reads = _concatenate(examples.reads, index) + starts[read_of]
    labels = examples.select_labels(index)
    longest, tail, unread = int(lengths.max()), 0, 0
    if fixed_shape:
        size, longest = compute_fixed_size(lengths, int(examples.lengths.max()), encoder)
        tail, starts = size - count, np.append(starts, count)
        # The number of tokens that the head reads is rounded up, unless it is one per example.
        if len(read_of) != len(index):
            unread = round_up(len(read_of)) - len(read_of)
    unlabelled = unread if len(labels) == len(read_of) else 0
    tensor, columns = partial(_to_tensor, encoder.device), dict[str, Tensor]()
    for name, rows in examples.inputs.items():
        ids = _concatenate(rows, index)
        # The tail repeats a token of the batch, because an embedding table may contain only the
        # rows of tokens in the examples.
        columns[name] = tensor(ids, tail, ids[0])
    return PackedBatch(
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


def _concatenate(rows: Sequence[np.ndarray], index: np.ndarray) -> np.ndarray:
    return np.concatenate([rows[number] for number in index]).astype(np.int64)


def _to_tensor(
    device: torch.device, values: np.ndarray, padding: int = 0, value: int = 0
) -> Tensor:
    """Append ``padding`` copies of ``value`` to an array, and move the array to a device."""
    if padding:
        values = np.append(values, np.full(padding, value, values.dtype))
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _make_buckets(lengths: np.ndarray, encoder: Encoder) -> tuple[AttentionBucket, ...]:
    """Split examples into buckets for subtune's forward pass on a CPU; otherwise, return none."""
    if encoder.transformers is not None or encoder.device.type == "cuda":
        return ()
    heads, tensor = encoder.config.num_attention_heads, partial(_to_tensor, encoder.device)
    return tuple(
        make_bucket(tensor(part), tensor(np.arange(len(part)).repeat(part)), int(part.max()), heads)
        for part in split_by_length(lengths, SCORES_PER_BUCKET, power=2)
    )


def compute_fixed_size(lengths: np.ndarray, maximum: int, encoder: Encoder) -> tuple[int, int]:
    """Compute the number of tokens of a batch with a tail, and an upper bound of its lengths."""
    unit = PADDED_LENGTH if encoder.transformers else LENGTH
    longest = min(-(-int(lengths.max()) // unit) * unit, maximum)
    # The tail has at least one token, because attention does not support empty sequences.
    if encoder.transformers:
        return len(lengths) * longest + 1, longest
    size = round_up(int(lengths.sum()) + 1)
    # The tail has at most an eighth of all tokens.
    return size, max(longest, size >> EIGHTH_BITS, 1)


def round_up(count: int) -> int:
    """Round up to a number that is 8 to 15 times a power of 2. Numbers below 8 do not change."""
    unit = 1 << max(0, count.bit_length() - 1 - EIGHTH_BITS)
    return -(-count // unit) * unit


def embedding_rows_read(
    examples: Examples, index: np.ndarray, encoder: Encoder
) -> dict[str, Tensor]:
    """Map an embedding table's canonical name to the ascending indices of the rows that are read.

    Transformers' code may read further rows, so the result is empty for models that run this code.
    """
    if encoder.transformers is not None:
        return {}
    ids = np.unique(_concatenate(examples.inputs["input_ids"], index))
    return {f"{WORD_EMBEDDINGS}.weight": torch.from_numpy(ids).to(encoder.device)}


def average_logits_per_example(logits: Tensor, batch: PackedBatch) -> Tensor:
    """Average logits ``[k, q, o]`` over the tokens of each example, which gives ``[k, n, o]``."""
    # ``index_add`` would sum in an undefined order on a GPU.
    by_token = logits.transpose(0, 1).contiguous()
    numbers = torch.arange(len(batch.starts), device=logits.device)
    lengths = (batch.read_of == numbers[:, None]).sum(1)
    means = torch.segment_reduce(by_token, "mean", lengths=lengths, unsafe=True)
    return means[: batch.examples].transpose(0, 1)


def pack_micro_batches(
    examples: Examples, index: np.ndarray, encoder: Encoder, fixed_shape: bool = False
) -> Iterator[tuple[np.ndarray, PackedBatch]]:
    """Sort a batch by length, split it into micro-batches, and pack each of them.

    If padding changes the model's results, all examples of a micro-batch have the same length.
    Otherwise, a batch is split only for transformers' code on a CPU, and only if this saves more
    time than additional forward passes take.

    Yields:
        The places in ``index`` of the examples of a micro-batch, and the packed micro-batch.
    """
    lengths = examples.lengths[index]
    order = np.argsort(lengths, kind="stable")
    parts = [order]
    if encoder.sees_padding:
        parts = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
    elif encoder.transformers is not None and encoder.device.type == "cpu":
        counts = [len(part) for part in split_by_length(lengths[order], TOKENS_PER_PASS, power=1)]
        parts = np.split(order, np.cumsum(counts)[:-1])
    for places in parts:
        yield places, pack_batch(examples, index[places], encoder, fixed_shape)


def make_bucket(lengths: Tensor, example: Tensor, longest: int, heads: int) -> AttentionBucket:
    """Build a bucket from the ``lengths`` ``[m]`` of neighbouring examples, padded to ``longest``.

    ``example`` has the index of each token's example ``[s]``.
    """
    device, starts = lengths.device, lengths.cumsum(0) - lengths
    is_padding = torch.arange(longest, device=device) >= lengths[:, None]
    padding = torch.zeros(is_padding.shape, device=device).masked_fill(is_padding, -math.inf)
    positions = torch.arange(len(example), device=device) - starts.index_select(0, example)
    rows = example[:, None] * heads + torch.arange(heads, device=device)
    return AttentionBucket(
        examples=len(lengths),
        tokens=len(example),
        longest=longest,
        heads=heads,
        padding=padding[:, None].expand(-1, heads, -1).reshape(-1, 1, longest),
        padded_positions=(rows * longest + positions[:, None]).flatten(),
    )


def make_single_bucket(batch: PackedBatch, heads: int) -> AttentionBucket:
    """Build one bucket with all examples of a batch. The tail counts as a further example.

    The bucket's shape depends only on the shape of the batch.
    """
    lengths = functional.pad(batch.starts, (0, 1), value=len(batch.ids)).diff()
    return make_bucket(lengths, batch.example, batch.longest, heads)


def split_by_length(lengths: np.ndarray, cost: int, power: int) -> list[np.ndarray]:
    """Split a sequence of examples into parts recursively, while a split reduces the total cost.

    Each example costs ``longest ** power``, where ``longest`` is the largest length in its part;
    each part costs ``cost``. For matrix products, ``power`` is 1; for attention, it is 2.
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
