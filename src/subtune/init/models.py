"""The model of a first configuration: where it is, and its size."""

import importlib.util
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from subtune.config.schema import HUB_MODELS, REPOSITORY
from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError, cut
from subtune.init.defaults import DEFAULTS
from subtune.init.tables import named_like
from subtune.models.dimensions import AnyDimensions, dimensions_of, parameter_counts
from subtune.models.files import directory_of_package, longest_text, read_config
from subtune.selections.methods import METHODS
from subtune.selections.specs import Labels
from subtune.tasks import TaskSpec
from subtune.tasks.formats import is_directory


class StartingModel(Value):
    """A model as in a configuration: the key ``source`` and its value ``reference``.

    ``reason``: why it was chosen, in words.
    """

    source: Literal["hub", "path", "package"]
    reference: str
    reason: str

    @property
    def name(self) -> str:
        """Return its name in the configuration."""
        if self.reference in HUB_MODELS.values():
            return next(name for name, hub in HUB_MODELS.items() if hub == self.reference)
        if self.reference in DEFAULTS.model.values():
            return "minilm"
        last = Path(self.reference).resolve().name if self.source == "path" else self.reference
        return named_like(last.rpartition("/")[2], HUB_MODELS, "model")

    @property
    def directory(self) -> Path | None:
        """Return the directory of its files, if they are on this machine."""
        if self.source == "package":
            return directory_of_package(self.reference)
        return Path(self.reference) if self.source == "path" else None

    @cached_property
    def dimensions(self) -> AnyDimensions | None:
        """Return its dimensions, or None if they are not known before it is downloaded."""
        return dimensions_of(str(self.directory or self.reference))

    @property
    def hidden_size(self) -> int:
        """Return its width, or that of most encoders if it is not known."""
        if self.dimensions:
            return self.dimensions.hidden_size
        return DEFAULTS.hidden_sizes.get(self.reference, DEFAULTS.unknown_hidden_size)

    @property
    def labels(self) -> Labels:
        """Return the labels of a regression: standardised ones need a classifier with a bias."""
        known = self.dimensions and [*self.dimensions.shapes(outputs=1)][-1]
        return "standard" if not known or known.endswith(".bias") else "raw"

    @property
    def longest_text(self) -> int:
        """Return the tokens of the longest window that it and the library take."""
        if not self.directory:
            return DEFAULTS.longest_window
        return min(longest_text(read_config(self.directory)), DEFAULTS.longest_window)


def model_called(name: str | None) -> StartingModel:
    """Return the model with this name, or the default model.

    Args:
        name: a local directory, an installed package or a repository on the hub.

    Raises:
        SubtuneError: it is none of these, or the directory or package has no model.
    """
    package = DEFAULTS.model["package"]
    if name is None and importlib.util.find_spec(package):
        reason = "small, good at sentences, and installed here: nothing is downloaded"
        return StartingModel(source="package", reference=package, reason=reason)
    if name is None:
        reason = "small and good at sentences; it is downloaded from the hub"
        return StartingModel(source="hub", reference=DEFAULTS.model["hub"], reason=reason)
    try:
        if is_directory(Path(name)):
            read_config(Path(name))
            return StartingModel(source="path", reference=name, reason="a local directory")
        if Path(name).exists():
            raise SubtuneError(f"found the file {name!r}, expected a directory")
        if name.isidentifier() and importlib.util.find_spec(name):
            read_config(directory_of_package(name))
            return StartingModel(source="package", reference=name, reason="an installed package")
    except SubtuneError as error:
        raise SubtuneError(f"--model: {error}") from None
    if not re.match(REPOSITORY, name):
        raise SubtuneError(
            f"--model: found {cut(name)!r}, expected an existing directory, an installed "
            "package, or a repository on the hub such as google-bert/bert-base-cased"
        )
    hub = HUB_MODELS.get(name, name)
    return StartingModel(source="hub", reference=hub, reason="it is downloaded from the hub")


def without_parameters(
    model: StartingModel, task: TaskSpec, methods: Iterable[str]
) -> Mapping[str, str]:
    """Return the methods that select parameters that a model does not have, each with its error.

    For a model whose dimensions are not known, there are none.
    """
    if model.dimensions is None:
        return {}
    selections = {method: METHODS[method] for method in methods}
    counts = parameter_counts({model.name: model.dimensions}, selections, task.outputs)
    problems = counts.dropna(subset="problem")
    return dict(zip(problems["method"], problems["problem"], strict=True))
