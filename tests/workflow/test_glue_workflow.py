"""Real GLUE files in the workflow: zips for the server, and the scores that it returns."""

import pandas as pd
import pytest

from tests.helpers.project import Project
from tests.helpers.submissions import require_taken

METHODS = ("bitfit", "layernorm")
FOLDER = "results/experiments/layernorm"
ZIPS = [f"{FOLDER}/submission/{method}.zip" for method in METHODS]
TABLES = ("table3", "kruskal_wallis", "reproduction", "claims")


KEYS = ["experiment", "model", "method", "task", "metric"]
RETURNED = {"bitfit": 12.5, "layernorm": 0.0}


@pytest.fixture(scope="module")
def project(glue_dir, tmp_path_factory, tiny_bert) -> Project:
    """A project that has been told what the server returned."""
    project = Project(tmp_path_factory.mktemp("glue"), tiny_bert)
    project.config = {
        "results": "results",
        "source": "tsv",
        "glue_dir": str(glue_dir),
        "models": {"tiny": {"path": str(tiny_bert)}},
        "experiments": {
            "layernorm": {
                "models": ["tiny"],
                "tasks": ["cola"],
                "methods": {method: [1e-2] for method in METHODS},
                "fisher": {"rows": 8},
                "epochs": 1,
                "batch_size": 8,
                "max_length": 16,
                "train_rows": 16,
            }
        },
    }
    rows = [
        ["layernorm", "tiny", method, "cola", "matthews_correlation", score]
        for method, score in RETURNED.items()
    ]
    table = pd.DataFrame(rows, columns=[*KEYS, "score"])
    table.to_csv(project.directory / "returned.csv", index=False)
    targets = [*ZIPS, *(f"{FOLDER}/{table}.csv" for table in TABLES)]
    project.run(project.config | {"test_scores": "returned.csv"}, "--", *targets)
    return project


@pytest.fixture(scope="module")
def folder(project):
    return project.directory / FOLDER


def test_every_method_has_a_zip_that_is_taken_and_its_constants_are_named(folder):
    contents = pd.read_csv(folder / "submission" / "contents.csv")
    for method in METHODS:
        require_taken(folder / "submission" / f"{method}.zip")
        own = contents[contents["submission"] == f"{method}.zip"].set_index("file")["made of"]
        predicted = own.index[own.str.startswith("run ")]
        assert set(predicted) == {"CoLA.tsv"}
        assert own.drop(predicted).str.endswith("the task was not run").all()


def test_returned_scores_become_table_3_and_the_combined_test(folder):
    table = pd.read_csv(folder / "table3.csv")
    ours = table[table["scores of"].str.contains("test set")].set_index("method")
    assert ours.loc["BitFit", "CoLA"] == 0.125
    assert table["scores of"].str.startswith("paper").sum() == 4
    tests = pd.read_csv(folder / "kruskal_wallis.csv").set_index("scores")
    assert tests.loc["this run's table 2 + table 3", "n_bitfit"] == 2
    claims = pd.read_csv(folder / "data" / "claims.csv").set_index("claim")
    text = "Training only LayerNorm scores as training only biases does"
    assert claims.loc[f"{text}, on test sets", "mean"] == pytest.approx(-0.125)
    beside = pd.read_csv(folder / "reproduction.csv").query("split == 'test'")
    assert beside["ours"].dropna().tolist() == [0.125, 0.0]


def test_the_form_has_the_scores_to_enter_and_entering_them_trains_nothing(project, folder):
    form = pd.read_csv(folder / "submission" / "form.csv")
    returned = pd.read_csv(project.directory / "returned.csv")
    assert form[KEYS].equals(returned[KEYS])
    assert not {"train", "test_predictions"} & project.planned(project.config).keys()
