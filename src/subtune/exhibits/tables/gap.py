"""A table of the generalisation gap."""

from collections.abc import Mapping

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY, cell
from subtune.selections.methods import title_of

TITLES = {"train": "train", "dev": "dev", "gap": "train − dev"}


def generalisation_gap(
    scores: pd.DataFrame, column_titles: Mapping[str, str], printed: pd.DataFrame
) -> pd.DataFrame:
    """Return train score, dev score and their difference per model and method, task by task.

    Args:
        scores: from `subtune.analysis.gap.train_and_dev`.
        column_titles: column of the tables to its title.
        printed: what a paper says: ``method``, ``score`` (train, dev or gap), ``printed``.
    """
    of_paper = printed.set_index(["method", "score"])["printed"]
    rows = []
    for (model, method), rows_of_method in scores.groupby(["model", "method"], sort=False):
        for name in TITLES:
            values = [
                rows_of_method.loc[rows_of_method["column"] == key, name] for key in column_titles
            ]
            about = [model, title_of(method), TITLES[name]]
            statement = of_paper.get((method, name), EMPTY)
            rows.append([*about, *map(cell, values), statement])
    return pd.DataFrame(
        rows, columns=["model", "method", "score", *column_titles.values(), "paper"]
    )
