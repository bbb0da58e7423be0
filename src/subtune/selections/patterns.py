"""Patterns of parameter names, as `subtune.selections.whole.WholeTensors` describes them."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Annotated

from pydantic import Field

from subtune.core.errors import SubtuneError
from subtune.families.base import is_classifier
from subtune.selections.entries import Shapes

Patterns = Annotated[tuple[str, ...], Field(min_length=1)]

LAYERS = re.compile(r"(\d+)-(\d*)")
LAYER_NUMBER = re.compile(r"\.\d+\.")
# No encoder has more layers. An expression spells out every layer of a range.
MAX_LAYERS = 99


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
    """Return a hint with the model's vectors, one of which may be meant.

    Return nothing if the model has such parameters in other layers.
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
