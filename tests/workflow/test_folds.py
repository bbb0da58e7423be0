"""One call, from one table to the answer: every row judges once."""

import pandas as pd
import pytest
from transformers import AutoModelForSequenceClassification

import subtune
from subtune import cli
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


def test_an_export_trains_once_more_on_all_rows_and_finds_it_made(compared, tmp_path, capsys):
    compared.export("bitfit", tmp_path / "model")
    AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    store = compared.results / "runs"
    specs = {run: records.read_spec(store, run) for run in records.all_runs(store)}
    [refit] = [run for run, spec in specs.items() if spec.recipe.refit]
    made = (store / refit / "spec.json").stat().st_mtime_ns
    folds = compared.runs[compared.runs["method"] == "bitfit"]
    place = tmp_path / "again"
    arguments = [folds["run"].iloc[0], "--to", str(place), "--results", str(compared.results)]
    assert cli.main(["export", *arguments]) == 0, capsys.readouterr().err
    assert (store / refit / "spec.json").stat().st_mtime_ns == made
    card = (place / "README.md").read_text()
    assert "trained once more on the rows of all folds" in card
    assert f"| validation | accuracy | {folds['score'].mean():.4f} |" in card
