"""The reference for question answering: a transformers model on padded windows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerFast

# Numbers of tokens, as in the published SQuAD code of BERT.
LONGEST_QUESTION = 64
LONGEST_ANSWER = 30


class Span(NamedTuple):
    """An answer in a context.

    ``start`` is its first character, and ``score`` the sum of its start and end logits.
    """

    text: str
    start: int
    score: float


def best_spans(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    rows: Sequence[Mapping],
    max_length: int,
    doc_stride: int,
) -> list[Span]:
    """Find the best answer to each question.

    Args:
        model: a model for question answering, in evaluation mode.
        rows: examples with ``question`` and ``context``.
        max_length: maximum tokens per window, with the question and special tokens.
        doc_stride: number of tokens between the starts of two windows.
    """
    best = []
    for row in rows:
        encoded = windows(tokenizer, row["question"], row["context"], max_length, doc_stride)
        spans = _spans(model, encoded, row["context"])
        best.append(max(spans, key=lambda span: span.score))
    return best


def windows(
    tokenizer: PreTrainedTokenizerFast,
    question: str,
    context: str,
    max_length: int,
    doc_stride: int,
) -> BatchEncoding:
    """Tokenize a question with each window of its context, padded to ``max_length``."""
    question = _cut(tokenizer, question)
    specials = tokenizer.num_special_tokens_to_add(pair=True)
    asked = tokenizer(question, add_special_tokens=False)["input_ids"]
    room = max_length - len(asked) - specials
    # In the tokenizer, "stride" is the number of tokens that two windows share.
    shared = room - min(doc_stride, room)
    return tokenizer(
        question,
        context,
        truncation="only_second",
        max_length=max_length,
        stride=shared,
        padding="max_length",
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


def _cut(tokenizer: PreTrainedTokenizerFast, question: str) -> str:
    """Truncate a question to `LONGEST_QUESTION` tokens; return it as text."""
    encoded = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
    tokens = encoded["input_ids"][:LONGEST_QUESTION]
    if not tokens:
        return question
    question = question[: encoded["offset_mapping"][len(tokens) - 1][1]]
    assert tokenizer(question, add_special_tokens=False)["input_ids"] == tokens
    return question


@torch.no_grad()
def _spans(model: PreTrainedModel, encoded: BatchEncoding, context: str) -> Iterator[Span]:
    """Yield all spans of at most `LONGEST_ANSWER` context tokens, for every window."""
    names = [name for name in encoded if name in ("input_ids", "attention_mask", "token_type_ids")]
    output = model(**{name: torch.tensor(encoded[name]) for name in names})
    for window, offsets in enumerate(encoded["offset_mapping"]):
        parts = encoded.sequence_ids(window)
        tokens = [token for token, part in enumerate(parts) if part == 1]
        starts, ends = output.start_logits[window].tolist(), output.end_logits[window].tolist()
        for first in tokens:
            for last in tokens:
                if first <= last < first + LONGEST_ANSWER:
                    start, end = offsets[first][0], offsets[last][1]
                    yield Span(context[start:end], start, starts[first] + ends[last])
