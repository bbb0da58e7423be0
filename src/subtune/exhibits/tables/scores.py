"""Tables of scores: by number of training rows, and on training rows against dev rows."""

from collections.abc import Mapping, Sequence

import pandas as pd

from subtune.exhibits.tables.writing import EMPTY, Styled, cell
from subtune.selections.methods import title_of
from subtune.tasks.metrics import TITLES

GAP_TITLES = {"train": "train", "dev": "dev", "gap": "train − dev"}


def scores_by_train_rows(
    sizes: pd.DataFrame, column_titles: Mapping[str, str], methods: Sequence[str] | None = None
) -> Styled:
    """Return a row per model, task, metric and number of training rows, a column per method.

    The best scores of a row, of means over seeds, are bold.

    Args:
        sizes: from `subtune.analysis.scores.in_every_metric`.
        methods: the methods to show, in order; by default all.
    """
    methods = methods or list(sizes["method"].unique())
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
    return Styled(table, bold=best)


def generalisation_gap(
    scores: pd.DataFrame, column_titles: Mapping[str, str], printed: pd.DataFrame
) -> pd.DataFrame:
    """Return train score, dev score and their difference per model and method, task by task.

    Args:
        scores: from `subtune.analysis.gap.train_and_dev`.
        printed: what a paper says: ``method``, ``score`` (train, dev or gap), ``printed``.
    """
    of_paper = printed.set_index(["method", "score"])["printed"]
    rows = []
    for (model, method), rows_of_method in scores.groupby(["model", "method"], sort=False):
        for name, title in GAP_TITLES.items():
            values = [
                rows_of_method.loc[rows_of_method["column"] == key, name] for key in column_titles
            ]
            about = [model, title_of(method), title]
            statement = of_paper.get((method, name), EMPTY)
            rows.append([*about, *map(cell, values), statement])
    return pd.DataFrame(
        rows, columns=["model", "method", "score", *column_titles.values(), "paper"]
    )
