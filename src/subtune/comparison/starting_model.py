"""The model of a first configuration."""

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from subtune.comparison import DEFAULTS
from subtune.comparison.user_table import make_name
from subtune.config.fields import HUB_MODELS, REPOSITORY
from subtune.core.errors import SubtuneError, cut, placed
from subtune.core.ids import Value
from subtune.data.sources import SPECIAL_TOKENS, TOKENS_PER_WORD
from subtune.data.text_files import is_directory
from subtune.methods.names import METHODS
from subtune.models.dimensions import AnyDimensions, count_parameters, known_dimensions
from subtune.models.files import (
    Pooling,
    lacks_pooler,
    longest_text,
    package_directory,
    read_config,
)
from subtune.models.tokenizer import read_tokenizer, unknown_share
from subtune.runs.spec import Labels
from subtune.tasks import TaskSpec


class StartingModel(Value):
    """A model of a configuration.

    Attributes:
        source: the key of the model in the configuration.
        reference: the value of this key: a repository, a directory or a package.
        reason: the reason for the choice of the model, in words.
    """

    source: Literal["hub", "path", "package"]
    reference: str
    reason: str

    @property
    def name(self) -> str:
        """Return the model's name in the configuration."""
        if self.reference in DEFAULTS.model.values():
            return "minilm"
        last = Path(self.reference).resolve().name if self.source == "path" else self.reference
        return make_name(last.rpartition("/")[2], (), "model")

    @property
    def directory(self) -> Path | None:
        """Return the directory of the model's files, or None if they are not on this machine."""
        if self.source == "package":
            return package_directory(self.reference)
        return Path(self.reference) if self.source == "path" else None

    @cached_property
    def dimensions(self) -> AnyDimensions | None:
        """Return the model's dimensions, or None if they are unknown until it is downloaded."""
        return known_dimensions(str(self.directory or self.reference))

    @cached_property
    def pooling(self) -> Pooling | None:
        """Return the pooling that the model needs: ``mean`` if it lacks a pooler."""
        return "mean" if self.directory and lacks_pooler(self.directory) else None

    @property
    def hidden_size(self) -> int:
        """Return the model's width or, if it is unknown, the width of most encoders."""
        if self.dimensions:
            return self.dimensions.hidden_size
        return DEFAULTS.hidden_sizes.get(self.reference, DEFAULTS.unknown_hidden_size)

    @property
    def labels(self) -> Labels:
        """Return the setting `labels` of a regression.

        Labels are standardised if the classifier has a bias, or if its dimensions are unknown.
        """
        if self.dimensions is None:
            return "standard"
        *_, last = self.dimensions.shapes(outputs=1)
        return "standard" if last.endswith(".bias") else "raw"

    @property
    def longest_text(self) -> int:
        """Return the largest `max_length` that the model and the library allow."""
        if not self.directory:
            return DEFAULTS.longest_window
        return min(longest_text(read_config(self.directory)), DEFAULTS.longest_window)

    def token_counts(self, texts: Sequence[tuple[str, ...]]) -> tuple[np.ndarray, float]:
        """Count the tokens of each row of a sample, with special tokens.

        Without a local tokenizer, tokens are estimated from the number of words, as in English.

        Args:
            texts: one or two texts per row.

        Returns:
            The numbers of tokens in ascending order, and the share of unknown tokens.

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

    def problems_by_method(self, methods: Iterable[str], task: TaskSpec) -> Mapping[str, str]:
        """Return each method that selects parameters which the model lacks, with its error.

        If the model's dimensions are unknown, no method is returned.
        """
        if self.dimensions is None:
            return {}
        selections = {method: METHODS[method] for method in methods}
        counts = count_parameters({self.name: self.dimensions}, selections, task.outputs)
        problems = counts.dropna(subset="problem")
        return dict(zip(problems["method"], problems["problem"], strict=True))


def find_starting_model(name: str | None) -> StartingModel:
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
            read_config(package_directory(name))
            return StartingModel(source="package", reference=name, reason="an installed package")
    if not re.match(REPOSITORY, name) or Path(name).exists():
        raise SubtuneError(
            f"--model: found {cut(name)!r}, expected an existing directory, an installed "
            "package, or a repository on the hub such as google-bert/bert-base-cased"
        )
    hub = HUB_MODELS.get(name, name)
    return StartingModel(source="hub", reference=hub, reason="it is downloaded from the hub")
