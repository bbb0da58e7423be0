"""Selections by patterns of names: whole tensors, and low-rank updates (LoRA, Hu et al., 2022)."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated

from pydantic import Field

from subtune.core.content_ids import Value
from subtune.core.errors import SubtuneError
from subtune.families import CANONICAL
from subtune.families.base import is_classifier, is_embedding, is_norm
from subtune.selections.kind import AbstractSelection, Entries, LowRank, Ranks, Shapes, Whole, Work

Patterns = Annotated[tuple[str, ...], Field(min_length=1)]

LAYERS = re.compile(r"(\d+)-(\d*)")
LAYER_NUMBER = re.compile(r"\.\d+\.")
# No encoder has more layers. A regular expression lists every layer of a range.
MAX_LAYERS = 99
# The names that every encoder has, in the most layers that a pattern may name.
EVERY_NAME: Shapes = CANONICAL.shapes(CANONICAL.dimensions({"num_hidden_layers": MAX_LAYERS}))


def matching(patterns: Iterable[str], shapes: Shapes) -> list[str]:
    """Return the encoder's tensors whose names match a pattern, in the model's order.

    Raises:
        SubtuneError: a pattern matches no tensor of this model.
    """
    names = [name for name in shapes if not is_classifier(name)]
    expressions = {pattern: _expression(pattern) for pattern in patterns}
    for pattern, expression in expressions.items():
        if not any(map(expression.fullmatch, names)):
            hint = _vectors(pattern, {name: shapes[name] for name in names})
            raise SubtuneError(
                f"selection: pattern {pattern!r} matches no parameter of the model{hint}"
            )
    return [name for name in names if any(e.fullmatch(name) for e in expressions.values())]


def _vectors(pattern: str, shapes: Shapes) -> str:
    """Return a hint that lists the model's vectors.

    It is empty if other layers have such parameters.
    """
    in_any_layer = ".".join("*" if LAYERS.fullmatch(p) else p for p in pattern.split("."))
    if any(map(_expression(in_any_layer).fullmatch, shapes)):
        return ""
    vectors = (LAYER_NUMBER.sub(".*.", name) for name in shapes if len(shapes[name]) == 1)
    return f", whose vectors are {', '.join(dict.fromkeys(vectors))}"


def listed(patterns: Iterable[str]) -> str:
    """Return patterns as a line of text."""
    return ", ".join("every parameter" if pattern == "**" else pattern for pattern in patterns)


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (r"[^.]+(\.[^.]+)*" if part == "**" else _one_part(part) for part in pattern.split("."))
    return re.compile(r"\.".join(parts))


def _one_part(part: str) -> str:
    layers = LAYERS.fullmatch(part)
    if layers:
        first, last = (int(end) if end else MAX_LAYERS for end in layers.groups())
        return "(" + "|".join(map(str, range(first, min(last, MAX_LAYERS) + 1))) + ")"
    return re.escape(part).replace(r"\*", "[^.]*")


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
        left_out = set(matching(self.without or (), shapes))
        return [name for name in matching(self.parameters, shapes) if name not in left_out]

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        return dict.fromkeys(self.names(shapes), Whole())

    def work(self, of: AbstractSelection | None = None) -> Work:
        if set(self.parameters) <= set(self.without or ()):
            return Work.NOTHING
        return Work.MATRICES if _holds_a_matrix(self) else Work.VECTORS

    def in_words(self) -> str:
        if "**" in (self.without or ()):
            return "nothing"
        without = f" without {listed(self.without)}" if self.without else ""
        return listed(self.parameters) + without


def require_whole(selection: AbstractSelection) -> WholeTensors:
    """Return the selection if it selects whole tensors.

    Raises:
        SubtuneError: it is of another kind.
    """
    if not isinstance(selection, WholeTensors):
        raise SubtuneError(f"found {selection.in_words()}; expected whole parameters")
    return selection


@cache
def _holds_a_matrix(selection: WholeTensors) -> bool:
    """Return whether a matrix trains, judged by the names that every encoder has.

    Patterns that match no such name are judged as if they were names.
    """
    try:
        names: Iterable[str] = selection.names(EVERY_NAME)
    except SubtuneError:
        names = selection.parameters
    return any(not name.endswith(".bias") and not is_norm(name) for name in names)


class LoraSettings(Value):
    """Low-rank updates of the matrices that match ``targets``, scaled by ``alpha / rank``."""

    targets: Patterns
    rank: int = Field(ge=1)
    alpha: float = Field(gt=0)


class Lora(AbstractSelection):
    """Low-rank updates of matrices, and the whole tensors that train beside them."""

    usual_work = Work.LOW_RANK
    lora: LoraSettings
    parameters: Patterns | None = None

    def encoder_entries(self, shapes: Shapes, seed: int, ranks: Ranks) -> Entries:
        lora = self.lora
        entries: Entries = dict.fromkeys(matching(self.parameters or (), shapes), Whole())
        for name in matching(lora.targets, shapes):
            if len(shapes[name]) != 2 or is_embedding(name):
                raise SubtuneError(
                    f"selection: {name!r} is not a linear layer's matrix, as LoRA needs"
                )
            if name in entries:
                raise SubtuneError(
                    f"selection: {name!r} is both a target of LoRA and trained whole"
                )
            entries[name] = LowRank(lora.rank, lora.alpha / lora.rank)
        return entries

    def in_words(self) -> str:
        lora = self.lora
        adapted = f"LoRA (rank {lora.rank}, alpha {lora.alpha:g}) on {listed(lora.targets)}"
        return adapted + (f"; {listed(self.parameters)}" if self.parameters else "")
