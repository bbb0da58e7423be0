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


def test_a_stage_with_settings_that_another_call_has_changed_is_refused(settings, monkeypatch):
    [page] = made(settings).stages["report_page"].values()
    monkeypatch.setitem(KINDS, "report_page", lambda _, outputs, __: Path(outputs["page"]).touch())
    # Without all of its runs, a comparison makes a stage from other inputs.
    run_stage(page._replace(inputs=page.inputs | {"runs": "so_far.parquet"}))
    Path("results/report.html").unlink()
    settings["experiments"]["first"]["margin"] = 0.05
    made(settings)
    with pytest.raises(SubtuneError, match="report_page report: its settings have changed since"):
        run_stage(page)
    assert not Path("results/report.html").exists()


def test_every_planned_stage_is_of_a_kind_that_can_be_done(settings):
    assert made(settings).stages.keys() <= KINDS.keys()
