"""The vocabulary of a tokenizer, compared with the words that its model has."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, one_line


def require_rows(path: Path, fields: Mapping[str, Any]) -> None:
    """Refuse a tokenizer whose vocabulary is larger than its model's.

    Added tokens do not count: padding often has no row in the model, and needs none.

    Args:
        path: of the tokenizer's file.
        fields: of the model's configuration.

    Raises:
        SubtuneError: the file cannot be read, or has words behind the last row of the model.
    """
    with one_line(f"{path} is not a readable tokenizer, expected JSON with model.vocab"):
        words = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
        # The file has words with their numbers, or in order.
        last = max(words.values(), default=-1) if isinstance(words, dict) else len(words) - 1
    if last >= rows_of(fields, last + 1):
        raise too_large(path, last, fields)


def rows_of(fields: Mapping[str, Any], default: int) -> int:
    """Return how many words a model has, by the fields of its configuration."""
    return fields.get("vocab_size") or default


def too_large(path: Path, number: int, fields: Mapping[str, Any]) -> SubtuneError:
    """Return the error of a tokenizer with a word behind the last row of its model."""
    return SubtuneError(
        f"{path}: found a word of number {number}, expected numbers below {fields['vocab_size']}, "
        "the vocab_size of the model"
    )
