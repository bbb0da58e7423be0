"""What a cluster is given: the profile, environments, and a page that says how."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from subtune import cli, config
from subtune.core import python_path as sources
from subtune.planning.plan import plan as plan_of
from tests.helpers.project import ROOT, SNAKEMAKE, call, job_counts

PAGE = (ROOT / "docs" / "cluster.md").read_text()
COMMANDS = [
    line.strip()
    for line in PAGE.splitlines()
    if re.match(r" +(make |\.venv/bin/|apptainer )", line)
]
# What submits or downloads is planned; `make install` has been run, and no image can be built here.
PLANNED_ONLY = {
    "make install": "make -n install",
    ".venv/bin/snakemake --profile slurm --until dataset model": (
        "snakemake --profile slurm -n --until dataset model"
    ),
    ".venv/bin/snakemake --profile slurm layernorm": "snakemake --profile slurm -n layernorm",
    ".venv/bin/snakemake --profile slurm --sdm apptainer --config container=subtune.sif": (
        "snakemake --profile slurm -n --config container=subtune.sif"
    ),
    "apptainer build subtune.sif envs/subtune.def": None,
}


@pytest.mark.parametrize("command", [c for c in COMMANDS if PLANNED_ONLY.get(c, c)])
def test_a_command_of_the_page_works(command):
    done = call(PLANNED_ONLY.get(command, command))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_the_plan_that_the_command_prints(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.main(["plan"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][:8]
    assert len(rows) == 8
    for row in rows:
        assert row in PAGE


def paper_scale(tmp_path: Path) -> Path:
    """All four papers with three seeds."""
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    for experiment in data["experiments"].values():
        experiment["seeds"] = [0, 1, 2]
    path = tmp_path / "three-seeds.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_all_papers_with_three_seeds_are_planned_without_network_or_gpu(tmp_path, no_network):
    """Fewer than 500 jobs are submitted on GLUE, and 20 for part of speech and SQuAD.

    How long planning takes is measured elsewhere.
    """
    config_file = paper_scale(tmp_path)
    done = subprocess.run(
        [*no_network, *SNAKEMAKE, "--profile", "slurm", "-n", "--configfile", config_file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    counts = job_counts(done.stdout + done.stderr)
    # Token ids are one group, and scores on training rows are in the groups of their sweeps.
    assert 100 < sum(counts[rule] for rule in ("train", "fisher", "test_predictions")) + 1 < 520


def test_jobs_that_compute_ask_for_a_gpu_and_others_do_not():
    done = call("snakemake --profile slurm -n layernorm")
    text = done.stdout + done.stderr
    # What is printed of a job begins with its rule's name.
    parts = re.split(r"^ *(?:local)?rule (\w+):$", text, flags=re.MULTILINE)[1:]
    blocks = list(zip(parts[::2], parts[1::2], strict=True))
    computing = {"train", "fisher", "test_predictions"}
    assert {rule for rule, block in blocks if "gpu=1" in block} == computing
    for rule, block in blocks:
        if rule in computing:
            assert "slurm_extra=--signal=TERM@120" in block
            assert int(re.search(r"mem_mb=(\d+)", block)[1]) > 3000
            assert int(re.search(r"runtime=(\d+)", block)[1]) > 10


def locked() -> dict[str, str]:
    """Each locked package's version."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


def declared(*extras: str) -> list[Requirement]:
    """What the project needs, and what its extras add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    added = [text for extra in extras for text in project["optional-dependencies"][extra]]
    return [Requirement(text) for text in [*project["dependencies"], *added]]


def test_every_declared_range_admits_the_locked_version_and_ends_at_a_major_one():
    for package in declared("demo", "dev"):
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


def test_both_environments_hold_what_the_project_needs_as_it_is_locked():
    pins = {
        f"{package.name}=={locked()[canonicalize_name(package.name)]}" for package in declared()
    }
    torch = f"torch=={locked()['torch']}"
    for name, pinned in (("cpu", pins - {torch}), ("cuda", pins)):
        packages = yaml.safe_load((ROOT / "envs" / f"{name}.yaml").read_text())["dependencies"]
        assert set(packages[-1]["pip"]) == pinned
        if name == "cpu":
            assert f"pytorch={torch.removeprefix('torch==')}=cpu_*" in packages


def test_jobs_in_other_environments_find_the_workflows_own_code(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    sources.offer(tmp_path / "src")
    assert os.environ["PYTHONPATH"] == f"{tmp_path}/src:/elsewhere"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"assumptions": {"teraflops": {"fp32": 1}}},
            "assumptions.teraflops: found fp32, expected",
        ),
        ({"assumptions": {"teraflop": 1}}, "assumptions.teraflop: unknown key"),
        ({"environment": "gpu"}, "environment: found 'gpu', expected one of cpu, cuda"),
        ({"checkpoint_minutes": -1}, "checkpoint_minutes: found -1"),
    ],
)
def test_a_mistake_in_what_is_said_of_machines_is_one_line(change, message, tmp_path, capsys):
    data = yaml.safe_load((ROOT / "config.yaml").read_text()) | change
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(data))
    assert cli.main(["plan", str(path)]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


def test_what_is_said_of_machines_makes_no_run_another():
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    before = plan_of(config.check(data))
    changes = {"assumptions": {"device": "a laptop"}, "checkpoint_minutes": 1, "hub_cache": "x"}
    after = plan_of(config.check(data | changes))
    assert before.runs.keys() == after.runs.keys()
    assert before.sweeps.keys() == after.sweeps.keys()
