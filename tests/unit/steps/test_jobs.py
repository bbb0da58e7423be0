"""Jobs that are done from Python, and plan files: when they are made, read and removed."""

import copy
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from subtune.core.errors import SubtuneError
from subtune.data.load import read_splits
from subtune.plan import inputs
from subtune.runs import spec
from subtune.steps import plan_file
from subtune.steps.jobs import STEPS, list_files, run_job
from subtune.steps.plan_file import pass_plan, read_passed_plan, read_plan, write_plan
from tests.helpers.project import ROOT
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
    assert write_plan(settings) == first == read_plan(first.path)
    assert tables_read == ["mine"]


def edit_the_table(settings):
    Path("train.csv").write_text(Path("train.csv").read_text().replace("sentence 1", "sentence x"))


def edit_the_model(settings):
    Path("model/README.md").write_text("Another card.")


def edit_the_configuration(settings):
    settings["experiments"]["first"]["margin"] = 0.05


def damage_the_plans(settings):
    for path in Path("results/plans").glob("[0-9a-f]*.json"):
        path.write_text("")


def damage_the_index(settings):
    for path in Path("results/plans").glob("configuration-*"):
        path.write_text('{"code": ""}')


def remove_the_plans(settings):
    shutil.rmtree("results/plans")


@pytest.mark.parametrize(
    "edit",
    [
        edit_the_table,
        edit_the_model,
        edit_the_configuration,
        damage_the_plans,
        damage_the_index,
        remove_the_plans,
    ],
)
def test_a_plan_is_made_again_if_something_changed(settings, tables_read, minilm, edit):
    settings["models"]["minilm"]["path"] = str(shutil.copytree(minilm, "model"))
    write_plan(settings)
    edit(settings)
    plan = write_plan(settings)
    assert tables_read == ["mine", "mine"]
    assert read_plan(plan.path) == plan


ADDED = {
    "pkg/plots.py": "",
    "pkg/data/rules.py": "",
    "other/rules.py": "",
    "toys/data.csv": "",
    "toys/printed/scores.csv": "exhibit,model,split,method,params,task,metric,value,scale\n",
}


