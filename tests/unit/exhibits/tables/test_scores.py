"""Scores by the number of training rows, as a table."""

import pandas as pd

from subtune.exhibits.tables.scores import scores_by_train_rows
from tests.helpers.examples import scored

COLUMNS = {"rte": "RTE"}


def sizes(*rows):
    """Scores on RTE: a row each of method, number of training rows, seed and score."""
    parts = [
        scored(("rte", method, 1.0, None, 1e-3, seed, value)).assign(train_rows=train_rows)
        for method, train_rows, seed, value in rows
    ]
    return pd.concat(parts, ignore_index=True)


def test_a_row_is_a_number_of_training_rows_and_a_column_a_method():
    rows = [("full", 1000, 0, 0.9), ("full", 100, 0, 0.5), ("bitfit", 100, 0, 0.6)]
    made = scores_by_train_rows(sizes(*rows), COLUMNS)
    assert made.table.to_numpy().tolist() == [
        ["minilm", "RTE", "accuracy", "100", "0.5000", "0.6000"],
        ["minilm", "RTE", "accuracy", "1,000", "0.9000", "–"],
    ]
    assert list(made.table)[-2:] == ["Full", "BitFit"]
    assert made.bold[["Full", "BitFit"]].to_numpy().tolist() == [[False, True], [True, False]]
    diverged = scores_by_train_rows(sizes(*rows, ("full", 100, 1, float("nan"))), COLUMNS)
    assert diverged.table["Full"].tolist() == ["diverged", "0.9000"]
    assert diverged.bold["BitFit"].tolist() == [True, False]
