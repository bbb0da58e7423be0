"""A fifth paper, added by its folder, and experiments without a paper."""

import shutil

import pandas as pd
import pytest

from tests.helpers.browser import opened
from tests.helpers.project import ROOT, Project, own_task, table

INIT = '''\
"""A paper of one table, one figure and one claim."""

from subtune.papers.paper import Paper
from subtune.papers.toy.claims import CLAIMS
from subtune.papers.toy.exhibits import EXHIBITS

PAPER = Paper(name="toy", citation="Toys (Child, 2026)", exhibits=EXHIBITS, claims=CLAIMS)
'''
EXHIBITS = '''\
"""Tables and figures."""

from subtune.exhibits.figures.curves import learning_curves
from subtune.papers.paper import Figure
from subtune.papers.shared import dev_scores

EXHIBITS = (
    dev_scores("table9", "Scores of toys", ["table9"]),
    Figure(
        "figure9",
        "Curves of toys",
        "Dev score by epoch.",
        make=learning_curves,
        reads={"chosen": "chosen", "curves": "learning_curves"},
        from_config=("task_titles",),
    ),
)
'''
CLAIMS = '''\
"""Claims."""

from subtune.analysis.claims import Claim

CLAIMS = (
    Claim("Biases do as well", "1, Table 9", "BitFit − Full", "same", of=("bitfit", "full")),
)
'''
SCORES = """\
exhibit,model,split,method,params,task,metric,value,scale
table9,tiny,validation,full,100%,mood,accuracy,80.0,100
table9,tiny,validation,bitfit,1%,mood,accuracy,79.0,100
"""
COMMON = {"models": ["tiny"], "epochs": 1, "batch_size": 8, "max_length": 16}
RATES = {"full": [1e-3], "bitfit": [1e-2]}


@pytest.fixture(scope="module")
def project(tmp_path_factory, tiny_bert) -> Project:
    """Five experiments, run once; the library is a copy with one more paper."""
    project = Project(tmp_path_factory.mktemp("own-paper"), tiny_bert)
    library = project.directory / "src" / "subtune"
    shutil.copytree(ROOT / "src" / "subtune", library, ignore=shutil.ignore_patterns("*.pyc"))
    toy = library / "papers" / "toy"
    (toy / "printed").mkdir(parents=True)
    (toy / "printed" / "scores.csv").write_text(SCORES)
    for name, text in (("__init__", INIT), ("exhibits", EXHIBITS), ("claims", CLAIMS)):
        (toy / f"{name}.py").write_text(text)
    for split, rows in (("train", 24), ("validation", 12)):
        (project.directory / f"global-{split}.csv").write_text(table("global", split, rows))
    project.config |= {
        "tasks": {task: own_task(task) for task in ("mood", "global")},
        "experiments": {
            "toy": {**COMMON, "tasks": ["mood"], "methods": RATES},
            "datasets": {**COMMON, "tasks": ["mood"], "methods": RATES},
            "masks": {**COMMON, "tasks": ["mood"], "methods": {"bitfit": [1e-2]}},
            "a+b": {**COMMON, "tasks": ["global"], "methods": {"bitfit": [1e-2]}},
            "layernorm": {**COMMON, "tasks": ["mood", "global"], "methods": RATES},
        },
    }
    project.run(project.config, environment={"PYTHONPATH": str(project.directory / "src")})
    return project


def planned(project, *arguments):
    environment = {"PYTHONPATH": str(project.directory / "src")}
    return project.run(project.config, "-n", *arguments, environment=environment)


def test_a_papers_table_figure_and_claim_come_out(project):
    folder = project.directory / "results" / "experiments" / "toy"
    scores = pd.read_csv(folder / "table9.csv").set_index(["scores of", "method"])["mood"]
    assert scores["paper: tiny", "BitFit"] == 0.79
    assert "this run: tiny, files" in scores.index.get_level_values(0)
    assert (folder / "figure9.png").stat().st_size > 1000
    [claim] = pd.read_csv(folder / "claims.csv").to_dict("records")
    assert (claim["claim"], claim["paper"]) == ("Biases do as well", -0.01)
    assert len(pd.read_csv(folder / "reproduction.csv")) == 2


def test_the_report_shows_every_experiment_under_its_name(project):
    with opened(project.directory / "results" / "report.html") as (page, complaints):
        assert complaints == []
        headings = page.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        names = ["a+b", "datasets", "layernorm", "masks", "toy"]
        assert headings[:6] == ["All experiments", *names]
        subtitles = page.evaluate(
            "[...document.querySelectorAll('.subtitle')].map(p => p.textContent)"
        )
        assert subtitles[1:] == ["Toys (Child, 2026)"]
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("folder", ["datasets", "masks", "a+b"])
def test_an_experiment_without_a_paper_has_what_needs_none(project, folder):
    names = {
        path.stem for path in (project.directory / "results" / "experiments" / folder).glob("*.*")
    }
    answer = {"answers", "front", "summary"}
    assert names == answer | {"scores", "choices", "paired_tests", "learning_curves"}


@pytest.mark.parametrize("target", ["toy", "datasets", "masks", "a+b", "layernorm"])
def test_every_experiment_is_a_target(project, target):
    assert "Nothing to be done" in planned(project, "--", target)


def test_records_are_not_among_an_experiments_tables(project):
    # Two tasks and two methods, which the five experiments share.
    assert len(project.records()) == 4
    assert not list((project.directory / "results" / "runs").glob("*.csv"))


def test_a_task_called_global_is_a_task(project):
    folder = project.directory / "results" / "experiments" / "layernorm" / "data"
    shares = pd.read_csv(folder / "layernorm_information.csv").groupby("task")["share"].sum()
    assert shares.to_dict() == pytest.approx({"mood": 1, "global": 1})
    shares = pd.read_csv(folder / "global_layernorm_information.csv").groupby("part")["share"].sum()
    assert shares.to_dict() == pytest.approx({"weight": 2, "bias": 2})


@pytest.mark.parametrize("path", ["toy/table1.csv", "toy/table9.png", "datasets/claims.csv"])
def test_there_is_no_rule_for_a_table_that_an_experiment_does_not_have(project, path):
    with pytest.raises(AssertionError, match=f"No rule to produce results/experiments/{path}"):
        planned(project, "--", f"results/experiments/{path}")


@pytest.mark.parametrize("rule", ["train", "all"])
def test_an_experiment_with_the_name_of_a_rule_is_refused(project, rule):
    experiments = {rule: project.config["experiments"]["datasets"]}
    with pytest.raises(AssertionError, match=f"experiments.{rule}: found the name of a rule"):
        project.run(project.config | {"experiments": experiments}, "-n")
