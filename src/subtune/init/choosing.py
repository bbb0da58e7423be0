"""Settings of training for tables and a model: learning rates, epochs, seeds, window."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

import numpy as np

from subtune.data.sizes import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.init.defaults import DEFAULTS
from subtune.models.files import TOKENIZER


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
    rows: int, windows: Sequence[int], hidden_size: int, methods: Iterable[str], seeds: int
) -> Iterator[Settings]:
    """Yield settings for a table and a model, the best first and the quickest last.

    At first methods of few parameters have more epochs than the others. Then there are fewer
    epochs, then shorter windows, then fewer methods, then fewer rows, at last still fewer epochs
    and the shortest window.

    Args:
        rows: that a run can train on.
        windows: tokens of a text, from the longest window.
        hidden_size: the model's.
        methods: the methods that the model has parameters for.
        seeds: how many runs each method has.
    """
    rates = {m: learning_rates(DEFAULTS.methods[m]["learning_rates"], hidden_size) for m in methods}
    parts = [rows]
    while parts[-1] // 2 >= DEFAULTS.fewest_rows:
        parts.append(parts[-1] // 2)
    usual = [window for window in windows if window > DEFAULTS.shortest["window"]] or windows
    for train_rows in parts:
        size = next(s for s in DEFAULTS.sizes if train_rows <= (s["rows"] or train_rows))
        steps = [(shorter, usual[-1]) for shorter in DEFAULTS.shorter]
        if train_rows == rows:
            steps[:1] = [(DEFAULTS.shorter[0], window) for window in usual]
        if train_rows == parts[-1]:
            steps += [(DEFAULTS.shortest, w) for w in dict.fromkeys((usual[-1], windows[-1]))]
        for shorter, max_length in steps:
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
                first = rows, windows[0], size["epochs"]
                if (train_rows, max_length, epochs) == first and not shorter["without"]:
                    longer = [method for method in rates if method in DEFAULTS.longer["methods"]]
                    for times in DEFAULTS.longer["times"]:
                        yield settings._replace(own_epochs=dict.fromkeys(longer, times * epochs))
                yield settings


def learning_rates(by_width: Mapping[int, list[float]], width: int) -> tuple[float, ...]:
    """Return the learning rates of the width that is nearest to a model's."""
    return tuple(by_width[min(by_width, key=lambda known: abs(known - width))])


def token_counts(texts: Sequence[tuple[str, ...]], directory: Path | None) -> np.ndarray:
    """Return the tokens of each row of a sample, special ones included, in ascending order.

    Args:
        texts: the one or two of each row.
        directory: the model's. Without a tokenizer in it, tokens are guessed from English words.

    Raises:
        SubtuneError: the tokenizer's file cannot be read.
    """
    sample = texts[:: -(-len(texts) // DEFAULTS.rows_measured)]
    if has_tokenizer(directory):
        # Importing the library of data sets takes a second.
        from subtune.data.load import read_tokenizer

        rows = [row if len(row) > 1 else row[0] for row in sample]
        return np.sort([len(row) for row in read_tokenizer(directory).encode_batch(rows)])
    words = [sum(len(text.split()) for text in row) for row in sample]
    return np.sort(np.ceil(SPECIAL_TOKENS + TOKENS_PER_WORD * np.array(words)).astype(int))


def has_tokenizer(directory: Path | None) -> TypeGuard[Path]:
    """Return whether a model's tokenizer is here."""
    return directory is not None and (directory / TOKENIZER).is_file()


def windows(counts: np.ndarray, longest: int) -> list[int]:
    """Return the tokens of a window that cuts almost no text, and of shorter ones that save time.

    These are shorter than a usual text, whose length is what an estimate of time counts.

    Args:
        counts: tokens of each text.
        longest: of the model.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    first = min(-(-needed // multiple) * multiple, longest)
    shorter = [*DEFAULTS.shorter_windows, DEFAULTS.shortest["window"]]
    return [first, *(length for length in shorter if length < min(first, counts.mean()))]
