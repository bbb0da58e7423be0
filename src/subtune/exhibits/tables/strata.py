"""Three groups of layers, and what a method trains in each (SPAFIT, section 3 and Table 1)."""

from collections.abc import Mapping
from itertools import accumulate, groupby
from typing import NamedTuple

from subtune.core.errors import SubtuneError
from subtune.exhibits.tables.writing import EMPTY
from subtune.families import CANONICAL
from subtune.families.base import is_classifier
from subtune.selections import Selection
from subtune.selections.entries import Entry, Indices, LowRank, Shapes, Whole
from subtune.selections.methods import LAYER_PARAMETERS

BIAS = ".bias"
NOTATIONS = {tensor: short for short, tensor in LAYER_PARAMETERS.items()}


class Strata(NamedTuple):
    """The last layers of groups 1 and 2, what trains in each group, and outside the layers."""

    n1: str
    n2: str
    group1: str
    group2: str
    group3: str
    outside: str


def strata(selection: Selection, shapes: Shapes) -> Strata:
    """Return what a selection trains in each group of layers.

    A group is a run of layers in which the same parameters train. If all layers are alike, the
    three groups are the same. A selection with random entries, or with more than three groups, is
    described once for all layers.

    Args:
        selection: the selection.
        shapes: the shapes of a model's parameters.

    Raises:
        SubtuneError: the model lacks a selected parameter.
    """
    entries = selection.encoder_entries(shapes, seed=0, ranks={})
    layer_of = {name: CANONICAL.component_of(name).layer for name in shapes}
    layers = sorted({layer_of[n] or 0 for n in shapes if n.startswith(CANONICAL.layers)})
    texts = [_in_words(entries, [n for n in shapes if layer_of[n] == layer]) for layer in layers]
    groups = [(text, len(list(alike))) for text, alike in groupby(texts)]
    outside_layers = [n for n in shapes if layer_of[n] is None and not is_classifier(n)]
    outside = _in_words(entries, outside_layers)
    if len(groups) > 3 or any(isinstance(entry, Indices) for entry in entries.values()):
        groups, outside = [(selection.in_words(), len(layers))], EMPTY
    borders = [str(layer - 1) for layer in accumulate(size for _, size in groups)][:-1]
    n1, n2, *_ = [*borders, EMPTY, EMPTY]
    words = [text for text, _ in groups] * (3 if len(groups) == 1 else 1)
    group1, group2, group3, *_ = [*words, EMPTY]
    return Strata(n1, n2, group1, group2, group3, outside)


def strata_of_first(selection: Selection, models: Mapping[str, Shapes]) -> Strata:
    """Return the strata of the first model that has the selected parameters; empty if none has."""
    for shapes in models.values():
        try:
            return strata(selection, shapes)
        except SubtuneError:
            continue
    return Strata(*[EMPTY] * len(Strata._fields))


def _in_words(entries: Mapping[str, Entry], names: list[str]) -> str:
    """Return what trains among some parameters."""
    whole = [name for name in names if isinstance(entries.get(name), Whole)]
    low_rank = {n: e for n in names if isinstance(e := entries.get(n), LowRank)}
    parts = []
    if low_rank:
        first = next(iter(low_rank.values()))
        lora = f"LoRA (rank {first.rank}, alpha {first.rank * first.scale:g})"
        parts.append(f"{lora} on {', '.join(map(_notation, low_rank))}")
    if whole == names:
        parts.append("all parameters")
    elif whole == [name for name in names if name.endswith(BIAS)]:
        parts.append("all biases")
    elif whole:
        parts.append(", ".join(map(_notation, whole)))
    return "; ".join(parts) or "nothing"


def _notation(name: str) -> str:
    """Return the papers' notation: b_q, g_LN1, and W_q for the matrix beside b_q."""
    component, layer, part = CANONICAL.component_of(name)
    if layer is None:
        return name
    if f"{component}.{part}" in NOTATIONS:
        return NOTATIONS[f"{component}.{part}"]
    if component + BIAS in NOTATIONS:
        return "W_" + NOTATIONS[component + BIAS].removeprefix("b_")
    return f"{component}.{part}"
