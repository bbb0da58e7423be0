"""An experiment on several sizes of the training data, beside one on all of it."""

import pandas as pd
import pytest

from tests.helpers.project import Project

COMMON = {"models": ["tiny"], "epochs": 1, "batch_size": 8, "max_length": 16, "tasks": ["mood"]}
METHODS = {"methods": {"full": [1e-3], "bitfit": [1e-3, 1e-2]}}
# Of `mood` there are 24 training rows.
SIZES = {"train_rows": [8, 16, "all"]}


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_bert):
    project = Project(tmp_path_factory.mktemp("sizes"), tiny_bert)
    experiments = {
        "curve": COMMON | METHODS | SIZES | {"paper": "bitfit"},
        "whole": COMMON | METHODS,
    }
    project.run(project.config | {"experiments": experiments})
    return project.directory / "results"


def test_every_size_has_its_scores_in_a_figure_and_a_table(results):
    table = pd.read_csv(results / "experiments" / "curve" / "scores_by_size.csv")
    assert table["training rows"].tolist() == [8, 16, 24]
    assert table[["Full", "BitFit"]].notna().all(axis=None)
    assert (results / "experiments" / "curve" / "sizes.png").stat().st_size > 1000
    assert not (results / "experiments" / "whole" / "sizes.png").exists()


def test_tables_are_of_the_largest_size_whose_runs_are_shared(results):
    chosen = {
        name: pd.read_csv(
            results / "experiments" / name / "data" / "chosen.csv", dtype={"run": str}
        )
        for name in ("curve", "whole")
    }
    assert set(chosen["curve"]["train_rows"]) == {24}
    assert chosen["curve"]["run"].tolist() == chosen["whole"]["run"].tolist()
    # Three runs on each of three sizes.
    runs = pd.read_csv(results / "runs.csv")
    assert runs["train_rows"].value_counts().to_dict() == {8: 3, 16: 3, 24: 3}


def test_training_scores_are_those_of_the_largest_size(results):
    scores = pd.read_csv(results / "experiments" / "curve" / "data" / "train_scores.csv")
    assert sorted(scores["method"]) == ["bitfit", "full"]


def test_the_report_says_on_how_many_rows_a_run_trained(results):
    page = (results / "report.html").read_text()
    assert "training rows" in page and "Score by number of training rows" in page
