"""Selections: which parameters of a model train, said in data.

The classifier always trains, whatever the selection; so a selection speaks of the encoder alone.
"""

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fnmatch import translate
from functools import cache
from typing import NamedTuple

import numpy as np

from subtune.errors import SubtuneError
from subtune.models.families import CANONICAL
from subtune.specs import Draw, Lines, Lora, Parameters, Random, Selection

CLASSIFIER = ("classifier.weight", "classifier.bias")

Shapes = Mapping[str, Sequence[int]]


class LowRankUpdate(NamedTuple):
    """A matrix that trains by an update of low rank, multiplied by ``scale``."""

    rank: int
    scale: float


Entries = dict[str, np.ndarray | LowRankUpdate | None]

LAYERS = re.compile(r"(\d+)-(\d*)")
MOST_LAYERS = 99


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = []
    for part in pattern.split("."):
        parts.append(r"[^.]+(\.[^.]+)*" if part == "**" else _one_part(part))
    return re.compile(r"\.".join(parts))


def _one_part(part: str) -> str:
    layers = LAYERS.fullmatch(part)
    if layers:
        first, last = (int(end) if end else MOST_LAYERS for end in layers.groups())
        return "(" + "|".join(map(str, range(first, last + 1))) + ")"
    # fnmatch's "*" crosses dots, so that "layer.*.output" would match "layer.0.attention.output".
    inner = translate(part).removeprefix("(?s:")
    # Python 3.14 ends a translation with \z, earlier ones with \Z.
    return inner.removesuffix(r")\Z").removesuffix(r")\z").replace(".*", "[^.]*")


def matching(patterns: Sequence[str], shapes: Shapes) -> list[str]:
    """Names of the encoder's tensors that any pattern matches, in the model's order.

    Raises:
        SubtuneError: a pattern matches no tensor of this model.
    """
    names = [name for name in shapes if name not in CLASSIFIER]
    for pattern in patterns:
        if not any(_expression(pattern).fullmatch(name) for name in names):
            raise SubtuneError(f"selection: pattern {pattern!r} matches no parameter of the model")
    return [name for name in names if any(_expression(p).fullmatch(name) for p in patterns)]


def selected(parameters: Parameters, shapes: Shapes) -> list[str]:
    """Names of the encoder's tensors that train, in the model's order.

    Raises:
        SubtuneError: a pattern matches no tensor of this model.
    """
    taken = set(matching(parameters.without or (), shapes))
    return [name for name in matching(parameters.parameters, shapes) if name not in taken]


def selects_matrices(parameters: Parameters) -> bool:
    """Whether a selection holds a matrix, judged by the names that every encoder has.

    Raises:
        SubtuneError: a pattern matches none of those names.
    """
    names = selected(parameters, dict.fromkeys(CANONICAL.names(MOST_LAYERS), ()))
    return any(name.endswith(".weight") and not CANONICAL.is_norm(name) for name in names)


class Work(Enum):
    """What a selection trains, and what its training step costs in units of the forward pass.

    The way back computes gradients of what layers read, and where matrices train, theirs too. Of a
    frozen encoder there is no way back.
    """

    NOTHING = 1.0
    VECTORS = 2.0
    ENTRIES = 2.1
    LOW_RANK = 2.3
    MATRICES = 3.0


@cache
def work_of(selection: Parameters | Random | Lora) -> Work:
    """What a selection trains, judged by the names that every encoder has."""
    if isinstance(selection, Random):
        return Work.ENTRIES
    if isinstance(selection, Lora):
        return Work.LOW_RANK
    if set(selection.parameters) <= set(selection.without or ()):
        return Work.NOTHING
    return Work.MATRICES if selects_matrices(selection) else Work.VECTORS


def top_count(fraction: float, n: int) -> int:
    """⌈fraction·n⌉, of the decimal number that was written: 0.07 of 100 is 7, not 8."""
    return math.ceil(Decimal(repr(fraction)) * n)


