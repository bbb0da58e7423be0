"""Stages that are done from Python, without Snakemake."""

from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read
from subtune.stages.plan_file import made
from subtune.stages.run import KINDS, run_stage
from subtune.stages.stage import files
from tests.unit.stages.conftest import ROWS


def test_stages_write_what_they_name(settings):
    plan = made(settings)
    for kind in ("dataset", "model", "tokens"):
        for stage in plan.stages[kind].values():
            run_stage(stage)
            assert all(Path(path).exists() for path in files(stage.outputs))
    [tokens] = Path("results/tokens").iterdir()
    assert len(read(tokens)["train"]) == len(ROWS)


def test_a_stage_that_fails_leaves_nothing(settings):
    [rows] = made(settings).stages["dataset"].values()
    Path("train.csv").write_text("sentence,label\nanother,good\nrow,bad\n")
    with pytest.raises(SubtuneError, match="changed since the plan was made"):
        run_stage(rows)
    assert not list(Path("results/datasets").iterdir())


def test_every_planned_stage_is_of_a_kind_that_can_be_done(settings):
    assert made(settings).stages.keys() <= KINDS.keys()
