"""How long texts are, in what a model reads."""

from pathlib import Path
from typing import TypeGuard

import numpy as np

from subtune.data.sizes import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.init.defaults import DEFAULTS
from subtune.models.configuration import MANY, has_token_types, read_config
from subtune.models.files import TOKENIZER
from subtune.tasks import TaskSpec


def token_counts(task: TaskSpec, columns: dict[str, list], directory: Path | None) -> np.ndarray:
    """Tokens of a sample of rows, special ones included, the shortest first.

    Args:
        columns: of the training rows, as the task's kind has them.
        directory: of the model whose tokenizer counts; where there is none, tokens are as many as
            English words usually make.

    Raises:
        SubtuneError: the tokenizer's file cannot be read.
    """
    sample = some_of(columns, DEFAULTS.rows_measured)
    if has_tokenizer(directory):
        return np.sort([len(ids) for ids in encoded(task, sample, directory)["input_ids"]])
    words = [sum(len(text.split()) for text in texts) for texts in task.of_kind.texts(sample)]
    return np.sort(np.ceil(SPECIAL_TOKENS + TOKENS_PER_WORD * np.array(words)).astype(int))


def some_of(columns: dict[str, list], rows: int) -> dict[str, list]:
    """At most so many rows, at equal distances."""
    step = -(-len(columns["label"]) // rows)
    return {name: values[::step] for name, values in columns.items()}


def has_tokenizer(directory: Path | None) -> TypeGuard[Path]:
    """Whether a model's tokenizer is here."""
    return directory is not None and (directory / TOKENIZER).is_file()


def encoded(
    task: TaskSpec, columns: dict[str, list], directory: Path, max_length: int = MANY
) -> dict[str, list]:
    """Examples of some rows, as the task's kind has them."""
    # It imports a library of data sets, which takes a second.
    from subtune.data.tokens import read_tokenizer

    tokenizer, config = read_tokenizer(directory), read_config(directory)
    return task.of_kind.encode(
        tokenizer, columns, max_length, None, with_token_types=has_token_types(config)
    )


def window(counts: np.ndarray, longest: int) -> int:
    """The tokens of a window that holds almost all texts whole, and is no longer than ``longest``.

    Args:
        counts: tokens of each text.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    return min(-(-needed // multiple) * multiple, longest)
