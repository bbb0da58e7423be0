"""What a method trains in three groups of layers (SPAFIT, section 3 and Table 1)."""

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

ALL, ALL_BIASES, NOTHING = "all parameters", "all biases", "nothing"
BIAS = ".bias"


class Strata(NamedTuple):
    """The last layers of groups 1 and 2, what trains in each group, and outside the layers."""

    n1: str
    n2: str
    group1: str
    group2: str
    group3: str
    outside: str


def strata(selection: Selection, shapes: Shapes) -> Strata:
    """What a selection trains, group by group; where all layers are alike, thrice the same.

    Groups are runs of layers in which the same trains, so that the groups of SPAFIT are found and
    not named. What is drawn at random, or has more than three groups, is told once for all layers.

    Args:
        selection: what trains.
        shapes: those of a model's parameters.

    Raises:
        SubtuneError: the model has not what is selected.
    """
    entries = selection.encoder_entries(shapes, seed=0, ranks={})
    names = [name for name in shapes if name.startswith(CANONICAL.layers)]
    layers = sorted({CANONICAL.component_of(name).layer or 0 for name in names})
    texts = [_in_layer(entries, shapes, layer) for layer in layers]
    groups = [(text, len(list(alike))) for text, alike in groupby(texts)]
    outside = _outside(entries, shapes)
    if len(groups) > 3 or any(isinstance(entry, Indices) for entry in entries.values()):
        groups, outside = [(selection.in_words(), len(layers))], EMPTY
    borders = [str(layer - 1) for layer in accumulate(size for _, size in groups)][:-1]
    n1, n2, *_ = [*borders, EMPTY, EMPTY]
    words = [text for text, _ in groups] * (3 if len(groups) == 1 else 1)
    group1, group2, group3, *_ = [*words, EMPTY]
    return Strata(n1, n2, group1, group2, group3, outside)


def strata_of_first(selection: Selection, models: Mapping[str, Shapes]) -> Strata:
    """The same, of the first model that has what is selected; empty where none has."""
    for shapes in models.values():
        try:
            return strata(selection, shapes)
        except SubtuneError:
            continue
    return Strata(*[EMPTY] * len(Strata._fields))


def _in_layer(entries: Mapping[str, Entry], shapes: Shapes, layer: int) -> str:
    names = [name for name in shapes if CANONICAL.component_of(name).layer == layer]
    return _in_words({name: entries[name] for name in names if name in entries}, names)


def _outside(entries: Mapping[str, Entry], shapes: Shapes) -> str:
    names = [
        name
        for name in shapes
        if CANONICAL.component_of(name).layer is None and not is_classifier(name)
    ]
    return _in_words({name: entries[name] for name in names if name in entries}, names)


def _in_words(entries: Mapping[str, Entry], names: list[str]) -> str:
    """What trains of some names."""
    whole = [name for name, entry in entries.items() if isinstance(entry, Whole)]
    adapted = [name for name, entry in entries.items() if isinstance(entry, LowRank)]
    parts = []
    if adapted:
        parts.append(f"{_lora(entries[adapted[0]])} on {_listed(adapted)}")
    if whole == names:
        parts.append(ALL)
    elif whole == [name for name in names if name.endswith(BIAS)]:
        parts.append(ALL_BIASES)
    elif whole:
        parts.append(_listed(whole))
    return "; ".join(parts) or NOTHING


def _lora(entry: Entry) -> str:
    assert isinstance(entry, LowRank)
    return f"LoRA (rank {entry.rank}, alpha {entry.rank * entry.scale:g})"


def _listed(names: list[str]) -> str:
    return ", ".join(map(_notation, names))


def _notation(name: str) -> str:
    """A parameter in the papers' notation: b_q, g_LN1, and W_q for the matrix beside b_q."""
    component, layer, part = CANONICAL.component_of(name)
    notations = {tensor: short for short, tensor in LAYER_PARAMETERS.items()}
    if layer is None:
        return name
    if f"{component}.{part}" in notations:
        return notations[f"{component}.{part}"]
    if component + BIAS in notations:
        return "W_" + notations[component + BIAS].removeprefix("b_")
    return f"{component}.{part}"
