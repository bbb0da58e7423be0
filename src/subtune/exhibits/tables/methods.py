"""A table of methods: their parameters, and what trains in three groups of layers (SPAFIT)."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY, Styled
from subtune.families.base import component_of, is_added, is_pretrained
from subtune.models.dimensions import dimensions_in, shapes_for
from subtune.models.parameter_counts import parameter_counts
from subtune.selections import SELECTION, Selection
from subtune.selections.kind import Entry, Indices, LowRank, Shapes, Whole
from subtune.selections.methods import LAYER_PARAMETERS, title_of

# Columns that wrap in LaTeX, and their share of the text's width.
WIDE = {"group 1": 0.16, "group 2": 0.16, "group 3": 0.22, "outside the layers": 0.16}
# The last layers of groups 1 and 2, and what trains in which part of a model.
GROUPS = ["N1", "N2", "group 1", "group 2", "group 3", "outside the layers"]
BIAS = ".bias"
NOTATIONS = {tensor: short for short, tensor in LAYER_PARAMETERS.items()}


def methods_and_parameters(
    directories: Sequence[Path],
    printed: pd.DataFrame,
    model_names: Sequence[str],
    selections: Mapping[str, str],
    labels: int,
) -> Styled:
    """Return what each method trains in which layers, and its parameters beside the paper's counts.

    Layers are those of the first model.

    Args:
        printed: the paper's counts: ``model``, ``method``, ``printed``.
        selections: what each method trains, as JSON.
        labels: how many the classifier has.
    """
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    models = {
        name: dimensions_in(directory)
        for name, directory in zip(model_names, directories, strict=True)
    }
    counts = parameter_counts(models, selected, labels)
    millions = counts.assign(
        millions=[f"{number / 1e6:.2f}M" for number in counts["parameters"]]
    ).pivot(index="method", columns="model", values="millions")
    table = pd.DataFrame({"method": [title_of(method) for method in selections]})
    first = next(iter(models.values()))
    table[GROUPS] = [
        strata(selection, shapes_for(selection, first, labels)) for selection in selected.values()
    ]
    for model in counts["model"].unique():
        table[f"parameters: {model}"] = [millions.loc[method, model] for method in selections]
    for model, rows in printed.groupby("model", sort=False):
        count = rows.set_index("method")["printed"]
        table[f"paper: {model}"] = [count.get(method, EMPTY) for method in selections]
    return Styled(table, wide=WIDE)


def strata(selection: Selection, shapes: Shapes) -> tuple[str, ...]:
    """Return the cells below `GROUPS` for a selection.

    A group is a run of layers in which the same parameters train. If all layers are alike, the
    three groups are the same. A selection with random entries, of PEFT, or with more than three
    groups, is described once for all layers.

    Raises:
        SubtuneError: the model lacks a selected parameter.
    """
    entries = selection.encoder_entries(shapes, seed=0, ranks={})
    layer_of = {name: component_of(name).layer for name in shapes}
    layers = sorted({layer for layer in layer_of.values() if layer is not None})
    texts = [_in_words(entries, [n for n in shapes if layer_of[n] == layer]) for layer in layers]
    groups = [(text, len(list(alike))) for text, alike in groupby(texts)]
    outside_layers = [n for n in shapes if layer_of[n] is None and is_pretrained(n)]
    outside = _in_words(entries, outside_layers)
    undivided = any(isinstance(of, Indices) or is_added(name) for name, of in entries.items())
    if len(groups) > 3 or undivided:
        groups, outside = [(selection.in_words(), len(layers))], EMPTY
    borders = [str(layer - 1) for layer in accumulate(size for _, size in groups)][:-1]
    n1, n2, *_ = [*borders, EMPTY, EMPTY]
    words = [text for text, _ in groups] * (3 if len(groups) == 1 else 1)
    group1, group2, group3, *_ = [*words, EMPTY]
    return n1, n2, group1, group2, group3, outside


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
    component, layer, part = component_of(name)
    if layer is None:
        return name
    if f"{component}.{part}" in NOTATIONS:
        return NOTATIONS[f"{component}.{part}"]
    if component + BIAS in NOTATIONS:
        return "W_" + NOTATIONS[component + BIAS].removeprefix("b_")
    return f"{component}.{part}"
