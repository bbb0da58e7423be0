"""An experiment makes the tables and figures for which it has the runs."""

from typing import get_args

import pytest

from subtune import exhibits
from subtune.config import Paper
from tests.helpers.examples import config, experiment
from tests.helpers.project import ROOT

CAPTIONS = ROOT / "workflow" / "report"


@pytest.mark.parametrize(("seeds", "there"), [([0], False), ([0, 1], True)])
def test_a_variance_over_repeats_needs_repeats(seeds, there):
    of = experiment(paper="bitfit_plus", seeds=seeds)
    tables = exhibits.tables(config(of), of)
    assert ("repeat_variance" in tables) is there


def test_a_map_of_changes_needs_its_method_and_its_task():
    found = exhibits.changes(experiment(paper="bitfit_plus", methods={"g_LN1": [1e-3]}))
    assert list(found) == ["figure8"]
    assert not exhibits.changes(experiment(paper="bitfit_plus", tasks=["sst2"]))


def test_curves_need_fractions():
    fractions = {"values": [0.2], "learning_rates": [1e-3]}
    assert "figure5" not in exhibits.figures(experiment())
    assert "figure5" in exhibits.figures(experiment(fractions=fractions))


@pytest.mark.parametrize("paper", get_args(Paper))
def test_every_exhibit_has_a_title_and_a_caption(paper):
    of = experiment(
        paper=paper,
        methods={"full": [1e-3], **{shown.method: [1e-3] for shown in changes_of(paper)}},
        tasks=["rte", "cola", "mrpc", "stsb"],
        fractions={"values": [0.2], "learning_rates": [1e-3]},
        seeds=[0, 1],
    )
    every = config(of, test_scores="scores.csv")
    there = {*exhibits.tables(every, of), *exhibits.figures(of), "submission/contents"}
    assert set(exhibits.titled(every, of)) == there
    for name in there:
        assert (CAPTIONS / f"{exhibits.caption(paper, name)}.rst").is_file(), name


def changes_of(paper):
    return exhibits.CHANGES.get(paper, {}).values()


def test_exhibits_are_in_the_papers_order():
    of = experiment(methods={"full": [1e-3]}, fractions={"values": [0.2], "learning_rates": [1e-3]})
    names = list(exhibits.titled(config(of), of))
    assert names[:3] == ["claims", "figure1", "table1"]
    assert names.index("figure2") < names.index("figure5") < names.index("choices")


def test_test_scores_have_a_table_once_there_are_some():
    of = experiment()
    assert "table3" not in exhibits.tables(config(of), of)
    assert "table3" in exhibits.tables(config(of, test_scores="scores.csv"), of)
