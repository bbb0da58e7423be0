"""A tokenizer in one file: made of the files that older models have, and compared with a model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subtune.core.errors import SubtuneError, reason_of


def convert(directory: Path, name: str, vocabulary: Sequence[str]) -> None:
    """Write the file ``name`` into a directory with the files of a vocabulary.

    Raises:
        SubtuneError: transformers cannot make one of what is there.
    """
    # Planning, which reads no vocabulary, does without what takes seconds to import.
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        tokenizer.backend_tokenizer.save(str(directory / name))
    except Exception as error:  # what transformers raises here is of many kinds
        # Tiktoken is what transformers tries last, whatever the files are.
        reason = "" if "tiktoken" in str(error) else f": {reason_of(error)}"
        raise SubtuneError(
            f"{directory} has no {name}, and none can be made of {' and '.join(vocabulary)}{reason}"
        ) from None


def require_rows(path: Path, fields: Mapping[str, Any]) -> None:
    """Refuse a tokenizer whose vocabulary is not that of a model.

    What was added to the vocabulary does not count: padding often has no row, and needs none.

    Args:
        path: of the tokenizer's file.
        fields: of the model's configuration.

    Raises:
        SubtuneError: it cannot be read, or has words behind the last row of the model's.
    """
    try:
        words = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
        # Words with their numbers, or in order.
        last = max(words.values(), default=-1) if isinstance(words, dict) else len(words) - 1
        has_rows = last < rows_of(fields, last + 1)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise SubtuneError(
            f"{path} is not a readable tokenizer, expected JSON with model.vocab"
        ) from None
    if not has_rows:
        raise too_large(path, last, fields)


def rows_of(fields: Mapping[str, Any], default: int) -> int:
    """How many words a model has, by the fields of its configuration."""
    return fields.get("vocab_size") or default


def too_large(path: Path, number: int, fields: Mapping[str, Any]) -> SubtuneError:
    """A tokenizer has a word of a number that the model has no row for."""
    return SubtuneError(
        f"{path}: found a word of number {number}, expected numbers below {fields['vocab_size']}, "
        "the vocab_size of the model"
    )
