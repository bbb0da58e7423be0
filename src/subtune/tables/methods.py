"""A summary of methods."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from subtune.methods import title_of
from subtune.models.dimensions import dimensions_in
from subtune.papers import printed
from subtune.papers.base import Paper
from subtune.parameter_counts import parameter_counts
from subtune.selections import Selection
from subtune.tables.writing import EMPTY


def methods_and_parameters(
    directories: Sequence[Path],
    paper: Paper,
    models: Sequence[str],
    selections: Mapping[str, Selection],
    labels: int,
) -> pd.DataFrame:
    """What each method trains, and how many parameters in millions, beside the paper's counts.

    Args:
        directories: where each model lies.
        paper: whose counts.
        models: the models' names.
        selections: what each method trains.
        labels: how many the classifier has.
    """
    counts = parameter_counts(
        {
            name: dimensions_in(directory).shapes(labels)
            for name, directory in zip(models, directories, strict=True)
        },
        selections,
    )
    reported = printed.counts(paper.name)
    millions = counts.assign(
        millions=[EMPTY if pd.isna(n) else f"{n / 1e6:.2f}M" for n in counts["parameters"]]
    ).pivot(index="method", columns="model", values="millions")
    table = pd.DataFrame({"method": [title_of(method) for method in selections]})
    table["trains, beside the classifier"] = [s.in_words() for s in selections.values()]
    for model in counts["model"].unique():
        table[f"parameters: {model}"] = [millions.loc[method, model] for method in selections]
    for model, rows in reported.groupby("model", sort=False):
        count = rows.set_index("method")["printed"]
        table[f"paper: {model}"] = [count.get(method, EMPTY) for method in selections]
    return table
