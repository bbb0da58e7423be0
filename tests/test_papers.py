"""All four papers end to end, on a tiny model and a few rows of the built-in tasks."""

import pandas as pd
import pytest

from tests.test_workflow import Project

SETTINGS = {"models": ["tiny"], "epochs": 1, "batch_size": 8, "max_length": 16, "train_rows": 16}
RATES = [1e-3]
CONFIG = {
    "results": "results",
    "source": "builtin",
    "experiments": {
        "bitfit": {
            **SETTINGS,
            "paper": "bitfit",
            "tasks": ["cola", "rte"],
            "methods": {"full": RATES, "bitfit": [1e-3, 1e-2], "b_m2,b_q": RATES, "frozen": RATES},
        },
        "bitfit_plus": {
            **SETTINGS,
            "paper": "bitfit_plus",
            "tasks": ["cola", "rte"],
            "by_task": {"cola": {"learning_rates": RATES}, "rte": {"learning_rates": RATES}},
            "methods": dict.fromkeys(
                ["bitfit", "g_LN1,g_LN2", "rand_row_col", "bitfit without b_m2,b_q"]
            ),
            "seeds": [0, 1],
        },
        "spafit": {
            **SETTINGS,
            "paper": "spafit",
            "tasks": ["stsb", "qqp"],
            "weight_decay": 0.01,
            "methods": {"full": RATES, "lora-I": RATES, "full-bitfit": RATES, "mixed": RATES},
        },
    },
    "selections": {
        "mixed": {
            "lora": {
                "targets": ["encoder.layer.1.attention.self.*.weight"],
                "rank": 2,
                "alpha": 4,
            },
            "parameters": ["encoder.layer.0.**.bias", "encoder.layer.1.output.*.bias"],
        }
    },
    "runs_per_job": 20,
}


@pytest.fixture(scope="module")
def results(tmp_path_factory, tiny_bert):
    project = Project(tmp_path_factory.mktemp("papers"), tiny_bert)
    project.run({**CONFIG, "models": {"tiny": {"path": str(tiny_bert)}}}, "--quiet", "all")
    assert project.planned({**CONFIG, "models": {"tiny": {"path": str(tiny_bert)}}}) == {}
    return project.directory / "results"


@pytest.mark.parametrize(
    ("experiment", "tables", "figures"),
    [
        ("bitfit", ["table1", "table2", "table3", "table6", "generalisation_gap"],
         ["figure1", "figure3"]),
        ("bitfit_plus", ["figure3", "figure7", "repeat_variance"],
         ["figure4", "figure6", "figure10", "figure12"]),
        ("spafit", ["table1", "table2"], []),
    ],
)  # fmt: skip
def test_each_paper_has_its_exhibits(results, experiment, tables, figures):
    folder = results / experiment
    for table in [*tables, "choices", "paired_tests"]:
        for ending in ("csv", "md", "tex"):
            assert (folder / f"{table}.{ending}").stat().st_size > 0, table
    for figure in [*figures, "reproduction"]:
        for ending in ("png", "pdf"):
            assert (folder / f"{figure}.{ending}").stat().st_size > 1000, figure
    drawn = {path.stem for path in folder.glob("*.png")}
    assert drawn == {*figures, "reproduction"}


def test_papers_share_the_runs_they_have_in_common(results):
    bitfit, plus = (
        pd.read_csv(results / name / "data" / "scores.csv") for name in ("bitfit", "bitfit_plus")
    )
    assert set(bitfit["run"]) & set(plus["run"])


def test_the_keys_bias_does_not_change(results):
    """Its gradient is zero: it adds the same to all scores of a query (Cordonnier et al., 2020)."""
    changes = pd.read_csv(results / "bitfit" / "data" / "parameter_changes.csv")
    means = changes.groupby("parameter")["change"].mean()
    assert means["b_k"] < 0.2 * means.drop("b_k").min()


def test_spafit_is_scored_in_its_own_metrics(results):
    scores = pd.read_csv(results / "spafit" / "data" / "scores.csv")
    metrics = scores.groupby("task")["metric"].unique()
    assert (list(metrics["stsb"]), list(metrics["qqp"])) == (["pearsonr"], ["accuracy"])


def test_repeated_runs_have_a_spread(results):
    table = pd.read_csv(results / "bitfit_plus" / "repeat_variance.csv")
    assert set(table["seeds"]) == {2}
    assert len(table) == 8


def test_training_scores_stand_beside_dev_scores(results):
    table = pd.read_csv(results / "bitfit" / "data" / "train_scores.csv")
    assert set(table["method"]) == {"full", "bitfit"}
    assert (table["gap"] - (table["train"] - table["dev"])).abs().max() < 1e-12
