"""The generalisation gap."""

import pandas as pd

from subtune.analysis import gap
from tests.helpers.examples import scored
from tests.helpers.exhibits import made


def test_the_table_says_train_minus_dev_beside_what_the_paper_says():
    rows = [("rte", method, 1.0, None, 1e-5, 0, 0.7) for method in ("full", "bitfit")]
    chosen = scored(*rows)
    chosen["run"] = chosen["method"]
    trained = pd.DataFrame({"run": ["full", "bitfit"], "accuracy": [0.99, 0.71], "f1": 0.1})
    scores = gap.train_and_dev(chosen, trained)
    table = made("bitfit", "generalisation_gap", scores=scores, column_titles={"rte": "RTE"})
    assert table[["method", "score", "RTE", "paper"]].to_numpy().tolist() == [
        ["Full", "train", "0.9900", "nearly 100 %"],
        ["Full", "dev", "0.7000", "–"],
        ["Full", "train − dev", "0.2900", "–"],
        ["BitFit", "train", "0.7100", "–"],
        ["BitFit", "dev", "0.7000", "–"],
        ["BitFit", "train − dev", "0.0100", "often less than 2 %"],
    ]
