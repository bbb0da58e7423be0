"""SPAFIT's summary of its methods."""

from collections.abc import Mapping, Sequence

import pandas as pd

from subtune import reported
from subtune.tables.writing import EMPTY, title_of


def table1(counts: pd.DataFrame, selections: Mapping[str, str]) -> pd.DataFrame:
    """What each method trains, and how many parameters in millions, beside the paper's counts.

    Args:
        counts: from `subtune.parameter_counts.parameter_counts`.
        selections: method to what it trains, as text.
    """
    printed = reported.table("parameter_counts.csv")
    printed = printed[printed["source"] == "spafit"].set_index("method")["printed"]
    models: Sequence[str] = counts["model"].unique()
    shown = counts.assign(
        millions=[EMPTY if pd.isna(n) else f"{n / 1e6:.2f}M" for n in counts["parameters"]]
    ).pivot(index="method", columns="model", values="millions")
    table = pd.DataFrame({"method": [title_of(method) for method in selections]})
    table["trains, beside the classifier"] = list(selections.values())
    for model in models:
        table[f"parameters: {model}"] = [shown.loc[method, model] for method in selections]
    table["paper: bert-large-cased"] = [printed.get(method, EMPTY) for method in selections]
    return table
