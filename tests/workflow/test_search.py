"""Searched learning rates, from a configuration to the tables."""

from pathlib import Path

import pandas as pd
import pytest

from subtune import cli, config
from subtune.config.schema import SEARCHED
from subtune.papers.experiments import with_papers
from subtune.planning.plan import plan as plan_of

TARGETS = ("results/experiments/layernorm/choices.md", "results/experiments/layernorm/figure5.png")


@pytest.fixture(scope="module")
def project(finished_project, tmp_path_factory):
    project = finished_project.copy(tmp_path_factory.mktemp("searched") / "project")
    project.config = project.changed(
        tasks=["mood"],
        epochs=1,
        methods={"bitfit": None, "layernorm": [1e-3]},
        learning_rates="search",
        fractions={"values": [0.5], "scopes": ["individual"]},
        seeds=[0, 1],
    )
    project.run(project.config, "--", *TARGETS)
    return project


@pytest.fixture
def scores(project):
    scores = pd.read_csv(project.directory / "results/experiments/layernorm/data/scores.csv")
    return scores[scores["decides"]]


def test_what_names_no_learning_rate_finds_it(scores):
    searched = scores.set_index(["method", "fraction", "seed"])["searched"].to_dict()
    assert searched == {
        (method, fraction, seed): (method, fraction) != ("layernorm", 1)
        for method, fraction in (("bitfit", 1), ("layernorm", 1), ("layernorm", 0.5))
        for seed in (0, 1)
    }


def test_the_record_of_a_search_has_what_was_tried_and_the_tables_what_was_found(project, scores):
    for row in scores[scores["searched"]].to_dict("records"):
        tried = pd.read_csv(project.directory / "results/runs" / row["run"] / "search.csv")
        assert set(SEARCHED) <= set(tried["learning_rate"])
        assert tried["run"].notna().sum() >= 2
        found = tried[tried["found"]].iloc[0]
        assert found["learning_rate"] == row["learning_rate"]
        # The first seed searched.
        assert row["seed"] == 1 or found["score"] == row["value"]


def test_nothing_is_left_to_do_and_a_deleted_search_trains_nothing_whole(project, monkeypatch):
    assert "Nothing to be done" in project.run(project.config, "-n", "--", *TARGETS)
    monkeypatch.chdir(project.directory)
    plan = plan_of(with_papers(config.read(Path("mine.yaml"))))
    search = next(run for run, spec in plan.runs.items() if spec.recipe.searched)
    before = project.records()
    for path in (project.directory / "results/runs" / search).iterdir():
        path.unlink()
    (project.directory / "results/runs" / search).rmdir()
    project.run(project.config, "--forcerun", "train", "--", *TARGETS)
    after = project.records()
    assert {run for run in after if after[run] != before[run]} == {search}


def test_runs_are_listed_with_what_they_found(project, scores, monkeypatch, capsys):
    monkeypatch.chdir(project.directory)
    assert cli.main(["runs", "--results", "results"]) == 0
    listed = capsys.readouterr().out
    for run in scores["run"]:
        assert run in listed
