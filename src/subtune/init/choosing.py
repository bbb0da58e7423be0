"""Settings of training for tables and a model: learning rates, epochs, seeds, window."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

import numpy as np

from subtune.data.sources import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.init.defaults import DEFAULTS
from subtune.models.files import MANY, TOKENIZER
from subtune.tasks import TaskSpec


class Settings(NamedTuple):
    """Settings of an experiment.

    ``methods``: each with the learning rates to search. ``train_rows``: those that a run trains on.
    ``own_epochs``: those of methods that train for longer than the others.
    """

    methods: dict[str, tuple[float, ...]]
    seeds: tuple[int, ...]
    epochs: int
    batch_size: int
    max_length: int
    train_rows: int
    own_epochs: Mapping[str, int] = MappingProxyType({})


def choices(
    rows: int, max_length: int, hidden_size: int, methods: Iterable[str], seeds: int
) -> Iterator[Settings]:
    """Yield settings for a table and a model, the best first and the quickest last.

    At first methods of few parameters have more epochs than the others. Then there are fewer
    epochs, then fewer methods, then fewer rows, at last still fewer epochs.

    Args:
        rows: that a run can train on.
        hidden_size: the model's.
        methods: the methods that the model has parameters for.
        seeds: how many runs each method has.
    """
    rates = {m: learning_rates(DEFAULTS.methods[m]["learning_rates"], hidden_size) for m in methods}
    parts = [rows]
    while parts[-1] // 2 >= DEFAULTS.fewest_rows:
        parts.append(parts[-1] // 2)
    for train_rows in parts:
        size = next(s for s in DEFAULTS.sizes if train_rows <= (s["rows"] or train_rows))
        last = [DEFAULTS.shortest] if train_rows == parts[-1] else []
        for shorter in [*DEFAULTS.shorter, *last]:
            fewest = math.ceil(shorter["epochs"] * size["epochs"])
            for epochs in range(size["epochs"], fewest - 1, -1):
                settings = Settings(
                    methods={m: rates[m] for m in rates if m not in shorter["without"]},
                    seeds=tuple(range(seeds)),
                    epochs=epochs,
                    batch_size=size["batch_size"],
                    max_length=max_length,
                    train_rows=train_rows,
                )
                if (train_rows, epochs) == (rows, size["epochs"]) and not shorter["without"]:
                    longer = [method for method in rates if method in DEFAULTS.longer["methods"]]
                    for times in DEFAULTS.longer["times"]:
                        yield settings._replace(own_epochs=dict.fromkeys(longer, times * epochs))
                yield settings


def learning_rates(by_width: Mapping[int, list[float]], width: int) -> tuple[float, ...]:
    """Return the learning rates of the width that is nearest to a model's."""
    return tuple(by_width[min(by_width, key=lambda known: abs(known - width))])


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
        from subtune.data.load import read_tokenizer

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
