"""How many parameters each method trains, in each model."""

import math
from collections.abc import Mapping

import pandas as pd

from subtune.errors import SubtuneError
from subtune.selections import Selection
from subtune.selections.entries import Shapes, count


def parameter_counts(
    models: Mapping[str, Shapes], methods: Mapping[str, Selection]
) -> pd.DataFrame:
    """Count every method's trained parameters, the classifier's included.

    Args:
        models: model's name to its parameters' shapes.
        methods: method's name to its selection.

    Returns:
        ``model``, ``method``, ``parameters``, ``share`` (of all the model's parameters), one row
        per model and method; without a number where a model has not what a method selects.
    """
    rows: list[tuple[str, str, int | None, float | None]] = []
    for method, selection in methods.items():
        for model, shapes in models.items():
            try:
                trained = count(selection.resolve(shapes, seed=0), shapes)
            except SubtuneError:
                rows.append((model, method, None, None))
                continue
            every = sum(map(math.prod, shapes.values()))
            rows.append((model, method, trained, trained / every))
    table = pd.DataFrame(rows, columns=["model", "method", "parameters", "share"])
    return table.astype({"parameters": "Int64"})
