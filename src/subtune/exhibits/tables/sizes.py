"""A table of scores by the number of training rows."""

from collections.abc import Sequence

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY, METRIC_TITLES, Emphasis, Styled, cell
from subtune.selections.methods import title_of
from subtune.tasks.score_columns import Column


def scores_by_train_rows(sizes: pd.DataFrame, columns: Sequence[Column]) -> Styled:
    """A row per model, task, metric and number of training rows, and a column per method.

    The best scores of a row, of means over seeds, are bold.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        columns: the tasks' columns.
    """
    methods = list(sizes["method"].unique())
    cells, means = [], []
    for column in columns:
        of_column = sizes[sizes["column"] == column.key]
        for (model, metric), scores in of_column.groupby(["model", "metric"], sort=False):
            for rows, same in scores.groupby("train_rows"):
                values = [same.loc[same["method"] == method, "value"] for method in methods]
                about = [model, column.title, METRIC_TITLES[str(metric)], f"{rows:,}"]
                cells.append([*about, *map(cell, values)])
                means.append([v.mean() if v.notna().all() else float("nan") for v in values])
    titles = [title_of(method) for method in methods]
    table = pd.DataFrame(cells, columns=["model", "task", "metric", "training rows", *titles])
    numbers = pd.DataFrame(means, columns=titles)
    best = numbers.eq(numbers.max(axis=1), axis=0) & (table[titles] != EMPTY)
    return Styled(table, Emphasis(bold=best.reindex(columns=table.columns, fill_value=False)))
