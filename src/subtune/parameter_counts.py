"""How many parameters each method trains, in each model."""

from collections.abc import Mapping

import pandas as pd

from subtune.errors import SubtuneError
from subtune.methods import Named
from subtune.selection import Shapes, count, resolve


def parameter_counts(models: Mapping[str, Shapes], methods: Mapping[str, Named]) -> pd.DataFrame:
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
                found = count(resolve(selection, shapes, seed=0), shapes)
            except SubtuneError:
                rows.append((model, method, None, None))
                continue
            whole = count(dict.fromkeys(shapes), shapes)
            rows.append((model, method, found, found / whole))
    table = pd.DataFrame(rows, columns=["model", "method", "parameters", "share"])
    return table.astype({"parameters": "Int64"})
