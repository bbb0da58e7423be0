"""Calls of Snakemake, and runs to export."""

import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from subtune import cli
from subtune.core.errors import SubtuneError
from subtune.core.layout import Layout
from subtune.interface import workflow
from subtune.interface.workflow import run_to_export
from subtune.runs.spec import Fold
from subtune.steps import plan_file
from subtune.steps.job import Job
from subtune.steps.plan_file import PlannedJobs
from tests.helpers import examples
from tests.helpers.records import record


def test_a_call_without_space_for_temporary_files_gets_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**16))
    assert cli.main(["run", "mine.yaml", "-n"]) == 1
    assert re.fullmatch(r"TMPDIR: \S+ is full; free some space or .*\n", capsys.readouterr().err)


@pytest.fixture
def runs(tmp_path, tiny_bert):
    """A chosen run of a fold, a run that was not chosen, and a run without a fold."""
    plain = examples.run_spec()
    fold, other = (
        plain.replaced(recipe=plain.recipe.replaced(fold=Fold(of=2, number=0), learning_rate=rate))
        for rate in (1e-2, 1e-3)
    )
    record(tmp_path / "runs", [fold, other, plain], tiny_bert)
    path = tmp_path / Layout(".").data("mine", "chosen")
    path.parent.mkdir(parents=True)
    path.write_text(f"run,model,task,method\n{fold.id},tiny,sst2,layernorm\n")
    return fold.id, other.id, plain.id


@pytest.fixture
def exported(tmp_path):
    """A function that returns the run to export for a run and a configuration."""
    experiment = {"models": ["tiny"], "tasks": ["sst2"], "methods": {"layernorm": [1e-2]}}
    written = {
        "results": str(tmp_path),
        "models": {"tiny": {"path": "."}},
        "experiments": {"mine": experiment | {"epochs": 1, "batch_size": 4}},
    }

    def exported(run, path="mine.yaml", **changes):
        if path == "mine.yaml":
            (tmp_path / path).write_text(yaml.safe_dump(written | changes))
        return run_to_export(tmp_path, run, tmp_path / path)

    return exported


def test_a_run_that_is_not_of_cross_validation_is_exported_itself(runs, exported):
    assert exported(runs[2], "none.yaml") == runs[2]


def test_a_run_on_all_rows_is_made_if_it_is_not_recorded(runs, exported, tmp_path, monkeypatch):
    fold, _, plain = runs
    made = tmp_path / "experiments/mine/data/refit/tiny/sst2/layernorm.csv"
    job = Job("refit", "mine/tiny/sst2/layernorm", {}, {}, {"run": str(made)}, {})
    chosen = tmp_path / Layout(".").data("mine", "chosen")
    job = job._replace(inputs={"chosen": str(chosen)})
    plan = PlannedJobs({"refit": {job.id: job}}, {}, {}, [])
    monkeypatch.setattr(plan_file, "write_plan", lambda _: plan)

    trained = []

    def do_alone(job, *_):
        trained.append(job.id)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(f"run,model\n{plain},tiny\n")

    monkeypatch.setattr(workflow, "do_alone", do_alone)
    assert exported(fold) == plain
    made.write_text("run,model\n000000000000,tiny\n")
    assert exported(fold) == plain
    assert exported(fold) == plain
    assert len(trained) == 2
    # The comparison has gone on since then.
    later = made.stat().st_mtime_ns + 10**9
    os.utime(chosen, ns=(later, later))
    assert exported(fold) == plain
    assert len(trained) == 3


def test_a_method_that_is_no_longer_configured_is_not_exported(runs, exported, monkeypatch):
    monkeypatch.setattr(plan_file, "write_plan", lambda _: PlannedJobs({"refit": {}}, {}, {}, []))
    with pytest.raises(SubtuneError, match=r"mine.yaml: found no layernorm on sst2 in mine, exp"):
        exported(runs[0])


def test_a_run_that_cannot_be_exported_gets_one_line(runs, exported):
    fold, other, _ = runs
    with pytest.raises(SubtuneError, match=r"with its method's chosen learning rate[^\n]*$"):
        exported(other)
    with pytest.raises(SubtuneError, match=r"--config: found .* with the results other, [^\n]*$"):
        exported(fold, results="other")
    with pytest.raises(
        SubtuneError, match=r"found no .*none.yaml, expected the run's config[^\n]*$"
    ):
        exported(fold, "none.yaml")
