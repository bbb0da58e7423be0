"""Scores by the number of training rows, and on training rows against dev rows, as tables."""

import pandas as pd

from subtune.analysis import comparisons
from subtune.exhibits.tables.methods import scores_by_train_rows
from subtune.tasks import TASKS
from tests.helpers.examples import scored
from tests.helpers.exhibits import made, titled
from tests.unit.analysis.test_statistics import sizes

COLUMNS = {"squad": "SQuAD"}


def test_a_row_is_a_number_of_training_rows_and_a_column_a_method():
    table = sizes({"full": {1000: 0.9, 100: 0.5}, "bitfit": {100: 0.6}})
    shown = scores_by_train_rows(table, COLUMNS)
    assert shown.table.to_numpy().tolist() == [
        ["minilm", "SQuAD", "exact match", "100", "0.5000", "0.6000"],
        ["minilm", "SQuAD", "exact match", "1,000", "0.9000", "–"],
    ]
    assert list(shown.table)[-2:] == ["Full", "BitFit"]
    assert shown.bold[["Full", "BitFit"]].to_numpy().tolist() == [[False, True], [True, False]]
    assert list(scores_by_train_rows(table, COLUMNS, ["bitfit"]).table)[-1:] == ["BitFit"]
    diverged = pd.concat([table, sizes({"full": {100: float("nan")}}, seed=1)])
    shown = scores_by_train_rows(diverged, COLUMNS)
    assert shown.table["Full"].tolist() == ["diverged", "0.9000"]
    assert shown.bold["BitFit"].tolist() == [True, False]


def test_the_table_says_train_minus_dev_beside_what_the_paper_says():
    rows = [("rte", method, 1.0, None, 1e-5, 0, 0.7) for method in ("full", "bitfit")]
    chosen = scored(*rows)
    chosen["run"] = chosen["method"]
    trained = pd.DataFrame({"run": ["full", "bitfit"], "accuracy": [0.99, 0.71], "f1": 0.1})
    scores = comparisons.train_and_dev(chosen, trained)
    rte = titled(TASKS["rte"])
    table = made("bitfit", "generalisation_gap", {"train_scores": scores}, tasks=rte)
    assert table[["method", "score", "RTE", "paper"]].to_numpy().tolist() == [
        ["Full", "train", "0.9900", "nearly 100 %"],
        ["Full", "dev", "0.7000", "–"],
        ["Full", "train − dev", "0.2900", "–"],
        ["BitFit", "train", "0.7100", "–"],
        ["BitFit", "dev", "0.7000", "–"],
        ["BitFit", "train − dev", "0.0100", "often less than 2 %"],
    ]
