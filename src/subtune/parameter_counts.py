"""How many parameters each method trains, in each model."""

import math
from collections.abc import Mapping

import pandas as pd

from subtune.errors import SubtuneError
from subtune.models.families.base import is_classifier
from subtune.selections import Selection
from subtune.selections.entries import Shapes, count


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
        them), ``share`` (of the pretrained parameters, those that train), one row per model and
        method; without a number where a model has not what a method selects.
    """
    rows: list[tuple[str, str, int | None, int, float | None]] = []
    for method, selection in methods.items():
        for model, shapes in models.items():
            classifier = sum(math.prod(shapes[name]) for name in filter(is_classifier, shapes))
            pretrained = sum(map(math.prod, shapes.values())) - classifier
            try:
                trained = count(selection.resolve(shapes, seed=0), shapes)
            except SubtuneError:
                rows.append((model, method, None, classifier, None))
                continue
            share = (trained - classifier) / pretrained
            rows.append((model, method, trained, classifier, share))
    table = pd.DataFrame(rows, columns=["model", "method", "parameters", "classifier", "share"])
    return table.astype({"parameters": "Int64"})
