"""A table of scores by the number of training rows."""

from collections.abc import Mapping

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY, Emphasis, Styled, cell
from subtune.selections.methods import title_of
from subtune.tasks.metrics import TITLES


def scores_by_train_rows(sizes: pd.DataFrame, column_titles: Mapping[str, str]) -> Styled:
    """Return a row per model, task, metric and number of training rows, a column per method.

    The best scores of a row, of means over seeds, are bold.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        column_titles: column of the tables to its title.
    """
    methods = list(sizes["method"].unique())
    cells, means = [], []
    for column, title in column_titles.items():
        of_column = sizes[sizes["column"] == column]
        for (model, metric), scores in of_column.groupby(["model", "metric"], sort=False):
            for rows, same in scores.groupby("train_rows"):
                values = [same.loc[same["method"] == method, "value"] for method in methods]
                about = [model, title, TITLES[str(metric)], f"{rows:,}"]
                cells.append([*about, *map(cell, values)])
                means.append([v.mean() if v.notna().all() else float("nan") for v in values])
    titles = [title_of(method) for method in methods]
    table = pd.DataFrame(cells, columns=["model", "task", "metric", "training rows", *titles])
    numbers = pd.DataFrame(means, columns=titles)
    best = numbers.eq(numbers.max(axis=1), axis=0) & (table[titles] != EMPTY)
    return Styled(table, Emphasis(bold=best.reindex(columns=table.columns, fill_value=False)))