@pytest.mark.parametrize("added", ADDED)
def test_a_plan_is_made_again_if_a_package_has_another_file(
    settings, tables_read, added, monkeypatch
):
    for name in ("pkg/data", "other", "toys/printed"):
        Path(name).mkdir(parents=True)
    Path("pkg/__init__.py").touch()
    Path("other/__init__.py").write_text("def theirs(weight):\n    return abs(weight)\n")
    Path("pkg/rules.py").write_text("def mine(weight):\n    return abs(weight)\n")
    Path("toys/__init__.py").write_text(
        "from subtune.exhibits.score_tables import dev_score_table\n"
        "from subtune.papers.paper import Paper\n\n"
        "TABLE = dev_score_table('table1', 'Scores', ['table1'])\n"
        "PAPER = Paper(name='toys', citation='Toys', exhibits=[TABLE])\n"
    )
    top = {"share": 0.1, "of": ["encoder.layer.**.weight"], "by": "pkg.rules:mine"}
    settings["selections"] = {"mine": {"top": top}, "theirs": {"top": top | {"by": "other:theirs"}}}
    paper = str(Path("toys").resolve())
    settings["experiments"]["first"] |= {
        "methods": {"mine": [1e-3], "theirs": [1e-3]},
        "paper": paper,
    }
    monkeypatch.syspath_prepend(Path.cwd())
    for name in ("pkg", "pkg.rules", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    write_plan(settings)
    assert write_plan(settings) and tables_read == ["mine"]
    Path(added).write_text(ADDED[added])
    write_plan(settings)
    assert tables_read == ["mine", "mine"]


def test_a_plan_is_made_again_by_another_version_of_subtune(settings, tables_read, monkeypatch):
    path = Path(write_plan(settings).path)
    before = path.stat().st_ino
    monkeypatch.setattr(plan_file, "_hash_code", lambda: "newer")
    assert Path(write_plan(settings).path) == path
    assert tables_read == ["mine", "mine"]
    # Jobs of another user who may read only this file may need it.
    assert path.stat().st_ino == before


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
def passed_plan(settings, monkeypatch, minilm):
    """The plan that a call passes to its jobs."""
    monkeypatch.setenv(plan_file.PASSED, "{}")
    settings["models"]["minilm"]["path"] = str(shutil.copytree(minilm, "model"))
    plan = write_plan(settings)
    pass_plan(plan, "")
    return plan


@pytest.mark.parametrize("edit", [edit_the_table, edit_the_configuration])
@pytest.mark.fault(
    "interruptions",
    "files are edited while jobs run or wait",
    "jobs keep their plan, which is removed after 90 days without use",
)
def test_nothing_that_is_planned_beside_a_call_changes_its_plan(settings, passed_plan, edit):
    edited = copy.deepcopy(settings)
    edit(edited)
    assert write_plan(edited).path != passed_plan.path
    assert read_passed_plan("") == passed_plan


@pytest.mark.parametrize("module", ["", "other"])
def test_calls_from_jobs_and_modules_of_a_call_have_their_own_plans(settings, passed_plan, module):
    other = write_plan(settings | {"results": "other"})
    pass_plan(other, module)
    assert read_passed_plan(module) == other
    assert read_passed_plan("") == (passed_plan if module else other)


def test_a_job_without_environment_variables_says_what_it_lacks(passed_plan, monkeypatch):
    monkeypatch.delenv(plan_file.PASSED)
    with pytest.raises(
        SubtuneError, match=r"^SUBTUNE_PLANS: .* cluster pass environment variables"
    ):
        read_passed_plan("")


def lose_the_plan(plan):
    Path(plan.path).unlink()
    return "tokens/mine"


def cut_the_plan(plan):
    Path(plan.path).write_text('{"jobs": {"tok')
    return "tokens/mine"


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lose_the_plan, "cannot read this plan; run the command again: No such file or directory"),
        (cut_the_plan, "cannot read this plan; run the command again: Unterminated string"),
        (lambda plan: "tokens/none", "tokens/none: this job is not in the plan"),
        (lambda plan: "nothing/none", "nothing/none: this job is not in the plan"),
    ],
)
def test_a_job_that_is_not_found_is_one_line_in_its_log(passed_plan, monkeypatch, prepare, message):
    monkeypatch.setattr(os, "environ", {**os.environ})
    params = SimpleNamespace(job=prepare(passed_plan))
    config, script = {"plan_file": passed_plan.path}, ROOT / "workflow" / "scripts" / "step.py"
    job = SimpleNamespace(log=["own.log"], config=config, params=params, scriptdir=script.parent)
    with pytest.raises(SystemExit):
        runpy.run_path(str(script), {"snakemake": job})
    *_, last = lines = Path("own.log").read_text().splitlines()
    assert len(lines) == 2 and re.search(f"error: .*{message}", last)


def leave(path, days):
    """Let nobody have used a file for some days."""
    os.utime(path, times=(time.time() - days * 24 * 3600,) * 2)


def test_only_plans_that_nobody_has_used_for_long_are_removed(settings, passed_plan):
    def plan_with(margin):
        settings["experiments"]["first"]["margin"] = margin
        return write_plan(settings).path

    unused, recent, of_a_job, of_a_call = map(plan_with, (0.1, 0.2, 0.3, 0.4))
    draft = Path("results/plans", f".{'0' * 32}.of-a-killed-call.json")
    draft.touch()
    for path in draft.parent.iterdir():
        leave(path, plan_file.DAYS_UNUSED + 1)
    leave(recent, plan_file.DAYS_UNUSED - 1)
    read_plan(of_a_job)
    assert plan_with(0.4) == of_a_call and Path(unused).exists()
    new = plan_with(0.5)
    kept = {str(path) for path in draft.parent.resolve().iterdir()}
    assert {path for path in kept if "configuration" not in path} == {
        recent,
        of_a_job,
        of_a_call,
        new,
    }
    assert len(kept) == 6


@pytest.fixture
def of_another_user(monkeypatch):
    """The files of plans belong to another user, and only owners can set times."""
    monkeypatch.setattr(os, "utime", Mock(side_effect=PermissionError(1, "not permitted")))


