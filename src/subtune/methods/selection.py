"""The interface of all kinds of selection, and the selection of whole tensors by name patterns.

The classifier is always trained. A selection therefore names only parameters of the encoder.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from subtune.core.errors import SubtuneError, suggest_name
from subtune.core.ids import HashableModel
from subtune.methods.roles import is_classifier, is_norm

# Maps a tensor's name to the ascending indices of its trained entries in the flattened tensor.
Mask = Mapping[str, np.ndarray]
# Maps the canonical name of each parameter of a model, including the classifier, to its shape.
Shapes = Mapping[str, Sequence[int]]
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
LAYER_RANGE = re.compile(r"(\d+)-(\d*)")
# The start of a pattern for parameters in layers.
BEFORE_ROLE = re.compile(r"^encoder\.layer\.[^.]+\.")
LAYER_NUMBER = re.compile(r"\.\d+\.")
# The largest layer number in a pattern. A limit is needed, because the regular expression of a
# range lists every layer.
MAX_LAYERS = 99


@dataclass(frozen=True)
class Whole:
    """A tensor whose entries are all trained."""


@dataclass(frozen=True, eq=False)
class Indices:
    """A tensor whose entries ``flat`` (ascending indices of the flattened tensor) are trained."""

    flat: np.ndarray | range


@dataclass(frozen=True)
class LowRank:
    """A frozen matrix with a trained low-rank update, which is multiplied by ``scale``."""

    rank: int
    scale: float


Entry = Whole | Indices | LowRank
# Maps the name of each trained tensor to its trained entries. Frozen tensors are left out.
Entries = dict[str, Entry]


def count_trained_parameters(entries: Entries, shapes: Shapes) -> int:
    """Count the trained parameters of a model."""
    total = 0
    for name, entry in entries.items():
        match entry:
            case Whole():
                total += math.prod(shapes[name])
            case Indices(flat):
                total += len(flat)
            case LowRank(rank):
                total += rank * sum(shapes[name])
    return total


class TrainingCost(Enum):
    """The most expensive kind of parameter that a selection trains.

    Its value is ``cost of a training step / cost of a forward pass``. The backward pass computes
    the gradients of the layers' inputs and, if matrices are trained, the gradients of the matrices.
    A frozen encoder needs no backward pass.
    """

    NOTHING = 1.0
    VECTORS = 2.0
    LOW_RANK = 2.3
    # The gradient of the whole matrix is computed, but the optimizer updates fewer values.
    ENTRIES = 2.9
    MATRICES = 3.0
    # Diff pruning trains all matrices first, and then some of their entries.
    DIFFERENCES = 5.9

    @property
    def trains_matrices(self) -> bool:
        """Whether whole matrices or some of their entries are trained."""
        return self in (TrainingCost.ENTRIES, TrainingCost.MATRICES, TrainingCost.DIFFERENCES)


class AbstractSelection(HashableModel):
    """A description of the encoder's parameters that a method trains.

    Each kind of selection is a subclass with a field of its own in a configuration, such as
    ``lora``.
    """

    # The result of `work` for kinds whose selections all have the same cost.
    usual_work: ClassVar[TrainingCost]

    def resolve(self, shapes: Shapes, seed: int, mask: Mask | None = None) -> Entries:
        """Return the trained entries of a model, including those of the classifier.

        Args:
            shapes: the shape of every parameter, by canonical name.
            seed: the seed of random draws.
            mask: the trained entries, if the selection is a mask.

        Raises:
            SubtuneError: the model lacks a selected parameter, or only some entries of a tensor
                with more than two dimensions are selected.
        """
        classifier = dict.fromkeys(filter(is_classifier, shapes), Whole())
        entries = self.select_encoder_entries(shapes, seed, mask or {})
        for name, entry in entries.items():
            if isinstance(entry, Indices) and len(shapes[name]) > 2:
                raise SubtuneError(
                    f"selection: {name!r} has more than two dimensions; select the whole tensor"
                )
        return entries | classifier

    @abstractmethod
    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        """Return the trained entries of the encoder. `resolve` describes the arguments."""

    def work(self) -> TrainingCost:
        return self.usual_work

    @abstractmethod
    def describe(self, names: Collection[str] | None = None) -> str:
        """Describe in one line what is trained in addition to the classifier.

        With ``names``, only patterns that match one of these parameters are listed, without the
        layer. Selections that cannot differ between layers ignore ``names``.
        """

    @property
    def mask_name(self) -> str | None:
        """The name of the selection's mask; None if the selection is not a mask."""
        return None


