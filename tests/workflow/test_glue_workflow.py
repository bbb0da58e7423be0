"""GLUE in the workflow: zips for the server, and the scores that it returns."""

import pandas as pd
import pytest

from tests.helpers.project import RETURNED
from tests.helpers.submissions import require_taken

KEYS = ["experiment", "model", "method", "task", "metric"]


@pytest.fixture
def folder(finished_project):
    return finished_project.directory / "results" / "experiments" / "layernorm"


def test_every_method_has_a_zip_that_is_taken_and_its_constants_are_named(folder):
    contents = pd.read_csv(folder / "submission" / "contents.csv")
    for method in RETURNED:
        require_taken(folder / "submission" / f"{method}.zip")
        own = contents[contents["submission"] == f"{method}.zip"].set_index("file")["made of"]
        predicted = own.index[own.str.startswith("run ")]
        assert set(predicted) == {"CoLA.tsv"}
        assert own.drop(predicted).str.endswith("the task was not run").all()


def test_returned_scores_become_table_3_and_the_combined_test(folder):
    table = pd.read_csv(folder / "table3.csv")
    ours = table[table["scores of"].str.contains("test set")].set_index("method")
    assert ours.loc["BitFit", "CoLA"] == 0.125
    assert table["scores of"].str.startswith("paper").sum() == 3
    tests = pd.read_csv(folder / "kruskal_wallis.csv").set_index("scores")
    assert tests.loc["this run's table 2 + table 3", "n_bitfit"] == 3 + 1
    claims = pd.read_csv(folder / "data" / "claims.csv").set_index("claim")
    text = "Training only LayerNorm scores as training only biases does"
    assert claims.loc[f"{text}, on test sets", "mean"] == pytest.approx(-0.125)
    beside = pd.read_csv(folder / "reproduction.csv").query("split == 'test'")
    assert sorted(beside["ours"].dropna()) == [0.0, 0.125, 0.2]


def test_the_form_has_the_scores_to_enter_and_entering_them_trains_nothing(
    finished_project, folder, tmp_path
):
    paths = (folder / "submission" / "form.csv", finished_project.directory / "returned.csv")
    form, returned = (pd.read_csv(path).set_index(KEYS) for path in paths)
    assert set(form.index) == set(returned.index)
    copied = finished_project.copy(tmp_path / "project")
    planned = copied.planned(copied.config | {"test_scores": None})
    assert not {"train", "test_predictions"} & planned.keys()
