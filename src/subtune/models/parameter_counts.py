"""The number of parameters that each method trains in each model, and their tensors."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.families.base import SEQUENCE_CLASSIFICATION, is_classifier
from subtune.models.configuration import sequence_head
from subtune.models.dimensions import AnyDimensions, dimensions_in, names_for, shapes_for
from subtune.selections import Selection
from subtune.selections.kind import Entries, LowRank, Shapes, Whole, count
from subtune.selections.patterns import LAYER_NUMBER


def parameter_counts(
    models: Mapping[str, AnyDimensions],
    methods: Mapping[str, Selection],
    outputs: int,
    head: str = SEQUENCE_CLASSIFICATION,
) -> pd.DataFrame:
    """Count every method's trained parameters.

    The classifier always trains. Families' classifiers differ in size by more than some methods
    train in all; so it is counted, but left out of the share (as in BitFit, Table 1).

    Args:
        models: model's name to its dimensions.
        methods: method's name to its selection.
        outputs: how many the classifier has.
        head: its name in `subtune.families.base`.

    Returns:
        One row per model and method: ``model``, ``method``, ``parameters`` (with the classifier's),
        ``classifier`` (the classifier's alone), ``share`` (the part of the pretrained parameters
        that trains) and ``problem``. If a model lacks what a method selects, ``problem`` says so
        and the numbers are missing.
    """
    rows = []
    for method, selection in methods.items():
        for model, dimensions in models.items():
            shapes = dimensions.shapes(outputs, head)
            classifier = sum(math.prod(shapes[name]) for name in filter(is_classifier, shapes))
            pretrained = sum(map(math.prod, shapes.values())) - classifier
            row: dict[str, Any] = {"model": model, "method": method, "classifier": classifier}
            try:
                shapes = shapes_for(selection, dimensions, outputs, head)
                row["parameters"] = count(selection.resolve(shapes, seed=0), shapes)
                row["share"] = (row["parameters"] - classifier) / pretrained
            except SubtuneError as error:
                row["problem"] = str(error)
            rows.append(row)
    columns = ["model", "method", "parameters", "classifier", "share", "problem"]
    return pd.DataFrame(rows, columns=columns).astype({"parameters": "Int64"})


def tensors_of(selection: Selection, directory: Path, outputs: int) -> pd.DataFrame:
    """List the tensors that a selection trains in a local model, as `trained_tensors` does.

    Raises:
        SubtuneError: the model lacks what the selection names.
    """
    dimensions, head = dimensions_in(directory), sequence_head(directory)
    shapes = shapes_for(selection, dimensions, outputs, head)
    entries = selection.resolve(shapes, seed=0)
    return trained_tensors(entries, shapes, names_for(selection, dimensions, outputs, head))


def trained_tensors(entries: Entries, shapes: Shapes, own_names: Mapping[str, str]) -> pd.DataFrame:
    """List the tensors that train, in the model's order. Equal tensors of layers share a row.

    Args:
        entries: the entries that train.
        shapes: the model's shapes.
        own_names: canonical name to transformers' name; adapters keep theirs.

    Returns:
        ``tensor`` (a pattern that matches the row's tensors), ``times`` (their number), ``own``
        (the pattern in transformers' model), ``shape`` (of one tensor), ``trains`` (how many of
        all their numbers train) and ``how`` (in words).
    """
    alike: dict[tuple, list[str]] = {}
    for name in filter(entries.get, shapes):
        match entries[name]:
            case Whole():
                how = "whole"
            case LowRank(rank):
                how = f"rank {rank}"
            case _:
                how = "in part"
        key = (_of_any_layer(name), _of_any_layer(own_names.get(name, name)), how)
        alike.setdefault((*key, tuple(shapes[name])), []).append(name)
    in_all_layers = Counter(map(_of_any_layer, shapes))
    rows = []
    for (module, _, how, shape), names in alike.items():
        everywhere = len(names) == in_all_layers[module]
        for run in [names] if everywhere else _in_a_row(names):
            tensor = _joined(run, everywhere)
            own = _joined([own_names.get(name, name) for name in run], everywhere)
            trains = count({name: entries[name] for name in run}, shapes)
            rows.append((tensor, len(run), own, shape, trains, how))
    return pd.DataFrame(rows, columns=["tensor", "times", "own", "shape", "trains", "how"])


def _of_any_layer(name: str) -> str:
    return LAYER_NUMBER.sub(".*.", name)


def _layer(name: str) -> int:
    found = LAYER_NUMBER.search(name)
    return int(found[0].strip(".")) if found else 0


def _in_a_row(names: Sequence[str]) -> list[list[str]]:
    """Split names of layers into groups without a gap in the layers' numbers."""
    runs = groupby(enumerate(names), lambda numbered: _layer(numbered[1]) - numbered[0])
    return [[name for _, name in run] for _, run in runs]


def _joined(names: Sequence[str], everywhere: bool) -> str:
    """Return a pattern that matches names that differ in the layer's number."""
    if len(names) == 1:
        return names[0]
    parts = zip(*(name.split(".") for name in names), strict=True)
    return ".".join(
        of_all[0] if len(set(of_all)) == 1 else "*" if everywhere else f"{of_all[0]}-{of_all[-1]}"
        for of_all in parts
    )
