"""Scores by the number of training rows, as a table."""

import pandas as pd

from subtune.exhibits.tables.scores import scores_by_train_rows
from tests.unit.analysis.statistics.test_sizes import sizes

COLUMNS = {"squad": "SQuAD"}


def test_a_row_is_a_number_of_training_rows_and_a_column_a_method():
    table = sizes({"full": {1000: 0.9, 100: 0.5}, "bitfit": {100: 0.6}})
    made = scores_by_train_rows(table, COLUMNS)
    assert made.table.to_numpy().tolist() == [
        ["minilm", "SQuAD", "exact match", "100", "0.5000", "0.6000"],
        ["minilm", "SQuAD", "exact match", "1,000", "0.9000", "–"],
    ]
    assert list(made.table)[-2:] == ["Full", "BitFit"]
    assert made.bold[["Full", "BitFit"]].to_numpy().tolist() == [[False, True], [True, False]]
    diverged = pd.concat([table, sizes({"full": {100: float("nan")}}, seed=1)])
    made = scores_by_train_rows(diverged, COLUMNS)
    assert made.table["Full"].tolist() == ["diverged", "0.9000"]
    assert made.bold["BitFit"].tolist() == [True, False]
