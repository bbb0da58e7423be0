"""Jobs that are done from Python, and the plan's file: when it is made, and when it is read."""

import copy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read_splits
from subtune.plan import inputs
from subtune.steps import jobs
from subtune.steps.jobs import STEPS, list_files, plan_path, read_plan, run_job, write_plan
from tests.unit.steps.conftest import ROWS


@pytest.fixture
def tables_read(monkeypatch):
    """The names of the tasks whose tables were read, in order."""
    read, task_size = [], inputs.task_size
    monkeypatch.setattr(
        inputs, "task_size", lambda task, *where: read.append(task.name) or task_size(task, *where)
    )
    return read


def test_tables_are_read_once_for_a_configuration(settings, tables_read):
    first = write_plan(settings)
    assert write_plan(settings) == first == read_plan(settings)
    assert tables_read == ["mine"]


def edit_the_table(settings):
    Path("train.csv").write_text(Path("train.csv").read_text().replace("sentence 1", "sentence x"))


def edit_the_model(settings):
    Path("model/README.md").write_text("Another card.")


def edit_the_configuration(settings):
    settings["experiments"]["first"]["margin"] = 0.05


def edit_the_file(settings):
    plan_path(settings).write_text('{"code": ""}')


@pytest.mark.parametrize(
    "edit", [edit_the_table, edit_the_model, edit_the_configuration, edit_the_file]
)
def test_a_plan_is_made_again_if_something_changed(settings, tables_read, minilm, edit):
    settings["models"]["minilm"]["path"] = str(shutil.copytree(minilm, "model"))
    write_plan(settings)
    edit(settings)
    write_plan(settings)
    assert tables_read == ["mine", "mine"]


def test_a_plan_is_made_again_by_another_version_of_subtune(settings, tables_read, monkeypatch):
    write_plan(settings)
    monkeypatch.setattr(jobs, "_hash_code", lambda: "newer")
    write_plan(settings)
    assert tables_read == ["mine", "mine"]


def test_a_change_concerns_only_the_jobs_whose_settings_it_changes(settings):
    def hashes():
        plan = write_plan(settings)
        return {job[:2]: job.spec_hash for by_id in plan.jobs.values() for job in by_id.values()}

    before = hashes()
    edit_the_configuration(settings)
    after = hashes()
    changed = {step for step, id in before if before[step, id] != after[step, id]}
    assert changed == {"scores", "report_page"}


@pytest.fixture
def offers(monkeypatch):
    """A function that plans a configuration and names its plan to jobs, and returns the plan."""
    monkeypatch.setenv(jobs.OFFERED, "[]")

    def planned(settings):
        plan = write_plan(settings)
        jobs.publish_plan(settings)
        return plan

    return planned


def test_a_job_reads_the_plan_of_its_call_though_an_edited_configuration_has_its_own(
    settings, offers
):
    edited = copy.deepcopy(settings)
    edit_the_configuration(edited)
    write_plan(edited)
    assert offers(settings) == read_plan(edited)


def test_each_job_of_a_workflow_with_several_configurations_reads_its_own_plan(settings, offers):
    other = settings | {"results": "other"}
    first, second = offers(settings), offers(other)
    assert read_plan(settings) == first and read_plan(other) == second


@pytest.mark.parametrize("results", [5, ["results"], None])
def test_a_plan_without_a_place_is_refused_as_a_mistake_of_the_configuration(settings, results):
    with pytest.raises(SubtuneError, match="results: found"):
        write_plan(settings | {"results": results})


def test_what_a_job_imports_takes_no_time():
    slow = {"pandas", "pydantic", "torch", "matplotlib", "subtune.config", "subtune.plan"}
    code = "import sys, subtune.steps.jobs, subtune.core.process; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert not slow & {*printed.split()}


def test_jobs_write_what_they_name(settings):
    plan = write_plan(settings)
    for step in ("dataset", "model", "tokens"):
        for job in plan.jobs[step].values():
            run_job(job)
            assert all(Path(path).exists() for path in list_files(job.outputs))
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