def resolve(
    selection: Selection,
    shapes: Shapes,
    seed: int,
    ranks: Mapping[str, np.ndarray] | None = None,
) -> Entries:
    """The entries that train.

    Args:
        selection: what trains.
        shapes: canonical name to shape of every parameter, classifier included.
        seed: decides random draws.
        ranks: for a top fraction, tensor name to the rank of each of its entries (0 is first).

    Returns:
        Tensor name to the sorted flat indices that train, to a low-rank update, or to None where
        the whole tensor trains.
    """
    if isinstance(selection, Parameters):
        entries: Entries = dict.fromkeys(selected(selection, shapes))
    elif isinstance(selection, Random):
        generator = np.random.default_rng(seed)
        drawn = selection.random
        if isinstance(drawn, Lines):
            entries = _lines(drawn, shapes, generator)
        else:
            entries = _draw(drawn, shapes, generator)
    elif isinstance(selection, Lora):
        entries = _low_rank(selection, shapes)
    else:
        entries = _first(selection.top.fraction, ranks or {})
    return entries | dict.fromkeys(CLASSIFIER)


def count(entries: Entries, shapes: Shapes) -> int:
    """How many numbers train."""
    return sum(_size(index, shapes[name]) for name, index in entries.items())


def _size(index: np.ndarray | LowRankUpdate | None, shape: Sequence[int]) -> int:
    if index is None:
        return math.prod(shape)
    return index.rank * sum(shape) if isinstance(index, LowRankUpdate) else len(index)


def _draw(draw: Draw, shapes: Shapes, generator: np.random.Generator) -> Entries:
    wanted = draw.count or sum(
        math.prod(shapes[name]) for name in matching(draw.as_many_as or (), shapes)
    )
    names = matching(draw.within, shapes)
    ends = np.cumsum([math.prod(shapes[name]) for name in names])
    if wanted > ends[-1]:
        raise SubtuneError(f"selection: cannot draw {wanted} entries, `within` holds {ends[-1]}")
    drawn = np.sort(generator.choice(ends[-1], wanted, replace=False))
    pieces = np.split(drawn, np.searchsorted(drawn, ends[:-1]))
    starts = np.concatenate([[0], ends[:-1]])
    return {
        name: piece - start
        for name, piece, start in zip(names, pieces, starts, strict=True)
        if len(piece)
    }


def _lines(lines: Lines, shapes: Shapes, generator: np.random.Generator) -> Entries:
    entries: Entries = dict.fromkeys(matching(lines.whole or (), shapes))
    for name in matching(lines.lines_of, shapes):
        if len(shapes[name]) != 2:
            raise SubtuneError(f"selection: {name!r} is no matrix, and has no rows and columns")
        rows, columns = shapes[name]
        grid = np.arange(rows * columns).reshape(rows, columns)
        if rows >= columns and generator.random() < 0.5:
            line = grid[generator.choice(rows, rows // columns, replace=False)]
        else:
            line = grid[:, generator.integers(columns)]
        entries[name] = np.sort(line, axis=None)
    return entries


def _low_rank(selection: Lora, shapes: Shapes) -> Entries:
    lora = selection.lora
    entries: Entries = dict.fromkeys(matching(selection.parameters or (), shapes))
    for name in matching(lora.targets, shapes):
        if len(shapes[name]) != 2 or CANONICAL.is_embedding(name):
            raise SubtuneError(f"selection: {name!r} is not a linear layer's matrix, as LoRA needs")
        if name in entries:
            raise SubtuneError(f"selection: {name!r} is both a target of LoRA and trained whole")
        entries[name] = LowRankUpdate(lora.rank, lora.alpha / lora.rank)
    return entries


def _first(fraction: float, ranks: Mapping[str, np.ndarray]) -> Entries:
    kept = top_count(fraction, sum(rank.size for rank in ranks.values()))
    chosen = {name: np.flatnonzero(rank < kept) for name, rank in ranks.items()}
    return {name: index for name, index in chosen.items() if len(index)}
