"""Real GLUE files in the workflow: zips for the server, and the scores that it returns."""

import pandas as pd
import pytest

from tests.helpers.project import Project, job_counts
from tests.helpers.submissions import require_taken

METHODS = ("bitfit", "layernorm")
FOLDER = "results/experiments/layernorm"
ZIPS = [f"{FOLDER}/submission/{method}.zip" for method in METHODS]
TABLES = ("table3", "kruskal_wallis", "reproduction", "claims")


@pytest.fixture(scope="module")
def config(glue_dir, tiny_bert) -> dict:
    return {
        "results": "results",
        "source": "tsv",
        "glue_dir": str(glue_dir),
        "models": {"tiny": {"path": str(tiny_bert)}},
        "experiments": {
            "layernorm": {
                "models": ["tiny"],
                "tasks": ["cola", "rte"],
                "methods": {method: [1e-2] for method in METHODS},
                "fisher": {"rows": 8},
                "epochs": 1,
                "batch_size": 8,
                "max_length": 16,
                "train_rows": 16,
            }
        },
    }


@pytest.fixture(scope="module")
def project(config, tmp_path_factory, tiny_bert) -> Project:
    project = Project(tmp_path_factory.mktemp("glue"), tiny_bert)
    project.run(config, "--", *ZIPS, f"{FOLDER}/submission/contents.csv")
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
        assert set(predicted) == {"CoLA.tsv", "RTE.tsv"}
        assert own.drop(predicted).str.endswith("the task was not run").all()


def test_returned_scores_become_table_3_and_the_combined_test(project, folder, config):
    form = pd.read_csv(folder / "submission" / "form.csv")
    assert len(form) == len(METHODS) * 2
    form["score"] = [12.5, 55.0, 0.0, 54.0]
    form.to_csv(project.directory / "returned.csv", index=False)
    returned = {**config, "test_scores": "returned.csv"}
    targets = [*ZIPS, *(f"{FOLDER}/{table}.csv" for table in TABLES)]
    counts = job_counts(project.run(returned, "-n", "--", *targets))
    assert "train" not in counts and "test_predictions" not in counts
    project.run(returned, "--", *targets)
    table = pd.read_csv(folder / "table3.csv")
    ours = table[table["scores of"].str.contains("test set")].set_index("method")
    assert ours.loc["BitFit", ["CoLA", "RTE"]].tolist() == [0.125, 0.55]
    assert table["scores of"].str.startswith("paper").sum() == 4
    tests = pd.read_csv(folder / "kruskal_wallis.csv").set_index("scores")
    assert tests.loc["this run's table 2 + table 3", "n_bitfit"] == 4
    claims = pd.read_csv(folder / "data" / "claims.csv").set_index("claim")
    text = "Training only LayerNorm scores as training only biases does"
    assert claims.loc[f"{text}, on test sets", "mean"] == pytest.approx(-0.135 / 2)
    assert claims.loc[f"{text}, on dev and test sets together", "cells"] == 4
    beside = pd.read_csv(folder / "reproduction.csv").query("split == 'test'")
    assert beside["ours"].dropna().tolist() == [0.125, 0.55, 0.0, 0.54]
    assert "Nothing to be done" in project.run(returned, "-n", "--", *targets)


def test_a_mistake_in_returned_scores_stops_before_any_job(project, config):
    path = project.directory / "wrong.csv"
    path.write_text("experiment,model,method,task,metric,score\nlayernorm,tiny,bitft,rte,,50\n")
    with pytest.raises(AssertionError) as error:
        project.run({**config, "test_scores": "wrong.csv"}, "-n")
    text = str(error.value)
    assert "wrong.csv: line 2: method: found 'bitft'" in text and "Traceback" not in text
