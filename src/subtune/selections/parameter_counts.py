"""How many parameters each method trains in each model, and which tensors these are."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.core.errors import SubtuneError
from subtune.families.base import is_classifier
from subtune.selections import Selection
from subtune.selections.entries import Entries, Entry, LowRank, Shapes, Whole, count
from subtune.selections.patterns import LAYER_NUMBER


def parameter_counts(
    models: Mapping[str, Shapes], methods: Mapping[str, Selection]
) -> pd.DataFrame:
    """Count every method's trained parameters.

    The classifier always trains. Its size differs between families of encoders, more than some
    methods train of the rest; so it is counted, and left out of the share (as in BitFit, Table 1).

    Args:
        models: model's name to its parameters' shapes.
        methods: method's name to its selection.

    Returns:
        ``model``, ``method``, ``parameters`` (classifier included), ``classifier`` (how many of
        them), ``share`` (of the pretrained parameters, those that train), ``problem``, one row per
        model and method; where a model has not what a method selects ``problem`` says so, and the
        numbers are left out.
    """
    rows: list[tuple[str, str, int | None, int, float | None, str | None]] = []
    for method, selection in methods.items():
        for model, shapes in models.items():
            classifier = sum(math.prod(shapes[name]) for name in filter(is_classifier, shapes))
            pretrained = sum(map(math.prod, shapes.values())) - classifier
            try:
                trained = count(selection.resolve(shapes, seed=0), shapes)
            except SubtuneError as error:
                rows.append((model, method, None, classifier, None, str(error)))
                continue
            share = (trained - classifier) / pretrained
            rows.append((model, method, trained, classifier, share, None))
    columns = ["model", "method", "parameters", "classifier", "share", "problem"]
    return pd.DataFrame(rows, columns=columns).astype({"parameters": "Int64"})


def trained_tensors(entries: Entries, shapes: Shapes, own_names: Mapping[str, str]) -> pd.DataFrame:
    """The tensors that train, in the model's order; those that layers have in common in one row.

    Args:
        entries: what a selection has chosen of a model.
        shapes: the model's.
        own_names: canonical name to transformers' name of every parameter.

    Returns:
        ``tensor`` (a pattern that matches what the row stands for), ``times`` (how many tensors
        these are), ``own`` (the same in transformers' model), ``shape`` (of one), ``trains`` (how
        many of all their numbers), ``how`` (in words).
    """
    alike: dict[tuple, list[str]] = {}
    for name, shape in shapes.items():
        modules = (LAYER_NUMBER.sub(".*.", of_either) for of_either in (name, own_names[name]))
        key = (*modules, tuple(shape), _how(entries.get(name)))
        alike.setdefault(key, []).append(name)
    everywhere = {frozenset(names) for names in _by_module(shapes).values()}
    rows = []
    for (_, _, shape, how), names in alike.items():
        if how is None:
            continue
        runs = [names] if frozenset(names) in everywhere else _in_a_row(names)
        for run in runs:
            trains = count({name: entries[name] for name in run}, shapes)
            tensor, own = (
                _joined(of_either, everywhere=frozenset(run) in everywhere)
                for of_either in (run, [own_names[name] for name in run])
            )
            rows.append((tensor, len(run), own, shape, trains, how))
    return pd.DataFrame(rows, columns=["tensor", "times", "own", "shape", "trains", "how"])


def _how(entry: Entry | None) -> str | None:
    """How a tensor trains, in words; nothing of one that does not."""
    match entry:
        case None:
            return None
        case Whole():
            return "whole"
        case LowRank(rank):
            return f"rank {rank}"
    return "in part"


def _by_module(names: Shapes) -> dict[str, list[str]]:
    """Names by what is left of them without their layers' numbers."""
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(LAYER_NUMBER.sub(".*.", name), []).append(name)
    return grouped


def _layer(name: str) -> int:
    found = LAYER_NUMBER.search(name)
    return int(found[0].strip(".")) if found else 0


def _in_a_row(names: Sequence[str]) -> list[list[str]]:
    """Names of layers, parted wherever a layer is missing between two."""
    runs = [[names[0]]]
    for name in names[1:]:
        if _layer(name) == _layer(runs[-1][-1]) + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _joined(names: Sequence[str], everywhere: bool) -> str:
    """A pattern of names that differ in a layer's number."""
    if len(names) == 1:
        return names[0]
    parts = zip(*(name.split(".") for name in names), strict=True)
    return ".".join(
        of_all[0] if len(set(of_all)) == 1 else "*" if everywhere else f"{of_all[0]}-{of_all[-1]}"
        for of_all in parts
    )