def match_names(patterns: Collection[str], shapes: Shapes) -> list[str]:
    """Return the names of tensors that match a pattern. A pattern without a match is an error."""
    names = [name for name in shapes if not is_classifier(name)]
    for pattern in patterns:
        if not any(map(_compile_pattern(pattern).fullmatch, names)):
            hint = _suggest_names(pattern, {name: shapes[name] for name in names})
            raise SubtuneError(
                f"selection: pattern {pattern!r} matches no parameter of the model{hint}"
            )
    return [name for name in names if matches_any(name, patterns)]


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name matches at least one pattern."""
    return any(_compile_pattern(pattern).fullmatch(name) for pattern in patterns)


def _suggest_names(pattern: str, shapes: Shapes) -> str:
    """Format the end of a message: a similar name or all vectors, unless only layers are wrong."""
    in_any_layer = ".".join("*" if LAYER_RANGE.fullmatch(p) else p for p in pattern.split("."))
    if any(map(_compile_pattern(in_any_layer).fullmatch, shapes)):
        return ""
    dimensions = {LAYER_NUMBER.sub(".*.", name): len(shape) for name, shape in shapes.items()}
    vectors = ", ".join(name for name in dimensions if dimensions[name] == 1)
    return suggest_name(in_any_layer, [*dimensions], cutoff=0.8) or f", whose vectors are {vectors}"


def format_patterns(patterns: Iterable[str] | None, names: Collection[str] | None = None) -> str:
    """Join patterns with commas. For ``names``, see `AbstractSelection.describe`."""
    patterns = patterns or ()
    if names is not None:
        here = [pattern for pattern in patterns if any(matches_any(n, [pattern]) for n in names)]
        patterns = [BEFORE_ROLE.sub("", pattern) for pattern in here]
    return ", ".join("every parameter" if pattern == "**" else pattern for pattern in patterns)


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    parts = []
    for part in pattern.split("."):
        if part == "**":
            parts.append(r"[^.]+(\.[^.]+)*")
        elif layers := LAYER_RANGE.fullmatch(part):
            first, last = (int(end) if end else MAX_LAYERS for end in layers.groups())
            numbers = range(first, min(last, MAX_LAYERS) + 1)
            parts.append("(" + "|".join(map(str, numbers)) + ")")
        else:
            parts.append(re.escape(part).replace(r"\*", "[^.]*"))
    return re.compile(r"\.".join(parts))


class WholeTensors(AbstractSelection):
    """Whole tensors with names that match ``parameters`` but not ``without``.

    The parts of a name are separated by dots. In a pattern, ``*`` stands for any characters within
    one part, and ``**`` for one or more parts. ``4-8`` and ``4-`` are ranges of layers. Layers are
    counted from 0, and a range includes both ends.
    """

    parameters: Patterns
    without: Patterns | None = None

    def names(self, shapes: Shapes) -> list[str]:
        """Return the names of the selected tensors, as `match_names` does."""
        left_out = set(match_names(self.without or (), shapes))
        return [name for name in match_names(self.parameters, shapes) if name not in left_out]

    def select_encoder_entries(self, shapes: Shapes, seed: int, mask: Mask) -> Entries:
        return dict.fromkeys(self.names(shapes), Whole())

    def work(self) -> TrainingCost:
        if set(self.parameters) <= set(self.without or ()):
            return TrainingCost.NOTHING
        # The end of a pattern shows whether the pattern selects only biases or norms.
        vectors = (name.endswith(".bias") or is_norm(name) for name in self.parameters)
        return TrainingCost.VECTORS if all(vectors) else TrainingCost.MATRICES

    def describe(self, names: Collection[str] | None = None) -> str:
        if "**" in (self.without or ()):
            return "nothing"
        parts = format_patterns(self.parameters, names), format_patterns(self.without, names)
        return " without ".join(filter(None, parts)) or "nothing"


def require_whole(selection: AbstractSelection) -> WholeTensors:
    """Return a selection of whole tensors; raise a `SubtuneError` for another kind."""
    if not isinstance(selection, WholeTensors):
        raise SubtuneError(
            f"found a method that trains {selection.describe()}, expected one that trains whole "
            "parameters"
        )
    return selection
