"""Selections of parameters: the interface of every kind, and whole tensors by patterns of names.

The classifier trains under every selection, so a selection names parameters of the encoder only.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from subtune.core.errors import SubtuneError
from subtune.core.ids import Value
from subtune.methods.roles import is_classifier, is_norm

# Tensor name to the rank of each of its entries, from 0.
Ranks = Mapping[str, np.ndarray]
# Canonical name to shape of every parameter of a model, with those of the classifier.
Shapes = Mapping[str, Sequence[int]]
Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
LAYER_RANGE = re.compile(r"(\d+)-(\d*)")
LAYER_NUMBER = re.compile(r"\.\d+\.")
# No model has more layers. A regular expression lists every layer of a range.
MAX_LAYERS = 99


@dataclass(frozen=True)
class Whole:
    """A tensor that trains whole."""


@dataclass(frozen=True, eq=False)
class Indices:
    """A tensor that trains in part: the indices of its trained entries after flattening, sorted."""

    flat: np.ndarray | range


@dataclass(frozen=True)
class LowRank:
    """A matrix that trains by a low-rank update, which is multiplied by ``scale``."""

    rank: int
    scale: float


Entry = Whole | Indices | LowRank
# Tensor name to the entries that train. Frozen tensors are left out.
Entries = dict[str, Entry]


def count_trained(entries: Entries, shapes: Shapes) -> int:
    """Return how many numbers train."""
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


class Work(Enum):
    """The most expensive thing that a selection trains.

    The value is the cost of a training step in forward passes. A backward pass computes gradients
    of the layers' inputs, and of matrices if they train. A frozen encoder needs no backward pass.
    """

    NOTHING = 1.0
    VECTORS = 2.0
    ENTRIES = 2.1
    LOW_RANK = 2.3
    MATRICES = 3.0
    # Diff pruning trains all matrices, and then some entries.
    DIFFERENCES = 5.1

    @property
    def trains_matrices(self) -> bool:
        """True if matrices train, whole or in part."""
        return self in (Work.ENTRIES, Work.MATRICES, Work.DIFFERENCES)


class AbstractSelection(Value):
    """A choice of an encoder's parameters that train, as data.

    The first field's name tells one kind of selection from the others.
    """

    # What `work` returns, if it is the same for all selections of a kind.
    usual_work: ClassVar[Work]

    def resolve(self, shapes: Shapes, seed: int, ranks: Ranks | None = None) -> Entries:
        """Return the entries that train, with those of the classifier.

        Args:
            shapes: the shape of every parameter, by canonical name.
            seed: the seed of random draws.
            ranks: the ranks in the selection's ``ranking``, if it has one.

        Raises:
            SubtuneError: the model lacks a parameter that is selected.
        """
        classifier = dict.fromkeys(filter(is_classifier, shapes), Whole())
        entries = self.encoder_entries(shapes, seed, ranks or {})
        for name, entry in entries.items():
            if isinstance(entry, Indices) and len(shapes[name]) > 2:
                raise SubtuneError(f"selection: {name!r} is no matrix, and can only train whole")
        return entries | classifier

    @abstractmethod
    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        """Return the encoder's entries that train, given the arguments of `resolve`."""

    def work(self) -> Work:
        """Return the most expensive thing that trains."""
        return self.usual_work

    @abstractmethod
    def describe(self) -> str:
        """Describe in one line what trains in addition to the classifier."""

    @property
    def ranking(self) -> str | None:
        """The content id of the ranking whose first entries train, if there is one."""
        return None


def match_names(patterns: Iterable[str], shapes: Shapes) -> list[str]:
    """Return the encoder's tensors whose names match a pattern, in the model's order.

    Raises:
        SubtuneError: a pattern matches no tensor of this model.
    """
    names = [name for name in shapes if not is_classifier(name)]
    expressions = {pattern: _compile_pattern(pattern) for pattern in patterns}
    for pattern, expression in expressions.items():
        if not any(map(expression.fullmatch, names)):
            hint = _hint_vectors(pattern, {name: shapes[name] for name in names})
            raise SubtuneError(
                f"selection: pattern {pattern!r} matches no parameter of the model{hint}"
            )
    return [name for name in names if any(e.fullmatch(name) for e in expressions.values())]


def _hint_vectors(pattern: str, shapes: Shapes) -> str:
    """Return a hint that lists the model's vectors.

    If the pattern matches in other layers, its range of layers is wrong, and the hint is empty.
    """
    in_any_layer = ".".join("*" if LAYER_RANGE.fullmatch(p) else p for p in pattern.split("."))
    if any(map(_compile_pattern(in_any_layer).fullmatch, shapes)):
        return ""
    vectors = (LAYER_NUMBER.sub(".*.", name) for name in shapes if len(shapes[name]) == 1)
    return f", whose vectors are {', '.join(dict.fromkeys(vectors))}"


def list_patterns(patterns: Iterable[str]) -> str:
    """Return patterns as a line of text."""
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
    """Whole tensors whose names match ``parameters`` and do not match ``without``.

    In a pattern ``*`` stands for one dotted part of a name and ``**`` for any number of parts.
    ``4-8`` or ``4-`` is a range of layers, counted from 0, both ends included.
    """

    parameters: Patterns
    without: Patterns | None = None

    def names(self, shapes: Shapes) -> list[str]:
        """Return the names of the encoder's tensors that train, in the model's order.

        Raises:
            SubtuneError: a pattern matches no tensor of this model.
        """
        left_out = set(match_names(self.without or (), shapes))
        return [name for name in match_names(self.parameters, shapes) if name not in left_out]

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return dict.fromkeys(self.names(shapes), Whole())

    def work(self) -> Work:
        if set(self.parameters) <= set(self.without or ()):
            return Work.NOTHING
        # A pattern is read like a name: its last parts tell biases and norms.
        vectors = (name.endswith(".bias") or is_norm(name) for name in self.parameters)
        return Work.VECTORS if all(vectors) else Work.MATRICES

    def describe(self) -> str:
        if "**" in (self.without or ()):
            return "nothing"
        without = f" without {list_patterns(self.without)}" if self.without else ""
        return list_patterns(self.parameters) + without


def require_whole(selection: AbstractSelection) -> WholeTensors:
    """Return the selection if it selects whole tensors.

    Raises:
        SubtuneError: the selection is of another kind.
    """
    if not isinstance(selection, WholeTensors):
        raise SubtuneError(f"found {selection.describe()}; expected whole parameters")
    return selection
