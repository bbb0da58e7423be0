"""The profile and the environments for a cluster, and the page about them."""

import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from subtune import cli
from subtune.config.checks import check_config, read_config
from subtune.plan.cost import Estimates
from subtune.plan.plan import make_plan
from tests.helpers.project import ROOT, SNAKEMAKE, printed

PAGE = ROOT / "docs" / "cluster.md"


def test_the_page_has_the_costs_that_the_command_prints(capsys, monkeypatch):
    page = " ".join(PAGE.read_text().split())
    monkeypatch.chdir(ROOT)
    assert cli.main(["plan"]) == 0
    # Another table follows.
    table, _, others = capsys.readouterr().out.partition("\n\n")
    assert "would not end" not in others
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")]
    header, *lines = [[cell.strip() for cell in row] for row in rows]
    by_name = {cells[0]: dict(zip(header, cells, strict=True)) for cells in lines}
    assert len(by_name) > 8
    total = by_name.pop("all, each once")
    assert f"takes {total['hours']} hours in {total['jobs']} jobs" in page
    assert f"The records take {total['gigabytes']} GB" in page
    for name, cost in by_name.items():
        assert float(cost["hours"]) < 15 or f"`{name}` {cost['hours']}" in page


def test_jobs_that_four_attempts_do_not_end_are_counted_in_the_plan(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    text, own = Path("config.yaml").read_text(), tmp_path / "own.yaml"
    own.write_text(text.replace("longest_job_hours: 24", "longest_job_hours: 4"))
    assert cli.main(["plan", str(own)]) == 0
    said = capsys.readouterr().out
    estimates = Estimates(make_plan(read_config(own)))
    costs = [*map(estimates.sweep_cost, estimates.plan.sweeps)]
    too_long = sum(cost.seconds > 4 * 4 * 3600 for cost in costs)
    assert too_long > 10
    assert f"{too_long} of {len(costs)} training jobs would not end" in said


def test_all_papers_are_planned_for_slurm_without_network_or_gpu(no_network):
    """Only jobs that compute ask for a GPU."""
    said = printed([*no_network, *SNAKEMAKE, "--profile", "slurm", "-n"], ROOT)
    computing = {"train", "fisher", "test_predictions"}
    # Each printed job begins with its rule's name.
    parts = re.split(r"^ *(?:local)?rule (\w+):$", said, flags=re.M)[1:]
    blocks = list(zip(parts[::2], parts[1::2], strict=True))
    assert {rule for rule, block in blocks if "gpu=1" in block} == computing
    for rule, block in blocks:
        if rule in computing:
            assert "slurm_extra=--signal=TERM@120" in block
            assert int(re.search(r"mem_mb=(\d+)", block)[1]) > 3000
            assert int(re.search(r"runtime=(\d+)", block)[1]) > 10


@pytest.mark.nightly
@pytest.mark.fault(
    "interruptions", "a cluster rejects a job", "it is retried three times; other jobs run"
)
def test_a_job_that_a_cluster_refuses_is_named_and_the_next_call_goes_on(
    finished_project, tmp_path
):
    project = finished_project.copy(tmp_path / "project")
    config = project.changed(fractions=None) | {"test_scores": None}
    # The jobs for datasets run here, and end one after another.
    shutil.rmtree(project.directory / "results")
    (tmp_path / "bin").mkdir()
    refuse = f"echo called >> {tmp_path}/calls\necho 'sbatch: error: Invalid account' >&2\nexit 1"
    for name in ("sbatch", "squeue", "sacct", "sacctmgr", "sshare", "sinfo", "scontrol"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{refuse if name == 'sbatch' else ''}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    project.environment["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    on_slurm = ["--profile", "slurm", "--slurm-init-seconds-before-status-checks", "1"]
    with pytest.raises(AssertionError) as error:
        project.run(config, *on_slurm, "--until", "tokens")
    last = str(error.value).splitlines()[-1]
    assert re.fullmatch(r"(tokens \S+(, )?){3} failed: .*sbatch: error: Invalid account.*", last)
    # Three jobs, with three retries each.
    assert (tmp_path / "calls").read_text() == "called\n" * 12
    project.run(config, "--until", "tokens")


def locked() -> dict[str, str]:
    """Return the locked version of each package."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def declared(*extras: str) -> list[Requirement]:
    """Return the requirements of the project and of these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    added = [text for extra in extras for text in project["optional-dependencies"][extra]]
    return [Requirement(text) for text in [*project["dependencies"], *added]]


def test_every_declared_range_admits_the_locked_version_and_ends_at_a_major_one():
    for package in declared("demo", "dev", "docs"):
        version = locked()[canonicalize_name(package.name)]
        assert package.specifier.contains(version), package
    for package in declared():
        operators = {specifier.operator: specifier.version for specifier in package.specifier}
        assert operators.keys() == {">=", "<"} and "." not in operators["<"], package


def test_every_locked_package_but_torch_has_the_hashes_of_its_files():
    text = (ROOT / "requirements.hashes").read_text().replace("\\\n", "")
    hashed = re.findall(r"^(\S+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+) *$", text, re.M)
    versions = {canonicalize_name(name): version for name, version, _ in hashed}
    assert versions | {"torch": locked()["torch"]} == locked()
    assert "torch" not in versions


def test_both_environments_hold_the_locked_requirements():
    pins = {
        f"{package.name}=={locked()[canonicalize_name(package.name)]}" for package in declared()
    }
    torch = f"torch=={locked()['torch']}"
    for name, pinned in (("cpu", pins - {torch}), ("cuda", pins)):
        packages = yaml.safe_load((ROOT / "envs" / f"{name}.yaml").read_text())["dependencies"]
        assert set(packages[-1]["pip"]) == pinned
        if name == "cpu":
            assert f"pytorch={torch.removeprefix('torch==')}=cpu_*" in packages


def test_settings_of_machines_change_no_run():
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    before = make_plan(check_config(data))
    changes = {"assumptions": {"device": "A100"}, "checkpoint_minutes": 1, "hub_cache": "x"}
    after = make_plan(check_config(data | changes))
    assert before.runs.keys() == after.runs.keys()
    assert before.sweeps.keys() == after.sweeps.keys()


def test_a_cpu_trains_the_runs_of_a_gpu_in_other_jobs():
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    on_gpu = make_plan(check_config(data))
    on_cpu = make_plan(check_config(data | {"assumptions": {"device": "CPU core"}}))
    assert on_gpu.runs.keys() == on_cpu.runs.keys()
    assert on_gpu.sweeps.keys() != on_cpu.sweeps.keys()
