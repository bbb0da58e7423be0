"""Jobs that are done from Python, without Snakemake."""

from importlib import import_module
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read_splits
from subtune.steps.job import STEPS, files, run_job
from subtune.steps.plan_file import write_plan
from tests.unit.steps.conftest import ROWS


def test_jobs_write_what_they_name(settings):
    plan = write_plan(settings)
    for step in ("dataset", "model", "tokens"):
        for job in plan.jobs[step].values():
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


@pytest.mark.parametrize("step", STEPS)
def test_every_step_plans_and_does_its_jobs(step):
    module = import_module(f"subtune.steps.{step}")
    assert callable(module.jobs) and callable(module.run)
