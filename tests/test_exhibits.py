"""An experiment makes the tables and figures for which it has the runs."""

import pytest

from subtune import exhibits
from subtune.config import Experiment


def experiment(**changed):
    settings = {"models": ["minilm"], "tasks": ["rte"], "methods": {"bitfit": [1e-3]}}
    return Experiment.model_validate(settings | {"epochs": 1, "batch_size": 8} | changed)


@pytest.mark.parametrize(("seeds", "there"), [([0], False), ([0, 1], True)])
def test_a_variance_over_repeats_needs_repeats(seeds, there):
    tables = exhibits.tables(experiment(paper="bitfit_plus", seeds=seeds))
    assert ("repeat_variance" in tables) is there


def test_a_map_of_changes_needs_its_method_and_its_task():
    found = exhibits.changes(experiment(paper="bitfit_plus", methods={"g_LN1": [1e-3]}))
    assert list(found) == ["figure8"]
    assert not exhibits.changes(experiment(paper="bitfit_plus", tasks=["sst2"]))


def test_curves_need_fractions():
    fractions = {"values": [0.2], "learning_rates": [1e-3]}
    assert "figure5" not in exhibits.figures(experiment())
    assert "figure5" in exhibits.figures(experiment(fractions=fractions))
