"""One call, from one table to the answer: every row judges once."""

import pandas as pd
import pytest

import subtune
from subtune.runs import records
from tests.helpers.project import ROOT

TRAIN = pd.read_csv(ROOT / "examples" / "weather-train.csv").groupby("label").head(30)


@pytest.fixture(scope="module")
def compared(tmp_path_factory, tiny_bert):
    place = tmp_path_factory.mktemp("folds") / "results"
    return subtune.compare(TRAIN, model=str(tiny_bert), minutes=0.1, results=place, say=print)


def test_each_row_is_judged_once_by_each_method(compared):
    runs = compared.runs
    for _, of_method in runs.groupby("method"):
        assert sorted(of_method["fold"]) == [0, 1, 2, 3, 4]
        predicted = [
            records.read_predictions(compared.results / "runs", r) for r in of_method["run"]
        ]
        judged = [row for of in predicted for row in of["idx"]]
        assert sorted(judged) == [*range(len(TRAIN))]
    assert compared.answer
    assert {"full", "embeddings"} <= set(compared.summary["method"])