def test_a_plan_of_another_user_is_used_by_a_copy_with_the_same_mode(passed_plan, of_another_user):
    path = Path(passed_plan.path)
    path.chmod(0o640)
    before = path.stat().st_ino
    assert read_plan(passed_plan.path) == passed_plan
    assert path.stat().st_ino != before and path.stat().st_mode & 0o777 == 0o640


def test_a_plan_in_results_that_cannot_be_written_is_read(
    settings, passed_plan, of_another_user, monkeypatch, tables_read
):
    monkeypatch.setattr(
        plan_file, "write_text", Mock(side_effect=OSError(30, "Read-only file system"))
    )
    assert write_plan(settings) == passed_plan and tables_read == []


# The steps whose jobs compute the ids of runs.
OF_RUNS = ["train", "scores", "runs"]
VERSIONS = {
    "data_version": ("DATA_VERSION", ["dataset", "tokens", "fisher", *OF_RUNS]),
    "tokens_version": ("TOKENS_VERSION", ["tokens", "fisher", *OF_RUNS]),
    "recipe_version": ("RECIPE_VERSION", OF_RUNS),
    "fold_version": ("FOLD_VERSION", OF_RUNS),
    "fit_version": ("FIT_VERSION", []),
}


@pytest.mark.parametrize(("version", "steps"), VERSIONS.values(), ids=VERSIONS)
@pytest.mark.fault(
    "interruptions",
    "subtune is updated during a call",
    "jobs whose results would change are rejected; the next call counts what it repeats",
)
def test_a_job_is_refused_if_an_update_changes_its_results(settings, monkeypatch, version, steps):
    del settings["tasks"]["mine"]["files"]["validation"]
    settings["experiments"]["first"]["folds"] = 2
    plan = write_plan(settings)
    monkeypatch.setattr(spec, version, getattr(spec, version) + 1)
    monkeypatch.setattr("subtune.core.files.Path.mkdir", Mock(side_effect=InterruptedError))
    refused = set()
    for step, by_id in plan.jobs.items():
        for job in by_id.values():
            try:
                run_job(job)
            except InterruptedError:
                continue
            except SubtuneError as error:
                assert f"planned by another version of subtune ({version.lower()} " in str(error)
                refused.add(step)
    assert [step for step in STEPS if step in refused] == steps


def test_finished_jobs_that_an_update_repeats_are_counted(settings, monkeypatch):
    settings["experiments"]["first"]["methods"] = {"frozen": [1e-3]}
    for by_id in write_plan(settings).jobs.values():
        for job in by_id.values():
            for path in list_files(job.outputs) if job.step in ("tokens", "train") else ():
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).touch()
    monkeypatch.setattr(plan_file, "_hash_code", lambda: "an update that changes no result")
    assert write_plan(settings).notes == []
    monkeypatch.setattr(plan_file, "_hash_code", lambda: "another")
    monkeypatch.setattr(spec, "RECIPE_VERSION", 6)
    [note] = write_plan(settings).notes
    assert note == "subtune was updated (recipe_version 5, now 6); finished jobs to run again: 1"


@pytest.mark.parametrize("results", [5, ["results"], None])
def test_a_plan_without_a_place_is_refused_as_a_mistake_of_the_configuration(settings, results):
    with pytest.raises(SubtuneError, match="results: found"):
        write_plan(settings | {"results": results})


def test_what_a_job_imports_takes_no_time():
    slow = {"pandas", "pydantic", "torch", "matplotlib", "subtune.config", "subtune.plan"}
    code = "import sys, subtune.steps.plan_file, subtune.core.process; print(*sys.modules)"
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


def test_a_job_whose_script_does_not_fit_an_updated_library_says_so(tmp_path, monkeypatch):
    monkeypatch.delattr("subtune.core.files.keep_comparisons_away")
    monkeypatch.setattr(sys, "path", [*sys.path])
    script, log = ROOT / "workflow" / "scripts" / "step.py", tmp_path / "job.log"
    given = SimpleNamespace(scriptdir=str(script.parent), log=[str(log)])
    with pytest.raises(ImportError):
        runpy.run_path(str(script), {"snakemake": given})
    assert log.read_text().endswith("; run the command again\n")
