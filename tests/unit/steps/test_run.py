"""Jobs that are done from Python, without Snakemake."""

from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read_splits
from subtune.steps.job import files
from subtune.steps.plan_file import write_plan
from subtune.steps.run import KINDS, run_job
from tests.unit.steps.conftest import ROWS


def test_jobs_write_what_they_name(settings):
    plan = write_plan(settings)
    for kind in ("dataset", "model", "tokens"):
        for job in plan.jobs[kind].values():
            run_job(job)
            assert all(Path(path).exists() for path in files(job.outputs))
    [tokens] = Path("results/tokens").iterdir()
    assert len(read_splits(tokens)["train"]) == len(ROWS)


def test_a_job_that_fails_leaves_nothing(settings):
    [rows] = write_plan(settings).jobs["dataset"].values()
    Path("train.csv").write_text("sentence,label\nanother,good\nrow,bad\n")
    with pytest.raises(SubtuneError, match="changed since the plan was made"):
        run_job(rows)
    assert not list(Path("results/datasets").iterdir())


def test_a_job_with_settings_that_another_call_has_changed_is_refused(settings, monkeypatch):
    [page] = write_plan(settings).jobs["report_page"].values()
    monkeypatch.setitem(KINDS, "report_page", lambda _, outputs, __: Path(outputs["page"]).touch())
    # Without all of its runs, a comparison makes a job from other inputs.
    run_job(page._replace(inputs=page.inputs | {"runs": "so_far.parquet"}))
    Path("results/report.html").unlink()
    settings["experiments"]["first"]["margin"] = 0.05
    write_plan(settings)
    with pytest.raises(SubtuneError, match="report_page report: its settings have changed since"):
        run_job(page)
    assert not Path("results/report.html").exists()


def test_every_planned_job_is_of_a_kind_that_can_be_done(settings):
    assert write_plan(settings).jobs.keys() <= KINDS.keys()
