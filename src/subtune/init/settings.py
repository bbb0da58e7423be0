"""Choices for tables and a machine: the model, and training settings that fit a time limit."""

import importlib.util
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from subtune.config.schema import HUB_MODELS, REPOSITORY
from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError, cut, placed
from subtune.data.sources import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.init import DEFAULTS
from subtune.init.tables import named_like
from subtune.models.dimensions import AnyDimensions, dimensions_of, parameter_counts
from subtune.models.files import directory_of_package, longest_text, read_config
from subtune.models.tokenizer import read_tokenizer, unknown_share
from subtune.selections.methods import METHODS
from subtune.selections.specs import Labels
from subtune.tasks import TaskSpec
from subtune.tasks.formats import is_directory


class StartingModel(Value):
    """A model of a configuration: the key ``source`` and its value ``reference``.

    ``reason``: the reason for its choice, in words.
    """

    source: Literal["hub", "path", "package"]
    reference: str
    reason: str

    @property
    def name(self) -> str:
        """Return the model's name in the configuration."""
        if self.reference in HUB_MODELS.values():
            return next(name for name, hub in HUB_MODELS.items() if hub == self.reference)
        if self.reference in DEFAULTS.model.values():
            return "minilm"
        last = Path(self.reference).resolve().name if self.source == "path" else self.reference
        return named_like(last.rpartition("/")[2], HUB_MODELS, "model")

    @property
    def directory(self) -> Path | None:
        """Return the directory of the model's files, or None if they are not on this machine."""
        if self.source == "package":
            return directory_of_package(self.reference)
        return Path(self.reference) if self.source == "path" else None

    @cached_property
    def dimensions(self) -> AnyDimensions | None:
        """Return the model's dimensions, or None if they are unknown until it is downloaded."""
        return dimensions_of(str(self.directory or self.reference))

    @property
    def hidden_size(self) -> int:
        """Return the model's width or, if it is unknown, the width of most encoders."""
        if self.dimensions:
            return self.dimensions.hidden_size
        return DEFAULTS.hidden_sizes.get(self.reference, DEFAULTS.unknown_hidden_size)

    @property
    def labels(self) -> Labels:
        """Return the setting `labels` of a regression: standardised labels need a bias in the
        classifier."""
        known = self.dimensions and [*self.dimensions.shapes(outputs=1)][-1]
        return "standard" if not known or known.endswith(".bias") else "raw"

    @property
    def longest_text(self) -> int:
        """Return the largest `max_length` that the model and the library allow."""
        if not self.directory:
            return DEFAULTS.longest_window
        return min(longest_text(read_config(self.directory)), DEFAULTS.longest_window)

    def token_counts(self, texts: Sequence[tuple[str, ...]]) -> tuple[np.ndarray, float]:
        """Return the number of tokens of each row of a sample, with special tokens, in ascending
        order, and the share of unknown tokens.

        Without a local tokenizer, tokens are estimated from the number of words, as in English.

        Args:
            texts: one or two texts per row.

        Raises:
            SubtuneError: the tokenizer cannot be read, or has no token for any word.
        """
        sample = texts[:: -(-len(texts) // DEFAULTS.rows_measured)]
        if self.directory:
            tokenizer = read_tokenizer(self.directory)
            unknown = unknown_share(tokenizer, map(" ".join, sample), self.directory)
            rows = [row if len(row) > 1 else row[0] for row in sample]
            encoded = tokenizer.encode_batch(rows)
            return np.sort([len(tokens) for tokens in encoded]), unknown
        words = [sum(len(text.split()) for text in row) for row in sample]
        return np.sort(np.ceil(SPECIAL_TOKENS + TOKENS_PER_WORD * np.array(words)).astype(int)), 0

    def problems_of(self, methods: Iterable[str], task: TaskSpec) -> Mapping[str, str]:
        """Return the methods that select parameters which the model lacks, each with its error.

        The mapping is empty if the model's dimensions are not known.
        """
        if self.dimensions is None:
            return {}
        selections = {method: METHODS[method] for method in methods}
        counts = parameter_counts({self.name: self.dimensions}, selections, task.outputs)
        problems = counts.dropna(subset="problem")
        return dict(zip(problems["method"], problems["problem"], strict=True))


def model_called(name: str | None) -> StartingModel:
    """Return the model with this name, or the default model.

    Args:
        name: a local directory, an installed package or a repository on the hub.

    Raises:
        SubtuneError: the name is none of these, or the directory or package has no model.
    """
    package = DEFAULTS.model["package"]
    if name is None and importlib.util.find_spec(package):
        reason = "small, good at sentences, and installed here: nothing is downloaded"
        return StartingModel(source="package", reference=package, reason=reason)
    if name is None:
        reason = "small and good at sentences; it is downloaded from the hub"
        return StartingModel(source="hub", reference=DEFAULTS.model["hub"], reason=reason)
    with placed("--model"):
        if is_directory(Path(name)):
            read_config(Path(name))
            return StartingModel(source="path", reference=name, reason="a local directory")
        if name.isidentifier() and importlib.util.find_spec(name):
            read_config(directory_of_package(name))
            return StartingModel(source="package", reference=name, reason="an installed package")
    if not re.match(REPOSITORY, name) or Path(name).exists():
        raise SubtuneError(
            f"--model: found {cut(name)!r}, expected an existing directory, an installed "
            "package, or a repository on the hub such as google-bert/bert-base-cased"
        )
    hub = HUB_MODELS.get(name, name)
    return StartingModel(source="hub", reference=hub, reason="it is downloaded from the hub")


class Settings(NamedTuple):
    """Settings of an experiment.

    ``methods``: methods with the learning rates to try. ``train_rows``: the number of rows that
    a run trains on. ``own_epochs``: epochs of methods that train longer than the others.
    """

    methods: dict[str, tuple[float, ...]]
    seeds: tuple[int, ...]
    epochs: int
    batch_size: int
    max_length: int
    train_rows: int
    own_epochs: Mapping[str, int] = MappingProxyType({})


def choices(
    rows: int,
    windows: Sequence[int],
    hidden_size: int,
    methods: Iterable[str],
    seeds: int,
    least_batch: int = 1,
) -> list[Settings]:
    """Return settings for a table and a model, the best first and the quickest last.

    The first settings give methods of few parameters more epochs than the others. Later ones have
    fewer epochs, then shorter windows, fewer methods, fewer rows, and finally still fewer epochs,
    the shortest window, and one learning rate for each method.

    Args:
        rows: the number of rows that a run can train on.
        windows: values of `max_length`, the longest first.
        hidden_size: the model's hidden size.
        methods: the methods whose parameters the model has.
        seeds: the number of runs of each method.
        least_batch: the smallest batch that uses the machine well; if it leaves fewer than
            `fewest_steps` steps, batches are smaller.
    """
    rates = {}
    for method in methods:
        by_width = DEFAULTS.methods[method]["learning_rates"]
        rates[method] = tuple(by_width[min(by_width, key=lambda width: abs(width - hidden_size))])
    parts = [rows]
    while parts[-1] // 2 >= DEFAULTS.fewest_rows:
        parts.append(parts[-1] // 2)
    usual = [window for window in windows if window > DEFAULTS.shortest_window] or windows
    last = usual[-1]
    steps = [(rows, window, DEFAULTS.shorter[0]) for window in usual[:-1]]
    steps += [(part, last, shorter) for part in parts for shorter in DEFAULTS.shorter]
    fewer, fewest = DEFAULTS.shortest
    steps += [(parts[-1], window, fewer) for window in dict.fromkeys((last, windows[-1]))]
    steps.append((min(rows, fewest["rows"]), windows[-1], fewest))
    found = []
    for train_rows, max_length, shorter in steps:
        size = next(s for s in DEFAULTS.sizes if train_rows <= (s["rows"] or train_rows))
        fewest_epochs, batch_size = math.ceil(shorter["epochs"] * size["epochs"]), least_batch
        while train_rows * fewest_epochs < batch_size * DEFAULTS.fewest_steps:
            batch_size //= 2
        kept = {m: rates[m] for m in rates if m not in shorter["without"]}
        if "rows" in shorter:
            kept = {method: tried[len(tried) // 2 :][:1] for method, tried in kept.items()}
        shortest = Settings(
            methods=kept,
            seeds=tuple(range(seeds)),
            epochs=fewest_epochs,
            batch_size=max(batch_size, size["batch_size"]),
            max_length=max_length,
            train_rows=train_rows,
        )
        found += [shortest._replace(epochs=n) for n in range(size["epochs"], fewest_epochs - 1, -1)]
    best, longer = found[0], [method for method in rates if method in DEFAULTS.longer["methods"]]
    own = (dict.fromkeys(longer, times * best.epochs) for times in DEFAULTS.longer["times"])
    return [*(best._replace(own_epochs=epochs) for epochs in own), *found]


def windows(counts: np.ndarray, longest: int) -> list[int]:
    """Return a `max_length` that cuts almost no text, and smaller ones that save time.

    The smaller ones are below the mean length, which determines the estimated time.

    Args:
        counts: tokens of each text.
        longest: the largest `max_length` of the model.
    """
    needed = int(np.quantile(counts, DEFAULTS.whole_texts, method="higher"))
    multiple = DEFAULTS.window_multiple
    first = min(-(-needed // multiple) * multiple, longest)
    shorter = [*DEFAULTS.shorter_windows, DEFAULTS.shortest_window]
    return [first, *(length for length in shorter if length < min(first, counts.mean()))]


def count_cores() -> int:
    """Return how many cores this process may use."""
    # Only Linux reports the number for a single process.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_jobs_at_once() -> int:
    """Return how many jobs train at the same time: one on a GPU, else one per core."""
    import torch

    return 1 if torch.cuda.is_available() else count_cores()
