"""Lengths of texts in tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

import numpy as np

from subtune.data.sizes import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.init.defaults import DEFAULTS
from subtune.models.configuration import MANY
from subtune.models.files import TOKENIZER
from subtune.tasks import TaskSpec


def token_counts(task: TaskSpec, columns: Mapping[str, list], directory: Path | None) -> np.ndarray:
    """Return the tokens of each row of a sample, special ones included, in ascending order.

    Args:
        columns: of the training rows, as the task's kind has them.
        directory: the model's. Without a tokenizer in it, tokens are guessed from English words.

    Raises:
        SubtuneError: the tokenizer's file cannot be read.
    """
    step = -(-len(columns["label"]) // DEFAULTS.rows_measured)
    sample = {name: values[::step] for name, values in columns.items()}
    if has_tokenizer(directory):
        # Importing the library of data sets takes a second.
        from subtune.data.tokens import read_tokenizer

        encoded = task.of_kind.encode(read_tokenizer(directory), sample, MANY, None)
        return np.sort([len(ids) for ids in encoded["input_ids"]])
    words = [sum(len(text.split()) for text in texts) for texts in task.of_kind.texts(sample)]
    return np.sort(np.ceil(SPECIAL_TOKENS + TOKENS_PER_WORD * np.array(words)).astype(int))


def has_tokenizer(directory: Path | None) -> TypeGuard[Path]:
    """Return whether a model's tokenizer is here."""
    return directory is not None and (directory / TOKENIZER).is_file()


def window(counts: np.ndarray, longest: int) -> int:
    """Return the tokens of a window that cuts almost no text, at most ``longest``.

    Args:
        counts: tokens of each text.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    return min(-(-needed // multiple) * multiple, longest)
