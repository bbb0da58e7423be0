"""A table of methods and their parameters."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.exhibits.tables.strata import strata_of_first
from subtune.exhibits.tables.writing import EMPTY, Emphasis, Styled
from subtune.models.dimensions import dimensions_in
from subtune.selections import SELECTION
from subtune.selections.methods import title_of
from subtune.selections.parameter_counts import parameter_counts

# Columns that wrap in LaTeX, and their share of the text's width.
WIDE = {"group 1": 0.16, "group 2": 0.16, "group 3": 0.22, "outside the layers": 0.16}


def methods_and_parameters(
    directories: Sequence[Path],
    printed: pd.DataFrame,
    models: Sequence[str],
    selections: Mapping[str, str],
    labels: int,
) -> Styled:
    """Return what each method trains in which layers, and its parameters beside the paper's counts.

    Args:
        directories: where each model lies.
        printed: the paper's counts: ``model``, ``method``, ``printed``.
        models: the models' names.
        selections: what each method trains, as JSON.
        labels: how many the classifier has.
    """
    selected = {method: SELECTION.validate_json(text) for method, text in selections.items()}
    parameters = {
        name: dimensions_in(directory).shapes(labels)
        for name, directory in zip(models, directories, strict=True)
    }
    counts = parameter_counts(parameters, selected)
    millions = counts.assign(
        millions=[EMPTY if pd.isna(n) else f"{n / 1e6:.2f}M" for n in counts["parameters"]]
    ).pivot(index="method", columns="model", values="millions")
    table = pd.DataFrame({"method": [title_of(method) for method in selections]})
    groups = [strata_of_first(selection, parameters) for selection in selected.values()]
    table[["N1", "N2", "group 1", "group 2", "group 3", "outside the layers"]] = groups
    for model in counts["model"].unique():
        table[f"parameters: {model}"] = [millions.loc[method, model] for method in selections]
    for model, rows in printed.groupby("model", sort=False):
        count = rows.set_index("method")["printed"]
        table[f"paper: {model}"] = [count.get(method, EMPTY) for method in selections]
    return Styled(table, Emphasis(wide=WIDE))
